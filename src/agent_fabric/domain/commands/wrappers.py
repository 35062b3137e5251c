"""Seeing through programs that start others: `env`, `timeout`, `xargs`, `find -exec`, `bash -c` and their like."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from agent_fabric.domain.commands.grammar import parse_command
from agent_fabric.domain.commands.invocation import MAX_NESTING, Invocation, UnparsableCommand
from agent_fabric.domain.commands.words import ASSIGNMENT


def started_by(text: str) -> tuple[Invocation, ...]:
    """Return every command that the text would start: also those inside `env`, `xargs`, `bash -c` and their like.

    Raises:
        UnparsableCommand: as for `parse_command`, also for the text inside a wrapper.
    """
    return tuple(inner for invocation in parse_command(text) for inner in unwrap(invocation))


def unwrap(invocation: Invocation, *, depth: int = 0) -> Iterator[Invocation]:
    """Yield the invocation, which `depth` others start, and behind it every command that it starts in turn.

    Raises:
        UnparsableCommand: as for `wrapped`, or too many commands start each other.
    """
    if depth > MAX_NESTING:
        raise UnparsableCommand(f"more than {MAX_NESTING} commands start each other")
    yield invocation
    for inner in wrapped(invocation):
        yield from unwrap(inner, depth=depth + 1)


def wrapped(invocation: Invocation) -> tuple[Invocation, ...]:
    """Return the commands that this one starts itself; their connectors and nesting are those inside of it.

    A command that is only known at run time is returned with its first word unknown.

    Raises:
        UnparsableCommand: it holds command text that is not understood.
    """
    if invocation.dynamic:
        return ()
    see_through = _SEE_THROUGH.get(invocation.name)
    return see_through(invocation) if see_through else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wrapper:
    """A program whose arguments are options, some operands, and then another command."""

    valued: frozenset[str] = frozenset()
    """Options whose value is the next word."""
    operands: int = 0
    """Words of its own between the options and the command."""
    under: str = ""
    """Its subcommand that starts the command, as in `uv run`."""
    queries: frozenset[str] = frozenset()
    """Options with which it starts nothing."""
    opaque: frozenset[str] = frozenset()
    """Options that hold a command in a form of their own."""
    keeps_status: bool = True
    """Its success is that of the command."""

    def __call__(self, invocation: Invocation) -> tuple[Invocation, ...]:
        start = self._start(invocation)
        if start is None:
            return _only_at_run_time(f"the command that {invocation.name} starts")
        end = len(invocation.words)
        return (_part(invocation, start, end, nested=not self.keeps_status),) if start < end else ()

    def _start(self, invocation: Invocation) -> int | None:
        """Find the command's first word: the number of words if there is none, None if that cannot be known."""
        words, unknown = invocation.words, invocation.unknown
        own = [self.under] if self.under else [""] * self.operands
        at = 1
        while at < len(words):
            word = words[at]
            if word in self.queries:
                return len(words)
            if ASSIGNMENT.match(word):
                at += 1
            elif word.startswith("-"):
                if self._is_opaque(word) or at in unknown or (word in self.valued and at + 1 in unknown):
                    return None
                at += 2 if word in self.valued else 1
            elif own:
                if at in unknown:
                    return None
                if own.pop() not in {"", word}:
                    return len(words)
                at += 1
            else:
                break
        return at

    def _is_opaque(self, word: str) -> bool:
        return any(word.startswith(o) if o.startswith("--") else o[1] in word.partition("=")[0] for o in self.opaque)


def _part(invocation: Invocation, start: int, end: int, *, nested: bool) -> Invocation:
    """Return some of the words as a command of its own."""
    unknown = frozenset(n - start for n in invocation.unknown if start <= n < end)
    return Invocation(words=invocation.words[start:end], unknown=unknown, nested=nested)


