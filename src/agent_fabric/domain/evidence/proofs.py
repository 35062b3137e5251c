"""What bears out the result of a run."""

from collections.abc import Iterable
from dataclasses import dataclass

from agent_fabric.domain.evidence.suite_counts import NONE_LEFT_OUT, LeftOut
from agent_fabric.domain.tools.findings import ProofKind, TestCount

UNPROVEN = "unproven"
"""Key in a payload that says why nothing bears the result out."""
UNVERIFIED = "unverified"
"""Key in a payload that lists the numbers and quotes of the summary that stand in no result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What bears out a result, and where in the log that stands."""

    kind: ProofKind = ProofKind.NONE
    command: str = ""
    """The command that has succeeded, or what was found."""
    seq: int | None = None
    """The event that says so."""
    tests: TestCount | None = None
    own_tests: bool = False
    """The run itself has written or changed every test of what it changed, so they show what it takes for right."""
    changed_tests: tuple[str, ...] = ()
    """Files with tests, or with their settings, that were there before and that the run has changed or deleted."""
    printed: str = ""
    """How the output of a program begins, which is all that its running has shown."""

    def __bool__(self) -> bool:
        """Tell whether there is any."""
        return self.kind is not ProofKind.NONE


NO_PROOF = Proof()


@dataclass(frozen=True, slots=True)
class CommandRun:
    """A command line that was executed in the workspace."""

    command: str
    succeeded: bool
    seq: int
    """The event that has its result."""
    at: float = 0.0
    """When it ended, in seconds since 1970."""
    began: float = 0.0
    """When it was started."""
    tests: TestCount | None = None
    """The tests that were executed, if a runner has said so; also those of a command that failed."""
    proof: Proof = NO_PROOF
    """What it has shown."""
    left_out: LeftOut = NONE_LEFT_OUT
    """The tests that were not executed, if a runner has said so."""
    framed: bool = False
    """What a runner said about its tests stands in all that it prints."""
    files: tuple[str, ...] = ()
    """The files whose tests were executed, if the runner has named all of them."""


def strongest(proofs: Iterable[Proof]) -> Proof:
    """Return the strongest of several proofs; of equals the one with more tests, then the first."""
    order = list(ProofKind)
    return min(
        proofs, key=lambda proof: (order.index(proof.kind), -(proof.tests.ran if proof.tests else 0)), default=NO_PROOF
    )
