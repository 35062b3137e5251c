"""Shell lines that other programs run: `!x` in an editor, `shell x` in a debugger, `.shell x` in a database.

What stands in their words, a heredoc or the literal text of a pipe is found. What a file holds is not.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from agent_fabric.domain.policy.command_lines.invocation import Connector, Invocation, Redirect
from agent_fabric.domain.policy.command_lines.names import names
from agent_fabric.domain.policy.command_lines.variables import assignments
from agent_fabric.domain.policy.command_lines.words import holds_code

_LINES: Final = re.MULTILINE
_EDITOR: Final = re.compile(
    r"^(?:[ \t:|\d,.$%;+-]|'[a-z<>])*(?:(?:r|w|e|f|read|write|edit|silent|execute)[ \t]*)?['\"]?!+(?P<text>.+)$"
    r"|\bsystem(?:list)?\(['\"](?P<call>[^'\"]*)|^[ \t:+]*ter(?:minal)?[ \t]+(?P<terminal>.+)$",
    _LINES,
)
_DEBUGGER: Final = re.compile(
    r"^[ \t]*(?:(?:(?:platform )?shell|sh)[ \t]|!)(?P<text>.+)$|^[ \t]*(?:pipe|\|)[ \t][^|\n]*\|(?P<pipe>.+)$"
    r"|^[ \t]*(?:python(?:-interactive)?|py|pi|script)[ \t]+(?P<python>.+)$",
    _LINES,
)
_DATABASE: Final = re.compile(
    r"^[ \t]*\.(?:shell|system|sh|sy\w*)[ \t]+(?P<text>.+)$"
    r"|^[ \t]*\.(?:o\w*|import|read|excel)\b[^|\n]*\|(?P<pipe>[^'\"\n]+)"
    r"|^[ \t]*(?:\\!|system[ \t])(?P<other>.+)$|\bPROGRAM[ \t]+'(?P<program>[^']*)'",
    _LINES | re.IGNORECASE,
)
_AWK: Final = re.compile(
    r"\bsystem\(\s*\"(?P<text>[^\"]*)\"|\|&?\s*\"(?P<to>[^\"]*)\"|\"(?P<from>[^\"]*)\"\s*\|&?\s*getline"
)
_SED: Final = re.compile(r"^[ \t]*[\d,$!]*e[ \t]+(?P<text>.+)$", _LINES)
_MACROS: Final = re.compile(r"\be?syscmd\(\s*[`'\"]?(?P<text>[^`'\")]*)")
_WHOLE: Final = re.compile(r"(?P<text>\A[\s\S]+\Z)")
_ESCAPES: Final[dict[str, re.Pattern[str]]] = {
    **dict.fromkeys(("ed", "red", "ex", "vi", "vim", "vimdiff", "nvim", "view"), _EDITOR),
    **dict.fromkeys(("gdb", "lldb", "rust-gdb", "cgdb"), _DEBUGGER),
    **dict.fromkeys(("sqlite3", "sqlite", "psql", "mysql", "mariadb", "duckdb", "gnuplot"), _DATABASE),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _AWK),
    **dict.fromkeys(("sed", "gsed"), _SED),
    "m4": _MACROS,
}
_SCHEDULERS: Final = frozenset({"at", "batch"})
"""Their input is a script."""
_SAY: Final = frozenset({"echo", "printf"})


def shell_lines(invocation: Invocation) -> Iterator[str]:
    """Yield the shell lines that a program of its own language is given to run."""
    name = invocation.name
    if name in _ESCAPES or name in _SCHEDULERS:
        for text in _texts_of(invocation):
            yield from lines_in(name, text)


def lines_in(name: str, text: str) -> Iterator[str]:
    """Yield the shell lines in a text that a program reads as commands of its own."""
    pattern = _WHOLE if name in _SCHEDULERS else _ESCAPES.get(name)
    for match in pattern.finditer(text) if pattern else ():
        for group, line in match.groupdict().items():
            if line and line.strip():
                yield f"python3 -c {shlex.quote(line)}" if group == "python" else line.strip()


def with_pipes(found: Iterable[Invocation]) -> Iterator[Invocation]:
    """Yield the commands of a line; those that read a literal text from a pipe as if it were a heredoc."""
    said: tuple[str, ...] = ()
    for invocation in found:
        piped = said if invocation.name in _ESCAPES or invocation.name in _SCHEDULERS else ()
        yield _with_input(invocation, piped)
        if invocation.connector is not Connector.PIPE:
            said = ()
        elif invocation.name in _SAY:
            said = tuple(word.replace("\\n", "\n") for word in invocation.words[1:])


def _with_input(invocation: Invocation, texts: Sequence[str]) -> Invocation:
    if not texts:
        return invocation
    body = Redirect("<<", "\n".join((*texts, " ".join(texts))))
    return replace(invocation, redirects=(*invocation.redirects, body))


def _texts_of(invocation: Invocation) -> Iterator[str]:
    if invocation.name not in _SCHEDULERS:
        yield from invocation.words[1:]
    yield from (each.target for each in invocation.redirects if each.operator.startswith("<<"))


# Builtins and variables that make bash run something that does not look like a command.
#
# `x='a[$(y)]'; unset "$x"` runs `y`, `PS4='$(y)'` does so with `set -x`, `hash -p y ls` gives `y` the name `ls`.
_READ_BY_BASH = names(
    "BASH_ALIASES BASH_CMDS BASH_ENV BASHOPTS ENV EXECIGNORE FIGNORE FUNCNEST PROMPT_COMMAND PS0 PS1 PS2 PS3 PS4 "
    "POSIXLY_CORRECT SHELLOPTS"
)
"""Variables that bash itself takes commands or rules from."""
_TAKES_INDEX = names(
    "[ declare export getopts let local mapfile printf read readarray readonly test typeset unset wait"
)
"""Builtins that work out the index in a name such as `a[$(x)]`."""
_INDEX_SIGNS = re.compile(r"\[|\]|\$[\\'\"]*\(|`")
_LETTERS = {"hash": "p", "enable": "f", "compgen": "CFW", "mapfile": "C", "readarray": "C"}
_ALWAYS = frozenset({"bind", "complete", "compopt", "fc", "history"})


def runs_later(invocation: Invocation) -> str:
    """Say what a command makes bash run although it does not look like it; empty if there is nothing of the kind."""
    for variable, _ in assignments(invocation):
        if variable in _READ_BY_BASH:
            return f"what bash does with {variable}"
    name, words = invocation.name, invocation.words
    letters = _LETTERS.get(name, "")
    if letters and any(_has(word, letters) for word in words[1:]):
        return f"what {name} runs"
    if name in _ALWAYS and len(words) > 1:
        return f"what {name} runs"
    if name in {"compgen", "hash", "enable"} and invocation.unknown:
        return f"what {name} runs"
    if name in _TAKES_INDEX:
        texts = [*words, *(redirect.target for redirect in invocation.redirects if redirect.operator.startswith("<<"))]
        if any(map(_holds_index, texts)):
            return f"the index that {name} works out"
        if name in {"test", "["} and "-v" in words and invocation.unknown:
            return f"the index that {name} works out"
    if name == "read" and any(holds_code(r.target) for r in invocation.redirects if not r.unknown):
        return "what is made of the text that read is given"
    return ""


def _holds_index(text: str) -> bool:
    """Tell whether a substitution stands between brackets."""
    opened = False
    for sign in _INDEX_SIGNS.finditer(text):
        if sign[0] in "[]":
            opened = sign[0] == "["
        elif opened:
            return True
    return False


def _has(word: str, letters: str) -> bool:
    return word.startswith("-") and not word.startswith("--") and any(letter in word for letter in letters)
