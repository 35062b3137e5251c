"""A plan: one call on many machines, frozen before anybody agrees to it, and rolled out in waves."""

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from agent_fabric.domain.fleet.protocol import canonical

DEFAULT_WAVES: Final = ("10%", "50%", "100%")
MAX_NODES: Final = 5_000
_SHARE: Final = re.compile(r"(\d{1,3})%")


class PlanStatus(StrEnum):
    """Where a plan stands."""

    WAITING = "waiting"
    """For a person."""
    RUNNING = "running"
    HALTED = "halted"
    """Nothing more is sent until a person resumes or aborts it."""
    COMPLETED = "completed"
    ABORTED = "aborted"
    DENIED = "denied"

    @property
    def settled(self) -> bool:
        """Whether nothing more will become of it."""
        return self in {PlanStatus.COMPLETED, PlanStatus.ABORTED, PlanStatus.DENIED}


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
        """How many there are."""
        return 1 + max((call.wave for call in self.calls), default=-1)

    @property
    def errors(self) -> int:
        """How many machines have failed; in doubt counts."""
        return sum(status not in {"success", "skipped"} for status in self.outcomes.values())


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
