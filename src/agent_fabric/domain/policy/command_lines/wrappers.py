"""Seeing through programs that start others: `env`, `timeout`, `xargs`, `find -exec`, `bash -c` and their like."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.policy.command_lines.grammar import parse_command
from agent_fabric.domain.policy.command_lines.invocation import (
    MAX_NESTING,
    Invocation,
    UnparsableCommand,
    mark_unknown,
    only_at_run_time,
    part,
)
from agent_fabric.domain.policy.command_lines.names import names
from agent_fabric.domain.policy.command_lines.shells import (
    alias_command,
    eval_command,
    flock,
    runs_later,
    script_of,
    shell,
    shell_lines,
    sourced_commands,
    trap_command,
    with_feeds,
    with_pipes,
)
from agent_fabric.domain.policy.command_lines.words import ASSIGNMENT


@dataclass(frozen=True, slots=True)
class OptionProgram:
    """A command that an option of another one names."""

    text: str = ""
    """Command text, or"""
    start: int = 0
    """where in the words it starts, and"""
    end: int = 0
    """where it ends. Without any of them it is only known at run time."""


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


# Programs that an option names: `rg --pre x`, `sort --compress-program=x`, `fd -x x`, `go test -exec x`.
_TEXT_OPTIONS = {
    "cargo": names("--config"),
    "go": names("-exec --exec -toolexec --toolexec -vettool --vettool"),
    "man": names("-P --pager"),
    "rg": names("--pre --hostname-bin"),
    "rsync": names("-e --rsh --rsync-path"),
    "sort": names("--compress-program"),
    "split": names("--filter"),
    "tar": names(
        "-F -I --checkpoint-action --info-script --new-volume-script --rmt-command --rsh-command --to-command "
        "--use-compress-program"
    ),
    "zip": names("-TT --unzip-command"),
}
"""Options whose value is a command. Of those with one dash and one letter the value may follow directly."""
_ABBREVIATED = names("sort split tar man")
"""Programs that take the beginning of a long option for the whole."""
_REST_OPTIONS = names("-x -X --exec --exec-batch")
_GIT_TEXT = {
    "rebase": names("-x --exec"),
    "difftool": names("-x --extcmd"),
    "filter-branch": names(
        "--commit-filter --env-filter --index-filter --msg-filter --parent-filter --setup --tag-name-filter "
        "--tree-filter"
    ),
}
_GIT_REST = {"bisect": "run", "submodule": "foreach"}


def option_programs(invocation: Invocation) -> Iterator[OptionProgram]:
    """Yield the commands that options of an invocation hold."""
    name, words = invocation.name, invocation.words
    if name in _TEXT_OPTIONS:
        yield from _option_texts(invocation, _TEXT_OPTIONS[name], abbreviated=name in _ABBREVIATED)
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
                yield from _option_texts(invocation, options, abbreviated=True)
        for action, verb in _GIT_REST.items():
            if action in words and verb in words[words.index(action) :]:
                start = words.index(verb, words.index(action)) + 1
                while start < len(words) and words[start].startswith("-"):
                    start += 1
                if start == len(words) - 1:
                    # A single word is given to a shell.
                    yield _option_text(words[start], unknown=start in invocation.unknown)
                else:
                    yield OptionProgram(start=start, end=len(words))


def _option_texts(invocation: Invocation, options: frozenset[str], *, abbreviated: bool) -> Iterator[OptionProgram]:
    words = invocation.words
    for at, word in enumerate(words[1:], start=1):
        name, equals, value = word.partition("=")
        known = name in options or (
            abbreviated and len(name) > 3 and any(option.startswith(name) for option in options if option[:2] == "--")
        )
        if known and equals:
            yield _option_text(value, unknown=at in invocation.unknown)
        elif known and at + 1 < len(words):
            yield _option_text(words[at + 1], unknown=at + 1 in invocation.unknown)
        elif not known and word[:1] == "-" != word[1:2] and len(word) > 2 and word[:2] in options:
            yield _option_text(word[2:], unknown=at in invocation.unknown)


def _option_text(value: str, *, unknown: bool) -> OptionProgram:
    # tar's checkpoint actions are named; the others only print.
    action, equals, command = value.partition("=")
    if equals and action == "exec":
        value = command
    elif action in {"dot", "echo", "bell", "ttyout", "sleep", "totals"}:
        return OptionProgram(text=":")
    return OptionProgram() if unknown else OptionProgram(text=value)


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


_XARGS = _Wrapper(
    valued=names(
        "-a -d -E -I -L -n -P -s --arg-file --delimiter --max-args --max-procs --max-chars --process-slot-var"
    ),
    attached=names("-e -i -l"),
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


_RUN_VALUED = names(
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


def _npm(*subcommands: str) -> Callable[[Invocation], tuple[Invocation, ...]]:
    valued, opaque = (
        names("-p --package -w --workspace --prefix -C --dir -F --filter --cwd"),
        names("-c --call --shell-mode"),
    )
    return _either(*(_Wrapper(under=each, valued=valued, opaque=opaque) for each in subcommands))


_SEE_THROUGH: dict[str, Callable[[Invocation], tuple[Invocation, ...]]] = {
    **dict.fromkeys(names("builtin busybox catchsegv linux32 linux64 nohup sccache valgrind"), _Wrapper()),
    **dict.fromkeys(names("entr ksh mksh parallel runuser script su watch zsh"), _opaque_starter),
    **dict.fromkeys(names("ash bash dash sh"), shell),
    **dict.fromkeys(names("gdb lldb"), _debugged_program),
    **dict.fromkeys(names("hatch rye"), _Wrapper(under="run")),
    **dict.fromkeys(names("pnpm yarn"), _npm("exec", "dlx")),
    **dict.fromkeys(names(". source"), sourced_commands),
    "env": _Wrapper(valued=names("-u --unset -C --chdir -a --argv0"), opaque=names("-S --split-string"), assigns=True),
    "sudo": _Wrapper(
        valued=names("-u -g -h -p -C -r -t -T -U -D -R --user --group --host --prompt --chdir --chroot"),
        opaque=names("-s -i -e --shell --login --edit"),
        assigns=True,
    ),
    "doas": _Wrapper(valued=names("-u -C"), opaque=names("-s")),
    "taskset": _Wrapper(opaque=names("-p --pid"), operands=1),
    "chrt": _Wrapper(
        valued=names("-T -P -D --sched-runtime --sched-period --sched-deadline"), opaque=names("-p --pid"), operands=1
    ),
    "chroot": _Wrapper(operands=1),
    "unshare": _Wrapper(valued=names("-S -G -R -w --setuid --setgid --root --wd --propagation --setgroups")),
    "prlimit": _Wrapper(opaque=names("-p --pid")),
    "strace": _Wrapper(valued=names("-e -o -p -s -u -E -a -b -I -O -S -P -X"), opaque=names("-p")),
    "ltrace": _Wrapper(valued=names("-e -o -p -s -u -a -n -x -l -A -D -F"), opaque=names("-p")),
    "ccache": _Wrapper(valued=names("-d -F -M -o -x -X --config-path --dir --max-files --max-size --set-config")),
    "fakeroot": _Wrapper(valued=names("-l -s -i -b --lib --faked")),
    "cross-env": _Wrapper(assigns=True),
    "flock": flock,
    "pkexec": _Wrapper(valued=names("--user")),
    "nice": _Wrapper(valued=names("-n --adjustment")),
    "ionice": _Wrapper(valued=names("-c --class -n --classdata")),
    "timeout": _Wrapper(valued=names("-k --kill-after -s --signal"), operands=1),
    "time": _Wrapper(valued=names("-f --format -o --output")),
    "stdbuf": _Wrapper(valued=names("-i --input -o --output -e --error")),
    "setsid": _Wrapper(keeps_status=False),
    "command": _Wrapper(queries=names("-v -V")),
    "exec": _Wrapper(valued=names("-a")),
    "uv": _either(
        _python_project(_Wrapper(under="run", valued=_RUN_VALUED)), _Wrapper(under="tool run", valued=_RUN_VALUED)
    ),
    "pdm": _Wrapper(under="run", valued=names("-p --project -s --site-packages")),
    "conda": _Wrapper(under="run", valued=names("-n --name -p --prefix --cwd")),
    "pipx": _Wrapper(under="run", valued=names("--spec --python --index-url --pip-args")),
    "npm": _npm("exec", "x"),
    "bun": _Wrapper(under="x"),
    "bunx": _Wrapper(valued=names("-p --package")),
    "poetry": _python_project(_Wrapper(under="run", valued=_RUN_VALUED)),
    "pipenv": _python_project(_Wrapper(under="run")),
    "uvx": _Wrapper(valued=_RUN_VALUED),
    "npx": _Wrapper(valued=names("-p --package -w --workspace"), opaque=names("-c --call")),
    "xargs": _xargs,
    "find": _find,
    "eval": eval_command,
    "trap": trap_command,
    "alias": alias_command,
}
