"""Rules that people write: a verdict, and what a call must be like for it.

Rules that forbid or ask fit when *any* part of a call fits; rules that allow only when *all* of it does. So a mistake
in reading a call ends in a question, not in a surprise.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import IntEnum
from fnmatch import fnmatchcase
from functools import lru_cache

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.identity.principals import holds_scope
from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.command_lines.invocation import Invocation
from agent_fabric.domain.policy.globs import (
    any_name,
    domain_fits,
    host_of,
    hosts_in,
    may_fit_below,
    path_fits,
    plain_path,
)
from agent_fabric.domain.policy.subcommands import VALUED, as_plain, has_other_name, operands
from agent_fabric.domain.policy.verdicts import Verdict
from agent_fabric.domain.tools.specs import Effect

_FILE_TOOLS = ("read_file", "write_file", "edit_file")
"""What a program of which no more is known may do with a file."""
_SEARCH = "search_files"
"""The tool that goes through folders and shows what is in their files."""

Matcher = Callable[[str], bool]


class Fit(IntEnum):
    """How sure it is that a rule is about something."""

    NO = 0
    MAYBE = 1
    """It depends on what a word holds at run time."""
    YES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPattern:
    """Which commands a rule is about."""

    text: str
    """As written: `curl`, `git push`, `rm -r`, `terraform plan *`, `curl | sh`, or a regular expression."""
    expression: Matcher | None = None
    """The regular expression, made ready; without it `text` is a program and what must stand behind it."""
    whole: Matcher | None = None
    """The same, for the whole command: rules that allow are not content with a part."""

    def fit(self, invocation: Invocation, *, allows: bool) -> Fit:
        """Tell whether a command is one of these; `allows` asks for more."""
        if self.is_pipe:
            return Fit.NO if allows else self._fit_pipe(invocation)
        if not invocation.words or self._is_plainly_another(invocation):
            return Fit.NO
        forms = (invocation,) if allows else (invocation, as_plain(invocation))
        return max(self._fit(form, allows=allows) for form in forms)

    @property
    def is_pipe(self) -> bool:
        """It is about a command that takes the output of another one: `curl | sh`."""
        return self.expression is None and "|" in self.text

    @property
    def is_everything(self) -> bool:
        """It is about every program."""
        if self.expression is not None:
            return _EVERYTHING.fullmatch(self.text) is not None
        return self.text.split()[:1] == ["*"]

    def names(self, words: Sequence[str]) -> bool:
        """Tell whether each of some words is written out in it; what a sign such as `*` may stand for is not.

        An expression that says what must *not* be there names nothing.
        """
        if self.expression is None:
            written = {name for word in _split(self.text) for name in (word, word.rpartition("/")[2])}
            return written.issuperset(words)
        plain = self.text.replace("\\", "")
        return not _FORBIDS.search(plain) and all(
            re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", plain) for word in words
        )

    def named_in(self, text: str) -> bool:
        """Tell whether a text that is not understood names one of these commands."""
        if self.expression is not None:
            return self.expression(text)
        words = _TOKENS.findall(text)
        plain = [word.rpartition("/")[2] for word in words]
        stages = (_split(text.strip().removesuffix(" *")) for text in self.text.split("|"))
        wanted = [word for stage in stages for word in stage if not word.startswith("-")]
        return all(any(fnmatchcase(word, each) for word in (*words, *plain)) for each in wanted)

    def _fit_pipe(self, invocation: Invocation) -> Fit:
        """Compare the last command with this one, and the others with those whose output it takes."""
        *feeds, last = (CommandPattern(text=text) for text in self.text.split("|"))
        fits = [last.fit(invocation, allows=False)]
        fits += [max((feed.fit(each, allows=False) for each in invocation.fed_by), default=Fit.NO) for feed in feeds]
        return min(fits)

    def _is_plainly_another(self, invocation: Invocation) -> bool:
        """Tell quickly that the program is another one: there may be many rules."""
        if self.expression is not None or invocation.dynamic:
            return False
        name, program = invocation.name, _plain_program(self.text)
        return bool(program) and name != program and not has_other_name(name)

    def _fit(self, invocation: Invocation, *, allows: bool) -> Fit:
        if self.expression is not None and self.whole is not None:
            if allows:
                return Fit.YES if not invocation.unknown and self.whole(" ".join(invocation.words)) else Fit.NO
            if any(map(self.expression, _texts(invocation))):
                return Fit.YES
            return Fit.MAYBE if invocation.dynamic else Fit.NO
        if allows:
            return Fit.YES if self._covers(invocation) else Fit.NO
        program, *rest = _split(self.text.removesuffix(" *"))
        if invocation.dynamic:
            return Fit.MAYBE
        if not fnmatchcase(invocation.program if "/" in program else invocation.name, program):
            return Fit.NO
        options = [word for word in rest if word.startswith("-")]
        said = [word for word in rest if not word.startswith("-")]
        return min(_options_fit(invocation, options), _operands_fit(invocation, said))

    def _covers(self, invocation: Invocation) -> bool:
        """Tell whether all of a command is named: its program, its first words, and every option.

        Options that only read are covered as well. A `*` at the end covers whatever follows.
        """
        from agent_fabric.domain.policy.read_only import only_reads  # noqa: PLC0415 - only rules that allow need it

        program, *first = _split(self.text)
        targets = (redirect for redirect in invocation.redirects if not redirect.operator.startswith("<<"))
        if invocation.unknown or any(target.unknown for target in targets):
            return False  # what is only known at run time is not named
        if not fnmatchcase(_program_name(invocation.program), program):
            return False
        anything = program == "*" if not first else first[-1] == "*"
        wanted = tuple(first[:-1] if first and anything else first)
        if invocation.words[1 : 1 + len(wanted)] != wanted:
            return False
        return anything or not any(map(_is_option, invocation.words[1 + len(wanted) :])) or only_reads(invocation)


_FORBIDS = re.compile(r"\(\?<?!|\[\^")
"""What an expression says may not be there."""
_TOKENS = re.compile(r"""[^\s'"`;&|()<>$={}]+""")


def _texts(invocation: Invocation) -> Iterator[str]:
    """Yield a command as a text, and the pipe that ends with it."""
    text = " ".join(invocation.words)
    yield text
    if invocation.fed_by:
        yield " | ".join([*(" ".join(each.words) for each in invocation.fed_by), text])


_SYSTEM_FOLDERS = ("/bin/", "/usr/bin/", "/usr/local/bin/")
_QUIET_OPTIONS = frozenset({"-", "--", "--help", "--version", "--verbose", "--quiet", "--dry-run", "--no-color"})
"""Options that mean the same everywhere: they write no file and start no program.

What follows `--` counts like the rest: some programs take options there, too.
"""


def _program_name(program: str) -> str:
    """Return a program as a rule that allows must name it: one in a folder of its own is another program."""
    folder, _, name = program.rpartition("/")
    return name if f"{folder}/" in _SYSTEM_FOLDERS else program


def _is_option(word: str) -> bool:
    return word.startswith(("-", "+")) and word not in _QUIET_OPTIONS


@lru_cache(maxsize=4096)
def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split())


