"""Code of other languages that stands in a command line: what it removes, as far as its text tells."""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from agent_fabric.domain.policy.command_lines.invocation import Connector, Invocation
from agent_fabric.domain.policy.command_lines.names import names
from agent_fabric.domain.policy.places import UNKNOWN, is_disk, is_vital, join_path

_INTERPRETERS: Final = re.compile(
    r"(?:python|pypy|ipython|perl|ruby|irb|node|deno|bun|php|lua|luajit|tclsh|expect|julia|octave|elixir|erl|R|ghc|runghc"
    r"|emacs|n?vim|guile|racket|sbcl|clojure|clj|bb|ocaml|swift|crystal|pwsh|powershell|gjs|qjs)[0-9.]*"
    r"|[gmn]?awk|sed|g?make|Rscript|osascript|m4|groovy|scala|jshell"
)
_READ_INPUT: Final = re.compile(r"(?:python|pypy|ipython|perl|ruby|irb|node|deno|bun|php|lua|tclsh|julia)[0-9.]*|m4|R")
"""Interpreters that run their input if they are given nothing else."""
_EDITS_TEXT: Final = names("sed make gmake m4")
"""What looks like a removal in their words is as often the text that they change, or names a file that they read."""
REMOVES_TREES: Final = re.compile(
    r"rmtree|removedirs|remove_tree|rimraf|rmSync|rmdirSync|FileUtils\.(?:rm|remove)|\brm[\s'\x22,]+-\w*[rR]|fs\.rm\b"
    r"|promises(?:['\x22]\))?\.rm\b|Deno\.remove|File\.rm_rf|\brm\(\s*['\x22]|\bfile\s+delete\b|deleteDir\b|deleteRecursively"
    r"|removeDirectoryRecursive|remove(?:Path|Dir)Forcibly|delete-directory|Remove-Item|\bcall\s+delete\("
)
"""How programs in other languages remove a tree, or start what does."""
_REMOVES_FILES: Final = re.compile(r"unlink|\.delete\(")
_REMOVES_ONE: Final = re.compile(r"os\.(?:remove|rmdir)|\.rmdir\(|File\.delete")
_DELETES: Final = re.compile(
    r"\bunlink|\brmdir|\brm_rf?\b|\bremove_(?:dir|entry|file)|\bremove(?:Sync|File|Dir(?:ectory)?)\b|\bdelete[-_]file|\bsend2trash"
    r"|\b(?:os|fs|[Ff]ile|Files|Deno|Dir|IO|FS|Path(?:name)?(?:\([^)]*\))?)\s*(?:\.|::|->)\s*(?:rm|remove|delete|unlink)"
    r"|\bfrom\s+(?:os|shutil)\s+import[^;\n]*\bremove\b|\bnew\s+File\([^)]*\)\.delete"
    r"|['\x22`\s;|&(](?:rm|shred)(?:\s+|['\x22]\s*,\s*)[-./~\w$'\x22{]"
)
"""How they remove a file, or start what does. It may happen in a loop."""
_JULIA: Final = re.compile(r"\brm\(")
_AWK_STARTS: Final = re.compile(r"system|\||getline")
"""Without these, awk only changes text."""
_HIDES: Final = re.compile(
    r"\b(?:exec|eval|system|popen|Function|instance_eval|call)\b[^\n]*"
    r"(?:b64decode|decode64|decode_base64|fromhex|unhexlify|decompress|rot_?13|fromCharCode|\batob|Buffer\.from|\bu?n?pack\b"
    r"|\bchr\(|::-1\]|\breverse)"
    r"|\bgetattr\(\s*(?:os|shutil|subprocess|builtins|__builtins__|__import__)\b"
)
"""Code that makes code, or the name of what it calls, while it runs."""
_LISTS: Final = re.compile(r"walk|scandir|listdir|glob|iterdir|entries")
_WRITES: Final = re.compile(r"""['"][rwax]?b?[wax+]b?\+?['"]|O_WRONLY|O_RDWR|write|copy|>|\bdd\b""")
TOKENS: Final = re.compile(r"""(?<![\w}])[{]?([^\s'"`;&|()<>,=\[\]{}]+)""")
GIT: Final = re.compile(r"(?:[\w./-]*/)?\.git(?:/.*)?", re.IGNORECASE)
_AFTER_VALUE: Final = re.compile(r"""(\$\w+|\}|\))["']/""")
"""In `"$x"/` the slash is no word of its own."""
_HOME: Final = re.compile(
    r"expanduser|Path\.home\(\)|homedir\(\)|Dir\.home|\bHOME\b|USERPROFILE|getpwuid|pw_dir|HOMEPATH|getuser"
)
_STRING: Final = re.compile(r"""(?<![\w\\])[rb]?(?:'([^'\\$`]*)'|"([^"\\$`{]*)")""")
_BOUND: Final = re.compile(
    r"(?:\bfor|\bas|\blambda|\bmy|\bconst|\blet|\bvar)\s+[$@%]?(\w+)|[$@%]?\b(\w+)\s*=(?!=)|\|(\w+)\|"
)
_PLAIN_WORDS: Final = names(
    "import from as for in if not and or lambda def return try except pass with else while do end then true false True "
    "False None null undefined const let var my use require map forEach each list sorted set print puts console log "
    "shutil os path pathlib Path glob iglob rglob rmtree removedirs ignore_errors recursive force isdir exists is_dir "
    "File Path remove_tree FileUtils fileutils rm_rf rm_r rm remove_dir remove_entry rmSync rmdirSync fs node promises "
    "existsSync Dir MFile BEGIN END system run call check_call subprocess rimraf await async e r c rf fr Rf str filter "
    "any all len unlink sync maxRetries remove rmdir delete unlinkSync removeSync Pathname Deno file missing_ok "
    "TRUE FALSE t eval"
)
"""Words of code that come from nowhere else: with literal strings, they tell what is removed."""


