"""Seeing through programs that start others: `env`, `timeout`, `xargs`, `find -exec`, `bash -c` and their like."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypedDict

from agent_fabric.domain.policy.command_lines.grammar import parse_command
from agent_fabric.domain.policy.command_lines.invocation import MAX_NESTING, Invocation, UnparsableCommand
from agent_fabric.domain.policy.command_lines.option_programs import OptionProgram, option_programs
from agent_fabric.domain.policy.command_lines.shell_escapes import runs_later, shell_lines, with_pipes
from agent_fabric.domain.policy.command_lines.shells import (
    alias_command,
    eval_command,
    flock,
    script_of,
    shell,
    sourced_commands,
    trap_command,
    with_feeds,
)
from agent_fabric.domain.policy.command_lines.subcommand_parts import mark_unknown, only_at_run_time, part
from agent_fabric.domain.policy.command_lines.words import ASSIGNMENT


def started_by(text: str) -> tuple[Invocation, ...]:
    """Return every command that the text would start: also those inside `env`, `xargs`, `bash -c` and their like.

    Raises:
        UnparsableCommand: as for `parse_command`, also for the text inside a wrapper.
    """
    whole = with_feeds(tuple(with_pipes(parse_command(text))))
    found = (inner for invocation in whole for inner in unwrap(invocation))
    return tuple(each for invocation in found for each in (invocation, *script_of(invocation)))


def unwrap(invocation: Invocation, *, depth: int = 0) -> Iterator[Invocation]:
    """Yield the invocation, which `depth` others start, and behind it every command that it starts in turn.

    Raises:
        UnparsableCommand: as for `wrapped`, or too many commands start each other.
    """
    if depth > MAX_NESTING:
        raise UnparsableCommand(f"more than {MAX_NESTING} commands start each other")
    yield invocation
    for inner in with_feeds(wrapped_commands(invocation), invocation.fed_by):
        yield from unwrap(inner, depth=depth + 1)


def wrapped_commands(invocation: Invocation) -> tuple[Invocation, ...]:
    """Return the commands that this one starts itself; their connectors and nesting are those inside of it.

    A command that is only known at run time is returned with its first word unknown.

    Raises:
        UnparsableCommand: it holds command text that is not understood.
    """
    if invocation.dynamic:
        return ()
    late = runs_later(invocation)
    if late:
        return only_at_run_time(late)
    see_through = _SEE_THROUGH.get(invocation.name)
    inner = see_through(invocation) if see_through else ()
    held = (*option_programs(invocation), *map(OptionProgram, shell_lines(invocation)))
    return (*inner, *(command for each in held for command in _option_commands(invocation, each)))


def _option_commands(invocation: Invocation, held: OptionProgram) -> tuple[Invocation, ...]:
    """Return the commands that an option holds."""
    if held.text:
        return tuple(replace(inner, nested=True) for inner in parse_command(held.text))
    if held.start:
        return tuple(mark_unknown([part(invocation, held.start, held.end, nested=True)], {"{}", "{/}", "{.}", "{//}"}))
    return only_at_run_time(f"what an option of {invocation.name} runs")


class _WrapperOptions(TypedDict):
    valued: frozenset[str]
    opaque: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wrapper:
    """A program whose arguments are options, some operands, and then another command."""

    valued: frozenset[str] = frozenset()
    """Options whose value is the next word."""
    attached: frozenset[str] = frozenset()
    """Options whose value, if they have one, follows without a blank."""
    operands: int = 0
    """Words of its own between the options and the command."""
    under: str = ""
    """Its subcommand that starts the command, as in `uv run`."""
    queries: frozenset[str] = frozenset()
    """Options with which it starts nothing."""
    opaque: frozenset[str] = frozenset()
    """Options that hold a command in a form of their own."""
    assigns: bool = False
    """Words with a `=` before the command are variables for it, whatever they look like."""
    keeps_status: bool = True
    """Its success is that of the command."""

    def __call__(self, invocation: Invocation) -> tuple[Invocation, ...]:
        start = self._start(invocation)
        if start is None:
            return only_at_run_time(f"the command that {invocation.name} starts")
        end = len(invocation.words)
        return (part(invocation, start, end, nested=not self.keeps_status),) if start < end else ()

    def _start(self, invocation: Invocation) -> int | None:
        """Find the command's first word: the number of words if there is none, None if that cannot be known."""
        words, unknown = invocation.words, invocation.unknown
        own = self.under.split()[::-1] if self.under else [""] * self.operands
        at = 1
        while at < len(words):
            word = words[at]
            if word in self.queries:
                return len(words)
            if at in invocation.splits:
                return None
            if ASSIGNMENT.match(word) or (self.assigns and "=" in word and not word.startswith("-")):
                at += 1
            elif word == "--":
                at += 1
                while own and at < len(words) and at not in unknown:
                    own.pop()
                    at += 1
                while self.assigns and at < len(words) and "=" in words[at]:
                    at += 1
                return None if own or any(n in invocation.splits for n in range(1, at)) else at
            elif word.startswith("-"):
                takes = self._takes_value(word)
                if takes is None or self._is_opaque(word) or at in unknown:
                    return None
                if takes and at + 1 in invocation.splits:
                    return None
                at += 2 if takes else 1
            elif own:
                if at in unknown:
                    return None
                if own.pop() not in {"", word}:
                    return len(words)
                at += 1
            else:
                break
        return at

    def _takes_value(self, word: str) -> bool | None:
        """Tell whether the next word belongs to an option; None if that is in doubt."""
        if word in self.valued:
            return True
        if word.startswith("--"):
            # The beginning of a long option may stand for the whole.
            return None if any(option.startswith(word) for option in self.valued) else False
        for at, letter in enumerate(word[1:], start=1):
            if f"-{letter}" in self.attached:
                return False
            if f"-{letter}" in self.valued:
                return at == len(word) - 1
        return False

    def _is_opaque(self, word: str) -> bool:
        option = word.partition("=")[0]
        if word.startswith("--"):
            return any(opaque.startswith(option) for opaque in self.opaque)
        return any(opaque[1] in option for opaque in self.opaque if len(opaque) == 2)