@lru_cache(maxsize=4096)
def _plain_program(text: str) -> str:
    """Return the name of the program in a pattern; empty if several would do."""
    program = _split(text)[0]
    return "" if any(sign in program for sign in "*?[") else program.rpartition("/")[2]


def _options_fit(invocation: Invocation, wanted: Sequence[str]) -> Fit:
    if not wanted:
        return Fit.YES
    given = [word for n, word in enumerate(invocation.words) if n and word.startswith("-")]
    letters = {letter for word in given if not word.startswith("--") for letter in word[1:]}
    for option in wanted:
        if option.startswith("--"):
            # Most programs take the beginning of a long option for the whole.
            names = [word.partition("=")[0] for word in given if word.startswith("--") and word != "--"]
            found = any(option.startswith(name) for name in names)
        else:
            found = option in given or set(option[1:]) <= letters
        if not found:
            return Fit.MAYBE if invocation.unknown else Fit.NO
    return Fit.YES


def _operands_fit(invocation: Invocation, wanted: Sequence[str]) -> Fit:
    """Look for the subcommand; where options may take values that we do not know of, look behind those, too."""
    if not wanted:
        return Fit.YES
    words = invocation.words
    places = operands(words, VALUED.get(invocation.name, frozenset()))
    best = Fit.NO
    for start, place in enumerate(places):
        window = places[start : start + len(wanted)]
        fit = Fit.YES if len(window) == len(wanted) else Fit.NO
        for at, pattern in zip(window, wanted, strict=False):
            if at in invocation.unknown:
                # It may be what is looked for, and more words than one.
                fit = Fit.MAYBE
                break
            if not fnmatchcase(words[at], pattern):
                fit = Fit.NO
                break
        best = max(best, fit)
        if best is Fit.YES or not words[place - 1].startswith("-"):
            break
    first = places[0] if places else len(words)
    if best is Fit.NO and any(n <= first for n in invocation.splits):
        # What stands before the subcommand may turn out to hold it.
        return Fit.MAYBE
    return best


