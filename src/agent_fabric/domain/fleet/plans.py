"""A plan: one call on many machines, frozen before anyone agrees to it, and rolled out in waves."""

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import Any, Final

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.fleet.protocol import canonical

MAX_NODES: Final = 5_000
SKIPPED: Final = "skipped"
OFFLINE: Final = "offline"
LEFT_OUT: Final = frozenset({SKIPPED, OFFLINE})
"""Outcomes of machines that were away, so that nothing was sent to them."""
MAX_NAMED: Final = 20
"""Machines that a note names; all of them stand in the outcomes."""
_SHARE: Final = re.compile(r"(\d{1,3})%")


class PlanStatus(StrEnum):
    """Where a plan stands."""

    WAITING = "waiting"
    """For a person."""
    RUNNING = "running"
    HALTED = "halted"
    """Nothing more is sent until a person resumes or aborts it."""
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    """All waves have ended, and machines were left out."""
    ABORTED = "aborted"
    DENIED = "denied"

    @property
    def settled(self) -> bool:
        """Whether nothing more will become of it."""
        return self in {PlanStatus.COMPLETED, PlanStatus.INCOMPLETE, PlanStatus.ABORTED, PlanStatus.DENIED}


class OnOffline(StrEnum):
    """What happens with machines that are not there."""

    SKIP = "skip"
    QUEUE = "queue"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCall:
    """The call on one machine, as it was frozen."""

    node_id: str
    node: str
    execution_id: str
    policy_version: str
    bound_hash: str
    wave: int
    expires_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that one approval shows and covers."""

    id: str
    name: str
    tool_name: str
    arguments: Mapping[str, Any]
    calls: tuple[PlannedCall, ...]
    max_errors: int
    pause_s: float
    on_offline: OnOffline
    status: PlanStatus
    created_by: str
    created_at: float
    updated_at: float
    check: str = ""
    """A command that only reads, and that must succeed on a machine after the call; empty: none."""
    wave: int = 0
    """The wave that is under way."""
    approver: str = ""
    run_id: str = ""
    note: str = ""
    """Why it was halted."""
    signatures: tuple[Mapping[str, Any], ...] = ()
    """Of approvers, for all calls together: see `plan_signatures`."""
    outcomes: Mapping[str, str] = field(default_factory=dict)
    """By node: how its command ended."""
    online_when_frozen: tuple[str, ...] = ()
    """Machines that were there when it was frozen."""
    online: tuple[str, ...] = ()
    """Machines that were there when it began; one of these that is skipped is an error."""
    away: Mapping[str, float] = field(default_factory=dict)
    """Machines of the wave that are waited for now, each with the time since when."""

    @property
    def hash(self) -> str:
        """Names exactly these nodes, calls, versions and limits."""
        frozen = [
            self.id,
            self.tool_name,
            dict(self.arguments),
            [[c.node_id, c.execution_id, c.policy_version, c.bound_hash, c.wave] for c in self.calls],
            self.max_errors,
            self.pause_s,
            self.on_offline.value,
            self.check,
        ]
        return hashlib.sha256(canonical(frozen)).hexdigest()

    @property
    def waves(self) -> int:
        return 1 + max((call.wave for call in self.calls), default=-1)

    @property
    def errors(self) -> int:
        """How many machines have failed; in doubt counts, and a skipped one that was there when the plan began."""
        return len(self.failed)

    @property
    def failed(self) -> tuple[str, ...]:
        """The machines that `errors` counts."""
        tolerated = {node for node, status in self.outcomes.items() if status == SKIPPED and node not in self.online}
        return tuple(node for node, status in self.outcomes.items() if status != "success" and node not in tolerated)

    @property
    def skipped(self) -> tuple[str, ...]:
        """The machines that were left out: nothing was sent to them."""
        return tuple(node for node, status in self.outcomes.items() if status in LEFT_OUT)

    def comes_back(self, node: str) -> bool:
        """Tell whether a machine that is away is expected back: it was there when the plan was made, or began."""
        return node in self.online or node in self.online_when_frozen

    def after_last_wave(self) -> "Plan":
        """Return the plan as it ends: completed only if no machine was left out."""
        if not self.skipped:
            return replace(self, status=PlanStatus.COMPLETED)
        note = f"{len(self.skipped)} machine(s) were skipped: {names_of(self.skipped)}"
        return replace(self, status=PlanStatus.INCOMPLETE, note=note)


def names_of(nodes: Sequence[str]) -> str:
    """Return the names of machines for a note, the first of many."""
    more = len(nodes) - MAX_NAMED
    return ", ".join(nodes[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def wave_sizes(count: int, canary: int, waves: Sequence[str]) -> list[int]:
    """Return how many machines each wave has: the canary first, then up to each share of all.

    Raises:
        ValueError: a share is none, or they do not grow.
    """
    shares = []
    for text in waves:
        found = _SHARE.fullmatch(text.strip())
        if found is None or not 0 < int(found[1]) <= 100:
            raise ValueError(f"{text[:20]!r} is no share; write 10%")
        shares.append(int(found[1]))
    if shares != sorted(set(shares)) or not shares or shares[-1] != 100:
        raise ValueError("waves grow, and the last one is 100%")
    sizes, done = [], min(max(canary, 0), count)
    if done:
        sizes.append(done)
    for share in shares:
        upto = max(done, math.ceil(count * share / 100))
        if upto > done:
            sizes.append(upto - done)
            done = upto
    return sizes
