"""Command text inside commands: what shells, `eval`, `trap`, `source` and `flock -c` are given to run."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from agent_fabric.domain.policy.command_lines.grammar import parse_command
from agent_fabric.domain.policy.command_lines.invocation import Connector, Invocation
from agent_fabric.domain.policy.command_lines.subcommand_parts import only_at_run_time, part

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
