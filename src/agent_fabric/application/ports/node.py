"""What the node's program needs of the machine it runs on."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

from agent_fabric.domain.dataclass import dataclass


class SpoolState(StrEnum):
    """How far a call has come on the node."""

    RECEIVED = "received"
    STARTED = "started"
    """It is under way, or the node was stopped during it: it may have happened."""
    FINISHED = "finished"
    REPORTED = "reported"
    """The hub has the result."""


@dataclass(frozen=True, slots=True)
class SpooledCall:
    """A call that the node has seen."""

    execution_id: str
    hash: str
    state: SpoolState
    tool_name: str
    result: Mapping[str, Any] | None


class NodeProblem(Exception):
    """The program of a node cannot do what it was started for; the text says why."""


class NotEnrolled(NodeProblem):
    """The folder belongs to no node yet."""


class JoinRefused(NodeProblem):
    """The machine could not be enrolled."""


class FloorProblem(NodeProblem):
    """The node's own file cannot be used."""


class NodeRevoked(Exception):
    """The hub does not know the node any more; it stops."""


class CallSpool(Protocol):
    """What a node remembers durably: each method but `report` returns when it is on the disk."""

    @property
    def head(self) -> tuple[int, str]:
        """The newest position of the node's record, and its hash."""
        ...

    def find(self, execution_id: str) -> SpooledCall | None: ...

    def receive(
        self, execution_id: str, call_hash: str, tool_name: str, detail: Mapping[str, Any], *, begins: bool = False
    ) -> None:
        """Remember a call before anything is done about it; with `begins`, also that it begins now, in one write."""
        ...

    def start(self, execution_id: str) -> None: ...

    def finish(
        self, execution_id: str, result: Mapping[str, Any], detail: Mapping[str, Any], kind: str = "finished"
    ) -> None: ...

    def report(self, execution_id: str) -> None:
        """Remember that the hub has a result; a power cut may undo it."""
        ...

    def note(self, kind: str, execution_id: str, detail: Mapping[str, Any]) -> None: ...

    def list_unreported(self) -> Sequence[SpooledCall]:
        """Return calls that have begun or ended and that the hub may not know of, the oldest first."""
        ...


class NodeToolbox(Protocol):
    """The tools of the machine."""

    def names(self) -> Sequence[str]:
        """Return the tools that can be used here."""
        ...

    async def run(self, execution_id: str, tool_name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Run one tool and return its result; whatever goes wrong is in it. Cancelling ends all its processes."""
        ...


class ApprovalCheck(Protocol):
    """Tells whether an approval that a call brings holds for exactly this call."""

    def __call__(self, bound: str, approval: Mapping[str, Any]) -> str:
        """Return why it does not hold; empty: it does."""
        ...
