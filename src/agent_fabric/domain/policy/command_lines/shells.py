"""Command text inside commands: what shells, `eval`, `trap`, `source` and `flock -c` are given to run."""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from agent_fabric.domain.policy.command_lines.grammar import parse_command
from agent_fabric.domain.policy.command_lines.invocation import Connector, Invocation, Redirect, only_at_run_time, part
from agent_fabric.domain.policy.command_lines.names import names
from agent_fabric.domain.policy.command_lines.words import assignments, holds_code

SHELLS = frozenset({"ash", "bash", "dash", "sh"})
_STREAMS = ("<(", "/dev/", "/proc/")
"""Files that are no scripts: what is read there is only known at run time."""


class _Given(NamedTuple):
    """What a shell is given."""

    at: int
    """Where its options end."""
    text: bool
    """Commands, by `-c`."""
    input: bool
    """Commands on its input, by `-s`."""
    nothing: bool
    """It only tells about itself."""
    doubtful: bool


def _given_script(invocation: Invocation) -> _Given:
    words = invocation.words
    at, text, takes_input, ended = 1, False, False, False
    while at < len(words) and not ended and words[at][:1] in {"-", "+"}:
        option = words[at]
        if at in invocation.unknown or option in {"--version", "--help"}:
            return _Given(
                at, text, takes_input, nothing=at not in invocation.unknown, doubtful=at in invocation.unknown
            )
        ended = option in {"-", "--"}
        short = "" if option.startswith("--") else option[1:]
        text = text or "c" in short
        takes_input = takes_input or "s" in short
        at += 1 + short.count("o") + short.count("O") + (option in {"--rcfile", "--init-file"})
    doubtful = at in invocation.unknown or any(n < at for n in invocation.splits)
    return _Given(at, text, takes_input, nothing=False, doubtful=doubtful)


def shell(invocation: Invocation) -> tuple[Invocation, ...]:
    """`bash -c …`, or a shell that reads commands from its input. A script file is not opened."""
    words, name, given = invocation.words, invocation.name, _given_script(invocation)
    if given.nothing:
        return ()
    if given.doubtful or (given.text and given.at >= len(words)):
        return only_at_run_time(f"what {name} runs")
    if given.text:
        # Arguments behind it are `$1` in it: only known at run time, like every other variable.
        return read_by(name, words[given.at])
    if given.at < len(words) and not given.input and not words[given.at].startswith(_STREAMS):
        return ()
    for redirect in reversed(invocation.redirects):
        if redirect.operator in {"<<", "<<-", "<<<"} and not redirect.unknown:
            return read_by(name, redirect.target)
        if redirect.operator == "<" and not redirect.unknown and not redirect.target.startswith(_STREAMS):
            return ()
    return only_at_run_time(f"what {name} reads and runs")


def script_of(invocation: Invocation) -> tuple[Invocation, ...]:
    """Return the script file that a shell is given, as the command that it is.

    A mere name is looked for among the programs, too: `bash curl` may start `curl`.
    """
    if invocation.dynamic or invocation.name not in SHELLS:
        return ()
    given = _given_script(invocation)
    if given != _Given(given.at, text=False, input=False, nothing=False, doubtful=False):
        return ()
    if given.at >= len(invocation.words) or invocation.words[given.at].startswith(_STREAMS):
        return ()
    script = part(invocation, given.at, len(invocation.words), nested=True)
    name = script.program
    return (script if "/" in name or "." not in name else replace(script, words=(f"./{name}", *script.words[1:])),)


_BASH_ONLY = re.compile(r"\$'|(?<!\$)\(\(|\[\[|<<<|&>|[<>]\(|\|&|;&|\b(?:function|coproc|select|time)\b")


def read_by(shell: str, text: str) -> tuple[Invocation, ...]:
    """Parse what a shell reads; what other shells than bash read in another way is not guessed."""
    if shell != "bash" and _BASH_ONLY.search(text):
        return only_at_run_time(f"what {shell} makes of it")
    return parse_command(text)


_FLOCK_VALUED = frozenset({"-w", "-E", "--timeout", "--wait", "--conflict-exit-code"})


