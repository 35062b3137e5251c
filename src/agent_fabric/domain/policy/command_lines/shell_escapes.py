"""Shell lines that other programs run: `!x` in an editor, `shell x` in a debugger, `.shell x` in a database.

What stands in their words, a heredoc or the literal text of a pipe is found. What a file holds is not.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from agent_fabric.domain.policy.command_lines.invocation import Connector, Invocation, Redirect

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