_EVERYTHING = re.compile(r"(?:\\A|\^)?\(?(?:\?:)?(?:\.|\[\\s\\S\]|\[\\S\\s\])[*+]\??\)?(?:\\Z|\$)?")
"""An expression that leaves no command out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A verdict on calls; every condition that is set must hold."""

    id: str
    verdict: Verdict
    reason: str = ""
    """A sentence for the model or a person."""
    tools: tuple[str, ...] = ()
    commands: tuple[CommandPattern, ...] = ()
    paths: tuple[str, ...] = ()
    """Relative to the workspace, or absolute."""
    domains: tuple[str, ...] = ()
    effects: frozenset[Effect] = frozenset()
    agents: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    """The user must hold one of them."""
    unless_scopes: tuple[str, ...] = ()
    """The user must hold none of them."""
    matches: tuple[str, ...] = ()
    """Examples that it must fit; checked when it is loaded."""
    matches_not: tuple[str, ...] = ()
    """Examples that it must not fit."""
    origin: str = "built in"
    """Where it is written."""

    @property
    def allows(self) -> bool:
        return self.verdict is Verdict.ALLOW

    @property
    def pipe_problem(self) -> str:
        """What is wrong with a pipe among its commands; empty: nothing."""
        pipes = [pattern.text for pattern in self.commands if pattern.is_pipe]
        if pipes and self.allows:
            return f"allows the pipe {pipes[0]!r}; a rule that allows names each command by itself"
        if broken := [text for text in pipes if not all(map(str.strip, text.split("|")))]:
            return f"has the pipe {broken[0]!r}, in which a command is missing"
        return ""

    @property
    def warning(self) -> str:
        """What is risky about a rule that allows: that there is no end to it; empty: nothing."""
        if not self.allows:
            return ""
        what = {
            "command": any(pattern.is_everything for pattern in self.commands),
            "host": "*" in self.domains,
            "path of the machine": not {"/", "/*", "/**"}.isdisjoint(self.paths),
        }
        if not (self.commands or self.domains or self.paths or self.effects) and (not self.tools or "*" in self.tools):
            return "allows every call without a question"
        return "; ".join(f"allows every {each} without a question" for each, is_so in what.items() if is_so)

    @property
    def conditions(self) -> dict[str, list[str]]:
        """The conditions that are set, as a policy file names them."""
        known = {
            "tools": list(self.tools),
            "commands": [pattern.text for pattern in self.commands if pattern.expression is None],
            "commands_matching": [pattern.text for pattern in self.commands if pattern.expression is not None],
            "paths": list(self.paths),
            "domains": list(self.domains),
            "effects": sorted(effect.value for effect in self.effects),
            "agents": list(self.agents),
            "nodes": list(self.nodes),
            "scopes": list(self.scopes),
            "unless_scopes": list(self.unless_scopes),
        }
        return {name: values for name, values in known.items() if values}

    def fit(self, call: ProposedCall, invocation: Invocation | None = None, *, moved: bool = False) -> Fit:
        """Tell whether the rule is about a call, or about one command of it.

        A rule that blocks or asks about `read_file` is about `cat FILE`, too. `moved`: relative paths may begin at
        another folder than the workspace.
        """
        as_tool = bool(self.tools) and not any_name(self.tools, call.tool)
        if (
            (as_tool and (self.allows or invocation is None or not self._may_stand_for(invocation)))
            or (self.agents and not any_name(self.agents, call.agent))
            or (self.nodes and not any_name(self.nodes, call.node))
            or (self.effects and not as_tool and call.effect not in self.effects)
            or (self.scopes and not _holds_any(call, self.scopes))
            or (self.unless_scopes and _holds_any(call, self.unless_scopes))
        ):
            return Fit.NO
        fit = Fit.YES
        if self.allows and invocation is not None and not self.commands and (self.paths or self.domains):
            # Where a command may work says nothing about which commands may.
            return Fit.NO
        if self.commands:
            if invocation is None:
                return Fit.NO
            fit = max(pattern.fit(invocation, allows=self.allows) for pattern in self.commands)
        if self.paths:
            fit = min(fit, self._paths_fit(call, invocation, as_tool=as_tool, moved=moved))
        if self.domains:
            fit = min(fit, self._domains_fit(call, invocation, as_tool=as_tool))
        return fit

    def names(self, invocation: Invocation, words: Sequence[str]) -> bool:
        """Tell whether one of its patterns is about a command by these very words."""
        return any(
            pattern.names(words) and pattern.fit(invocation, allows=self.allows) is Fit.YES for pattern in self.commands
        )

    def fit_unread(self, call: ProposedCall) -> Fit:
        """Tell whether the rule is about a command line that is not understood: its text names all that the rule does.

        A rule that allows never is.
        """
        whole = replace(self, commands=(), paths=(), domains=())
        stands_for = bool(self.paths) and any(any_name(self.tools, tool) for tool in _FILE_TOOLS)
        if self.allows or (replace(whole, tools=()) if stands_for else whole).fit(call) is Fit.NO:
            return Fit.NO
        words = _TOKENS.findall(call.command)
        named = (
            (not self.commands or any(pattern.named_in(call.command) for pattern in self.commands))
            and (not self.paths or any(self._path_fits(call.from_workspace(word)) for word in words))
            and (
                not self.domains
                or any(domain_fits(pattern, each) for pattern in self.domains for each in hosts_in(words))
            )
        )
        return Fit.YES if named else Fit.NO

    def _may_stand_for(self, invocation: Invocation) -> bool:
        """Tell whether a command does what one of the rule's tools does, or may do it with a file that it names."""
        from agent_fabric.domain.policy.command_tools import use_of  # noqa: PLC0415 - only rules on tools need it

        uses = any(any_name(self.tools, tool) for tool in use_of(invocation).tools)
        return uses or (bool(self.paths) and any(any_name(self.tools, tool) for tool in _FILE_TOOLS))

    def _operands_fit(self, call: ProposedCall, invocation: Invocation, *, moved: bool) -> Fit:
        """Compare the files that a command names; what is only known at run time may be one of them.

        So may what lies below a folder that it goes through, and what a program opens of which no more is known.
        """
        from agent_fabric.domain.policy.command_tools import (  # noqa: PLC0415 - as above
            RUN_COMMAND,
            folders_read,
            use_of,
        )

        use = use_of(invocation)
        if any(any_name(self.tools, tool) for tool in use.tools):
            if any(self._path_fits(call.from_workspace(path)) for path in use.paths):
                return Fit.YES
            relative = moved and any(not path.startswith("/") for path in use.paths)
            if use.hidden or relative or any(set("*?[") & set(path) for path in use.paths):
                return Fit.MAYBE
        elif use.tools != RUN_COMMAND:
            return Fit.NO  # it does something else with what it names
        below = [call.from_workspace(folder) for folder in folders_read(invocation)]
        if any(may_fit_below(pattern, folder) for pattern in self.paths for folder in below):
            return Fit.MAYBE
        return self._may_open(call, invocation)

    def _may_open(self, call: ProposedCall, invocation: Invocation) -> Fit:
        from agent_fabric.domain.policy.command_tools import named_in  # noqa: PLC0415 - as above

        return Fit.MAYBE if any(self._path_fits(call.from_workspace(each)) for each in named_in(invocation)) else Fit.NO

    def _paths_fit(self, call: ProposedCall, invocation: Invocation | None, *, as_tool: bool, moved: bool) -> Fit:
        if invocation is None:
            paths = [call.from_workspace(path) for path in call.paths]
            fit = self._all_or_any([self._path_fits(path) for path in paths])
            if fit is Fit.NO and not self.allows and call.tool == _SEARCH:
                below = (may_fit_below(pattern, path) for pattern in self.paths for path in paths or ["."])
                return Fit.MAYBE if any(below) else Fit.NO
            return fit
        if as_tool:
            return self._operands_fit(call, invocation, moved=moved)
        targets = [redirect for redirect in invocation.redirects if not redirect.operator.startswith("<<")]
        named = [
            (word.partition("=")[2] if word.startswith("-") else word)
            for word in invocation.words[1:]
            if not word.startswith("-") or "=" in word
        ]
        if self.allows and (
            any(n for n in invocation.unknown) or any(r.unknown for r in targets) or any(".." in p for p in named)
        ):
            return Fit.NO
        every = (call.from_workspace(path) for path in (*named, *(r.target for r in targets)))
        fit = self._all_or_any([self._path_fits(path) for path in every])
        return self._may_open(call, invocation) if fit is Fit.NO and not self.allows else fit

    def _domains_fit(self, call: ProposedCall, invocation: Invocation | None, *, as_tool: bool) -> Fit:
        hosts = [host_of(url) for url in call.urls] if invocation is None else hosts_in(invocation.words)
        if self.allows and invocation is not None and invocation.unknown:
            return Fit.NO
        fit = self._all_or_any([any(domain_fits(pattern, host) for pattern in self.domains) for host in hosts])
        return Fit.MAYBE if as_tool and fit is Fit.NO and invocation is not None and invocation.unknown else fit

    def _path_fits(self, path: str) -> bool:
        path = plain_path(path)
        return any(path_fits(pattern, path) for pattern in self.paths)

    def _all_or_any(self, fits: Sequence[bool]) -> Fit:
        found = bool(fits) and (all(fits) if self.allows else any(fits))
        return Fit.YES if found else Fit.NO


def _holds_any(call: ProposedCall, wanted: Sequence[str]) -> bool:
    """Tell whether the user behind a call holds a scope; the owner of the folder, who has no list, holds all."""
    return not call.scopes or any(holds_scope(call.scopes, scope) for scope in wanted)