def _options(text: str) -> frozenset[str]:
    return frozenset(text.split())


_XARGS = _Wrapper(
    valued=_options(
        "-a -d -E -I -L -n -P -s --arg-file --delimiter --max-args --max-procs --max-chars --process-slot-var"
    ),
    attached=_options("-e -i -l"),
    keeps_status=False,
)


def _xargs(invocation: Invocation) -> tuple[Invocation, ...]:
    """`xargs`: what it reads is added at the end, or stands for the mark of `-I`."""
    marks = {"{}"}
    for option, value in zip(invocation.words, invocation.words[1:], strict=False):
        if option.startswith("-i") and len(option) > 2:
            marks.add(option[2:])
        if option.startswith(("-I", "--replace=")):
            marks.add(value if option == "-I" else option.removeprefix("-I").removeprefix("--replace="))
    return tuple(
        replace(
            inner,
            words=(*inner.words, "{}"),
            unknown=inner.unknown | {len(inner.words)},
            splits=inner.splits | {len(inner.words)},
        )
        for inner in mark_unknown(_XARGS(invocation), marks - {""})
    )


def _find(invocation: Invocation) -> tuple[Invocation, ...]:
    """`find … -exec x … ;`, once for each."""
    found: list[Invocation] = []
    start: int | None = None
    for at, word in enumerate(invocation.words):
        if start is None and word in {"-exec", "-execdir", "-ok", "-okdir"}:
            start = at + 1
        elif start is not None and (word == ";" or (word == "+" and invocation.words[at - 1] == "{}")):
            found.append(part(invocation, start, at, nested=True))
            start = None
        elif start is None and (
            word in {";", "+"} or (at in invocation.splits and any(sign in word for sign in "$`{"))
        ):
            return only_at_run_time("what find runs")
    return tuple(mark_unknown(found, {"{}"}))


def _debugged_program(invocation: Invocation) -> tuple[Invocation, ...]:
    """`gdb --args x …`: the program that is debugged."""
    start = next((at + 1 for at, word in enumerate(invocation.words) if word in {"--args", "-args", "--"}), 0)
    return (part(invocation, start, len(invocation.words), nested=True),) if start else ()


def _opaque_starter(invocation: Invocation) -> tuple[Invocation, ...]:
    """Start others in ways of their own."""
    return only_at_run_time(f"what {invocation.name} runs") if len(invocation.words) > 1 else ()


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


def _either(
    *wrappers: Callable[[Invocation], tuple[Invocation, ...]],
) -> Callable[[Invocation], tuple[Invocation, ...]]:
    """Several subcommands that start others."""

    def see_through(invocation: Invocation) -> tuple[Invocation, ...]:
        return next((found for wrapper in wrappers if (found := wrapper(invocation))), ())

    return see_through