def _options(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _only_at_run_time(what: str) -> tuple[Invocation, ...]:
    return (Invocation(words=(what,), unknown=frozenset({0}), nested=True),)


_XARGS = _Wrapper(
    valued=_options("-a -d -E -I -L -n -P -s --arg-file --delimiter --max-lines --max-args --max-procs --max-chars"),
    keeps_status=False,
)


def _xargs(invocation: Invocation) -> tuple[Invocation, ...]:
    """`xargs`: what it reads is added at the end, or stands for the mark of `-I`."""
    marks = {"{}"}
    for option, value in zip(invocation.words, invocation.words[1:], strict=False):
        if option.startswith(("-I", "--replace=")):
            marks.add(value if option == "-I" else option.removeprefix("-I").removeprefix("--replace="))
    return tuple(
        replace(inner, words=(*inner.words, "{}"), unknown=inner.unknown | {len(inner.words)})
        for inner in _marked(_XARGS(invocation), marks - {""})
    )


def _find(invocation: Invocation) -> tuple[Invocation, ...]:
    """`find … -exec x … ;`, once for each."""
    found: list[Invocation] = []
    start: int | None = None
    for at, word in enumerate(invocation.words):
        if start is None and word in {"-exec", "-execdir", "-ok", "-okdir"}:
            start = at + 1
        elif start is not None and (word == ";" or (word == "+" and invocation.words[at - 1] == "{}")):
            found.append(_part(invocation, start, at, nested=True))
            start = None
    return tuple(_marked(found, {"{}"}))


def _marked(commands: Iterable[Invocation], marks: set[str]) -> Iterator[Invocation]:
    """Yield the commands with every word unknown that something found at run time is put into."""
    for inner in commands:
        marked = {n for n, word in enumerate(inner.words) if any(mark in word for mark in marks)}
        yield replace(inner, unknown=inner.unknown | marked)


def _shell(invocation: Invocation) -> tuple[Invocation, ...]:
    """`bash -c …`, or a shell that reads commands from its input. A script file is not opened."""
    words = invocation.words
    at, takes_text, takes_input, ended = 1, False, False, False
    while at < len(words) and not ended and words[at][:1] in {"-", "+"}:
        option = words[at]
        if at in invocation.unknown:
            return _only_at_run_time(f"what {invocation.name} runs")
        if option in {"--version", "--help"}:
            return ()
        ended = option in {"-", "--"}
        short = "" if option.startswith("--") else option[1:]
        takes_text = takes_text or "c" in short
        takes_input = takes_input or "s" in short
        at += 1 + short.count("o") + short.count("O") + (option in {"--rcfile", "--init-file"})
    if takes_text:
        if at >= len(words) or at in invocation.unknown:
            return _only_at_run_time(f"what {invocation.name} -c runs")
        return parse_command(words[at])
    if at < len(words) and not takes_input and not words[at].startswith(("<(", "/dev/")):
        return ()
    for redirect in reversed(invocation.redirects):
        if redirect.operator in {"<<", "<<-", "<<<"} and not redirect.unknown:
            return parse_command(redirect.target)
        if redirect.operator == "<" and not redirect.unknown and not redirect.target.startswith("/dev/"):
            return ()
    return _only_at_run_time(f"what {invocation.name} reads and runs")


def _sourced(invocation: Invocation) -> tuple[Invocation, ...]:
    return _shell(invocation) if invocation.words[1:2] and invocation.words[1].startswith(("<(", "/dev/")) else ()


def _eval(invocation: Invocation) -> tuple[Invocation, ...]:
    if invocation.unknown:
        return _only_at_run_time("what eval runs")
    return parse_command(" ".join(invocation.words[1:]))


def _trap(invocation: Invocation) -> tuple[Invocation, ...]:
    handler = next((n for n, word in enumerate(invocation.words) if n and word != "--"), 0)
    if handler in invocation.unknown:
        return _only_at_run_time("what trap runs")
    text = invocation.words[handler] if handler else "-"
    if text.startswith("-") or len(invocation.words) <= handler + 1:
        return ()
    return tuple(replace(inner, nested=True) for inner in parse_command(text))


def _alias(invocation: Invocation) -> tuple[Invocation, ...]:
    if invocation.unknown:
        return _only_at_run_time("what an alias runs")
    texts = (word.partition("=")[2] for word in invocation.words[1:])
    return tuple(replace(inner, nested=True) for text in texts for inner in parse_command(text))


_RUN_VALUED = _options(
    "-p --python --with --with-editable --with-requirements --extra --group --only-group --project --directory "
    "--env-file --package -P -C --index --default-index -i --index-url --from"
)


def _python_project(wrapper: _Wrapper) -> Callable[[Invocation], tuple[Invocation, ...]]:
    """`uv run x`, where `x` may also be a Python file."""

    def see_through(invocation: Invocation) -> tuple[Invocation, ...]:
        return tuple(
            replace(inner, words=("python", *inner.words), unknown=frozenset(n + 1 for n in inner.unknown))
            if inner.program.endswith(".py")
            else inner
            for inner in wrapper(invocation)
        )

    return see_through


_SEE_THROUGH: dict[str, Callable[[Invocation], tuple[Invocation, ...]]] = {
    "env": _Wrapper(valued=_options("-u --unset -C --chdir"), opaque=_options("-S --split-string")),
    "nice": _Wrapper(valued=_options("-n --adjustment")),
    "ionice": _Wrapper(valued=_options("-c --class -n --classdata")),
    "nohup": _Wrapper(),
    "timeout": _Wrapper(valued=_options("-k --kill-after -s --signal"), operands=1),
    "time": _Wrapper(valued=_options("-f --format -o --output")),
    "stdbuf": _Wrapper(valued=_options("-i --input -o --output -e --error")),
    "setsid": _Wrapper(keeps_status=False),
    "command": _Wrapper(queries=_options("-v -V")),
    "builtin": _Wrapper(),
    "exec": _Wrapper(valued=_options("-a")),
    "uv": _python_project(_Wrapper(under="run", valued=_RUN_VALUED)),
    "poetry": _python_project(_Wrapper(under="run", valued=_RUN_VALUED)),
    "pipenv": _python_project(_Wrapper(under="run")),
    "uvx": _Wrapper(valued=_RUN_VALUED),
    "npx": _Wrapper(valued=_options("-p --package -w --workspace"), opaque=_options("-c --call")),
    "xargs": _xargs,
    "find": _find,
    "bash": _shell,
    "sh": _shell,
    "dash": _shell,
    "eval": _eval,
    "trap": _trap,
    "alias": _alias,
    "source": _sourced,
    ".": _sourced,
}