def flock(invocation: Invocation) -> tuple[Invocation, ...]:
    """`flock FILE x …` or `flock FILE -c 'x …'`."""
    words = invocation.words
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in _FLOCK_VALUED else 1
    command = at + 1
    if any(n <= command for n in invocation.unknown):
        return only_at_run_time("what flock runs")
    if command < len(words) and words[command].startswith("-"):
        takes_text = words[command] in {"-c", "--command"} and command + 2 == len(words)
        if not takes_text or command + 1 in invocation.unknown:
            return only_at_run_time("what flock runs")
        return read_by("sh", words[command + 1])
    return (part(invocation, command, len(words), nested=False),) if command < len(words) else ()


def sourced_commands(invocation: Invocation) -> tuple[Invocation, ...]:
    """`. FILE`, where the file may be what a command writes."""
    if 1 in invocation.unknown and not invocation.words[1].startswith("<("):
        return only_at_run_time(f"what {invocation.name} reads")
    if invocation.words[1:2] and invocation.words[1].startswith(_STREAMS):
        return shell(invocation)
    return ()


def eval_command(invocation: Invocation) -> tuple[Invocation, ...]:
    """`eval …`."""
    if invocation.unknown:
        return only_at_run_time("what eval runs")
    words = invocation.words[2:] if invocation.words[1:2] == ("--",) else invocation.words[1:]
    return parse_command(" ".join(words))


def trap_command(invocation: Invocation) -> tuple[Invocation, ...]:
    """`trap … SIGNAL`: what runs when the signal comes."""
    handler = next((n for n, word in enumerate(invocation.words) if n and word != "--"), 0)
    if handler in invocation.unknown:
        return only_at_run_time("what trap runs")
    text = invocation.words[handler] if handler else "-"
    if text.startswith("-") or len(invocation.words) <= handler + 1:
        return ()
    return tuple(replace(inner, nested=True) for inner in parse_command(text))


def alias_command(invocation: Invocation) -> tuple[Invocation, ...]:
    """`alias x=…`."""
    defines = invocation.unknown or any("=" in word for word in invocation.words[1:])
    # From the next line on it may change what any word means.
    return only_at_run_time("what an alias runs") if defines else ()


# Whose output a command takes: by a pipe, or by a substitution in its words.
MAX_FEEDS = 64
"""Different ones that are kept for a command."""
_SUBSTITUTIONS = ("$(", "`", "<(")


def with_feeds(found: Sequence[Invocation], outer: Sequence[Invocation] = ()) -> Iterator[Invocation]:
    """Yield the commands of one list, each with those whose output it may take; `outer` feeds all of them."""
    if not outer and not any(map(_passes_on, found)):
        yield from found
        return
    feeding = {each.words[:2]: each for each in outer}
    group: list[Invocation] = []
    for at, invocation in enumerate(found):
        own = dict(feeding)
        if _takes_substitution(invocation):
            _add(own, _substitutions(found, at))
        yield replace(invocation, fed_by=tuple(own.values())) if own else invocation
        if invocation.connector is Connector.PIPE:
            # What stands in a group is said by the whole of it, which has no words; neither has the call of a function.
            inside = () if invocation.words else group or found[max(0, at - MAX_FEEDS) : at]
            _add(feeding, [invocation, *own.values(), *inside])
        elif not invocation.nested:
            feeding = {each.words[:2]: each for each in outer}
        group = [*group[-MAX_FEEDS:], invocation] if invocation.nested else []


def _add(feeding: dict[tuple[str, ...], Invocation], others: Iterable[Invocation]) -> None:
    for each in others:
        if each.words and len(feeding) < MAX_FEEDS:
            feeding.setdefault(each.words[:2], each)


def _substitutions(found: Sequence[Invocation], at: int) -> Iterator[Invocation]:
    """Yield what may stand in the substitutions of a command: it follows, and is nested."""
    for inner in found[at + 1 : at + 1 + MAX_FEEDS]:
        if not inner.nested:
            return
        yield inner


def _passes_on(invocation: Invocation) -> bool:
    return invocation.connector is Connector.PIPE or _takes_substitution(invocation)


def _takes_substitution(invocation: Invocation) -> bool:
    texts = (*invocation.words, *(each.target for each in invocation.redirects if each.unknown))
    return any(sign in text for text in texts for sign in _SUBSTITUTIONS)


# Shell lines that other programs run: `!x` in an editor, `shell x` in a debugger, `.shell x` in a database.
#
# What stands in their words, a heredoc or the literal text of a pipe is found. What a file holds is not.
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
