"""Code of other languages that stands in a command line: what it removes, as far as its text tells."""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from agent_fabric.domain.commands.invocation import Connector, Invocation
from agent_fabric.domain.commands.names import names
from agent_fabric.domain.policy.places import UNKNOWN, is_disk, is_vital, joined

_INTERPRETERS: Final = re.compile(
    r"(?:python|pypy|ipython|perl|ruby|irb|node|deno|bun|php|lua|tclsh|julia|octave|elixir|R)[0-9.]*"
    r"|[gmn]?awk|sed|g?make|Rscript|osascript|m4|groovy|scala|jshell"
)
_READ_INPUT: Final = re.compile(r"(?:python|pypy|ipython|perl|ruby|irb|node|deno|bun|php|lua|tclsh|julia)[0-9.]*|m4|R")
"""Interpreters that run their input if they are given nothing else."""
_EDITS_TEXT: Final = names("sed make gmake m4")
"""What looks like a removal in their words is as often the text that they change, or names a file that they read."""
REMOVES_TREES: Final = re.compile(
    r"rmtree|removedirs|remove_tree|rimraf|rmSync|rmdirSync|FileUtils\.(?:rm|remove)|\brm[\s'\x22,]+-\w*[rR]|fs\.rm\b"
)
"""How programs in other languages remove a tree, or start what does."""
_REMOVES_FILES: Final = re.compile(r"unlink|\.delete\(")
_REMOVES_ONE: Final = re.compile(r"os\.(?:remove|rmdir)|\.rmdir\(|File\.delete")
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
    "any all len unlink sync maxRetries"
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


def removed_by_code(invocation: Invocation, line: str, found: Sequence[Invocation]) -> Iterator[CodeRemoval]:
    """Yield what the code in a command removes: vital places that it names, and what only its run would tell."""
    if not _INTERPRETERS.fullmatch(invocation.name):
        return
    code = "\n".join(_texts_of(invocation, line, found))
    writes, removing = "/dev" in code and _WRITES.search(code), removes(code)
    if not writes and not removing:
        return
    tokens = [each.strip("\\,:") for each in TOKENS.findall(code)]
    if writes:
        yield from (CodeRemoval(token, token, disk=True) for token in tokens if is_disk(token))
    if not removing:
        return
    for token in tokens:
        if is_vital(token) or GIT.fullmatch(token):
            yield CodeRemoval(joined(".", token), token)
    if _HOME.search(code):
        yield CodeRemoval("~", "the home folder")
    elif invocation.name not in _EDITS_TEXT and REMOVES_TREES.search(code) and not _is_literal(code):
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