_NPM: _WrapperOptions = {
    "valued": _options("-p --package -w --workspace --prefix -C --dir -F --filter --cwd"),
    "opaque": _options("-c --call --shell-mode"),
}

_SEE_THROUGH: dict[str, Callable[[Invocation], tuple[Invocation, ...]]] = {
    "env": _Wrapper(
        valued=_options("-u --unset -C --chdir -a --argv0"), opaque=_options("-S --split-string"), assigns=True
    ),
    "sudo": _Wrapper(
        valued=_options("-u -g -h -p -C -r -t -T -U -D -R --user --group --host --prompt --chdir --chroot"),
        opaque=_options("-s -i -e --shell --login --edit"),
        assigns=True,
    ),
    "doas": _Wrapper(valued=_options("-u -C"), opaque=_options("-s")),
    "taskset": _Wrapper(opaque=_options("-p --pid"), operands=1),
    "chrt": _Wrapper(
        valued=_options("-T -P -D --sched-runtime --sched-period --sched-deadline"),
        opaque=_options("-p --pid"),
        operands=1,
    ),
    "chroot": _Wrapper(operands=1),
    "unshare": _Wrapper(valued=_options("-S -G -R -w --setuid --setgid --root --wd --propagation --setgroups")),
    "prlimit": _Wrapper(opaque=_options("-p --pid")),
    "linux32": _Wrapper(),
    "linux64": _Wrapper(),
    "strace": _Wrapper(valued=_options("-e -o -p -s -u -E -a -b -I -O -S -P -X"), opaque=_options("-p")),
    "ltrace": _Wrapper(valued=_options("-e -o -p -s -u -a -n -x -l -A -D -F"), opaque=_options("-p")),
    "busybox": _Wrapper(),
    "valgrind": _Wrapper(),
    "ccache": _Wrapper(valued=_options("-d -F -M -o -x -X --config-path --dir --max-files --max-size --set-config")),
    "sccache": _Wrapper(),
    "fakeroot": _Wrapper(valued=_options("-l -s -i -b --lib --faked")),
    "catchsegv": _Wrapper(),
    "cross-env": _Wrapper(assigns=True),
    "gdb": _debugged_program,
    "lldb": _debugged_program,
    "flock": flock,
    "script": _opaque_starter,
    "watch": _opaque_starter,
    "parallel": _opaque_starter,
    "entr": _opaque_starter,
    "su": _opaque_starter,
    "runuser": _opaque_starter,
    "pkexec": _Wrapper(valued=_options("--user")),
    "zsh": _opaque_starter,
    "ksh": _opaque_starter,
    "ash": shell,
    "mksh": _opaque_starter,
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
    "uv": _either(
        _python_project(_Wrapper(under="run", valued=_RUN_VALUED)), _Wrapper(under="tool run", valued=_RUN_VALUED)
    ),
    "hatch": _Wrapper(under="run"),
    "pdm": _Wrapper(under="run", valued=_options("-p --project -s --site-packages")),
    "rye": _Wrapper(under="run"),
    "conda": _Wrapper(under="run", valued=_options("-n --name -p --prefix --cwd")),
    "pipx": _Wrapper(under="run", valued=_options("--spec --python --index-url --pip-args")),
    "npm": _either(_Wrapper(under="exec", **_NPM), _Wrapper(under="x", **_NPM)),
    "pnpm": _either(_Wrapper(under="exec", **_NPM), _Wrapper(under="dlx", **_NPM)),
    "yarn": _either(_Wrapper(under="exec", **_NPM), _Wrapper(under="dlx", **_NPM)),
    "bun": _Wrapper(under="x"),
    "bunx": _Wrapper(valued=_options("-p --package")),
    "poetry": _python_project(_Wrapper(under="run", valued=_RUN_VALUED)),
    "pipenv": _python_project(_Wrapper(under="run")),
    "uvx": _Wrapper(valued=_RUN_VALUED),
    "npx": _Wrapper(valued=_options("-p --package -w --workspace"), opaque=_options("-c --call")),
    "xargs": _xargs,
    "find": _find,
    "bash": shell,
    "sh": shell,
    "dash": shell,
    "eval": eval_command,
    "trap": trap_command,
    "alias": alias_command,
    "source": sourced_commands,
    ".": sourced_commands,
}
