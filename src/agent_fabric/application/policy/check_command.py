"""Tells what a policy says about a command line. Nothing is run."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.engine import Judgement, RulePolicy, strictest_part
from agent_fabric.domain.policy.outside import outside_call
from agent_fabric.domain.policy.outside_plan import CannotRunOutside
from agent_fabric.domain.policy.programs import BOXES
from agent_fabric.domain.policy.verdicts import Ruling, Verdict
from agent_fabric.domain.tools.specs import Effect

LEVELS = ("A", "A+", "B", "C")


class CheckedCommand(NamedTuple):
    """What would become of a command line."""

    decided: Ruling
    policy_version: str
    level: str
    parts: Sequence[Judgement]
    outside: bool = False
    """Whether it runs outside the box once a person has agreed."""
    outside_refusal: str = ""
    """Why it cannot run outside the box, although it needs to: then it is refused without a question."""


@dataclass(frozen=True, slots=True)
class CheckCommand:
    """Use case: judge a command line as an agent would send it, part by part."""

    in_force: RulePolicy
    may_leave: bool
    """Whether calls run outside the box at all."""
    altered_programs: Callable[[str], frozenset[str]]
    """Names the programs that a folder alters."""

    def __call__(
        self, command: str, *, agent: str, level: str, scopes: Iterable[str] = (), folder: str = ""
    ) -> CheckedCommand:
        """Judge it; `scopes` are those of the user.

        `folder` is the project that it would run in. Without a box, its git settings and programs matter.

        Raises:
            ConfigError: there is no such level.
        """
        if level not in LEVELS:
            raise ConfigError(f"There is no level {level!r}", hint=f"Choose: {', '.join(LEVELS)}.")
        call = ProposedCall(
            tool="shell",
            args={"command": command},
            effect=Effect.CHANGES_WORKSPACE,
            command=command,
            agent=agent,
            sandbox=level,
            scopes=frozenset(scopes),
            workspace=folder,
            altered=self.altered_programs(folder) if folder and level not in BOXES else frozenset(),
        )
        parts = self.in_force.explain(call)
        decided = strictest_part([part.decided for part in parts])
        asks = self.may_leave and decided.verdict is Verdict.ASK
        outside, refusal = _leaves(command, level) if asks else (False, "")
        return CheckedCommand(decided, self.in_force.version, level, parts, outside, refusal)


def _leaves(command: str, level: str) -> tuple[bool, str]:
    """Return whether a command would run outside the box, and why it cannot although it needs to."""
    try:
        return outside_call(command) is not None, ""
    except CannotRunOutside as problem:
        return False, str(problem) if level in BOXES else ""  # elsewhere commands have the network
