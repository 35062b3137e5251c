"""Programs that an option names: `rg --pre x`, `sort --compress-program=x`, `fd -x x`, `go test -exec x`."""

from collections.abc import Iterator
from dataclasses import dataclass

from agent_fabric.domain.policy.command_lines.invocation import Invocation


@dataclass(frozen=True, slots=True)
class OptionProgram:
    """A command that an option of another one names."""

    text: str = ""
    """Command text, or"""
    start: int = 0
    """where in the words it starts, and"""
    end: int = 0
    """where it ends. Without any of them it is only known at run time."""


_TEXT_OPTIONS: dict[str, tuple[str, ...]] = {
    "cargo": ("--config",),
    "go": ("-exec", "--exec", "-toolexec", "--toolexec", "-vettool", "--vettool"),
    "man": ("-P", "--pager"),
    "rg": ("--pre", "--hostname-bin"),
    "rsync": ("-e", "--rsh", "--rsync-path"),
    "sort": ("--compress-program",),
    "split": ("--filter",),
    "tar": (
        "-F",
        "-I",
        "--checkpoint-action",
        "--info-script",
        "--new-volume-script",
        "--rmt-command",
        "--rsh-command",
        "--to-command",
        "--use-compress-program",
    ),
    "zip": ("-TT", "--unzip-command"),
}
"""Options whose value is a command. Of those with one dash and one letter the value may follow directly."""
_ABBREVIATED = frozenset({"sort", "split", "tar", "man"})
"""Programs that take the beginning of a long option for the whole."""
_REST_OPTIONS = frozenset({"-x", "-X", "--exec", "--exec-batch"})
_GIT_TEXT = {
    "rebase": ("-x", "--exec"),
    "difftool": ("-x", "--extcmd"),
    "filter-branch": (
        "--commit-filter",
        "--env-filter",
        "--index-filter",
        "--msg-filter",
        "--parent-filter",
        "--setup",
        "--tag-name-filter",
        "--tree-filter",
    ),
}
_GIT_REST = {"bisect": "run", "submodule": "foreach"}


def option_programs(invocation: Invocation) -> Iterator[OptionProgram]:
    """Yield the commands that options of an invocation hold."""
    name, words = invocation.name, invocation.words
    if name in _TEXT_OPTIONS:
        yield from _texts(invocation, _TEXT_OPTIONS[name], abbreviated=name in _ABBREVIATED)
    elif name in {"fd", "fdfind"}:
        at = next((n for n, word in enumerate(words) if word in _REST_OPTIONS), 0)
        if at:
            end = next((n for n, word in enumerate(words) if n > at and word == ";"), len(words))
            yield OptionProgram(start=at + 1, end=end)
        elif any(
            word.startswith("--exec") or (word[:1] == "-" != word[1:2] and {"x", "X"} & set(word)) for word in words[1:]
        ):
            yield OptionProgram()
    elif name == "git":
        for action, options in _GIT_TEXT.items():
            if action in words:
                yield from _texts(invocation, options, abbreviated=True)
        for action, verb in _GIT_REST.items():
            if action in words and verb in words[words.index(action) :]:
                start = words.index(verb, words.index(action)) + 1
                while start < len(words) and words[start].startswith("-"):
                    start += 1
                if start == len(words) - 1:
                    # A single word is given to a shell.
                    yield _text(words[start], unknown=start in invocation.unknown)
                else:
                    yield OptionProgram(start=start, end=len(words))


def _texts(invocation: Invocation, options: tuple[str, ...], *, abbreviated: bool) -> Iterator[OptionProgram]:
    words = invocation.words
    for at, word in enumerate(words[1:], start=1):
        name, equals, value = word.partition("=")
        known = name in options or (
            abbreviated and len(name) > 3 and any(option.startswith(name) for option in options if option[:2] == "--")
        )
        if known and equals:
            yield _text(value, unknown=at in invocation.unknown)
        elif known and at + 1 < len(words):
            yield _text(words[at + 1], unknown=at + 1 in invocation.unknown)
        elif not known and word[:1] == "-" != word[1:2] and len(word) > 2 and word[:2] in options:
            yield _text(word[2:], unknown=at in invocation.unknown)


def _text(value: str, *, unknown: bool) -> OptionProgram:
    # tar's checkpoint actions are named; the others only print.
    action, equals, command = value.partition("=")
    if equals and action == "exec":
        value = command
    elif action in {"dot", "echo", "bell", "ttyout", "sleep", "totals"}:
        return OptionProgram(text=":")
    return OptionProgram() if unknown else OptionProgram(text=value)