class CodeRemoval(NamedTuple):
    """Something that code removes or overwrites."""

    place: str
    shown: str
    disk: bool = False


def vital_in(text: str) -> tuple[str, ...]:
    """Return the words of a text that are vital places, or the repository's own folder."""
    tokens = TOKENS.findall(_AFTER_VALUE.sub(r"\1/", text.replace("${HOME}", "$HOME")))
    return tuple(sorted({token for token in tokens if is_vital(token) or GIT.fullmatch(token)}))


def removes(text: str) -> bool:
    """Tell whether a text holds code that removes files."""
    one = _REMOVES_ONE.search(text) and _LISTS.search(text)
    return bool(one or REMOVES_TREES.search(text) or _REMOVES_FILES.search(text))


def is_interpreter(invocation: Invocation) -> bool:
    """Tell whether a command can hold code of another language."""
    return _INTERPRETERS.fullmatch(invocation.name) is not None


def removed_by_code(
    invocation: Invocation, line: str, found: Sequence[Invocation], held: Sequence[str] = ()
) -> Iterator[CodeRemoval]:
    """Yield what the code in a command removes: vital places that it names, and what only its run would tell.

    `held` is what variables in its words may hold.
    """
    if not is_interpreter(invocation):
        return
    code = "\n".join((*_texts_of(invocation, line, found), *held))
    edits = invocation.name in _EDITS_TEXT or (invocation.name.endswith("awk") and not _AWK_STARTS.search(code))
    if not edits and _HIDES.search(code):
        yield CodeRemoval(UNKNOWN, "what the code hides")
    writes, removing = "/dev" in code and _WRITES.search(code), removes(code)
    deleting = REMOVES_TREES.search(code) or (_JULIA if invocation.name == "julia" else _DELETES).search(code)
    if not writes and not removing and not deleting:
        return
    tokens = [each.strip("\\,:") for each in TOKENS.findall(code)]
    if writes:
        yield from (CodeRemoval(token, token, disk=True) for token in tokens if is_disk(token))
    for token in tokens if removing else ():
        if is_vital(token) or GIT.fullmatch(token):
            yield CodeRemoval(join_path(".", token), token)
    if removing and _HOME.search(code):
        yield CodeRemoval("~", "the home folder")
    elif deleting and not edits and not _is_literal(code):
        yield CodeRemoval(UNKNOWN, "what the code names")


def _texts_of(invocation: Invocation, line: str, found: Sequence[Invocation]) -> Iterator[str]:
    yield from invocation.words[1:]
    yield from (each.target for each in invocation.redirects if each.operator.startswith("<<"))
    piped = any(each.connector is Connector.PIPE for each in found)
    if piped and _READ_INPUT.fullmatch(invocation.name) and set(invocation.words[1:]) <= {"-", "-i", "-u", "-q"}:
        yield line


def _is_literal(code: str) -> bool:
    """Tell whether everything that the code removes is named in it, by plain strings of this folder."""
    words = [word for first, second in _STRING.findall(code) for word in (first or second).split()]
    if any(word.startswith(("/", "~")) or ".." in word.split("/") for word in words):
        return False
    rest = _STRING.sub(" ", code)
    if any(sign in rest for sign in "\\'\"`") or re.search(r"\$\d|\$NF|\brm\s+-", rest):
        return False
    bound = {name for found in _BOUND.findall(rest) for name in found if name}
    return all(word in _PLAIN_WORDS or word in bound or word.isdigit() for word in re.findall(r"\w+", rest))
