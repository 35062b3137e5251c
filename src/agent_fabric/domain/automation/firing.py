"""What becomes of due instants: which are fired, which are skipped and why. Pure decisions over recorded facts."""

import hashlib
import uuid
from collections.abc import Sequence
from enum import StrEnum
from itertools import islice
from typing import Final, NamedTuple, Self, assert_never

from agent_fabric.domain.automation.schedule import MAX_QUEUED, Misfire, Overlap, Schedule
from agent_fabric.domain.automation.timing import Timing, due_between, iso_utc
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import RunId

_RUNS: Final = uuid.UUID("5d0c3f5e-8d8a-4a52-9d0e-2b7c1f4f6a19")
"""Namespace of the ids of runs that triggers start."""
ON_TIME_S: Final = 60.0
"""A firing that is not later than this has not been missed."""
MAX_COUNTED: Final = 20_000
"""Missed instants that are counted one by one; of more, only that there are more is said."""


class FiringStatus(StrEnum):
    """What became of a due instant."""

    FIRED = "fired"
    QUEUED = "queued"
    """It waits for the run before, or for its model."""
    SKIPPED = "skipped"


class Reason(StrEnum):
    """Why a due instant was not fired, or not yet."""

    NONE = ""
    MANUAL = "manual"
    """Fired by hand."""
    BACKFILL = "backfill"
    WITHDRAWN = "withdrawn"
    """It was to be made up for, and a person has taken that back."""
    CAUGHT_UP = "caught_up"
    """Fired late, because it had been missed."""
    OVERLAP = "overlap"
    QUEUE_FULL = "queue_full"
    PAUSED = "paused"
    CHANGED = "changed"
    """The rule was changed before it was fired."""
    MISFIRE = "misfire"
    LATE = "late"
    """It was missed by more than `max_late_s`."""
    CATCH_UP = "catch_up_limit"
    QUOTA = "quota"
    BUDGET = "budget"
    MODEL_BUSY = "model_busy"
    FAILED = "start_failed"
    """What it starts could not be started; see the dead letter."""


@dataclass(frozen=True, slots=True)
class Missed:
    """Due instants that follow each other and are skipped for one reason."""

    first: float
    last: float
    count: int
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class DueInstants:
    """What is due at some moment."""

    fire: Sequence[float] = ()
    missed: Sequence[Missed] = ()
    next_at: float | None = None
    counted: bool = True
    """Whether `count` of what was missed is exact."""

    @property
    def over_limit(self) -> int:
        """How many were missed beyond what is made up for."""
        return sum(each.count for each in self.missed if each.reason is Reason.CATCH_UP)


def due_now(schedule: Schedule, timing: Timing, now: float) -> DueInstants:
    """Decide about everything that has become due since the last look, by the schedule's misfire rule."""
    assert schedule.next_at is not None
    due = [schedule.next_at, *islice(due_between(timing, schedule.next_at, now), MAX_COUNTED)]
    counted = len(due) <= MAX_COUNTED
    if not counted:  # years of seconds: only those that may still be fired are looked at
        recent = due_between(timing, max(due[-1], now - schedule.max_late_s), now)
        due += list(recent)[-max(schedule.max_catch_up, 1) :]
    late = [each for each in due if now - each > schedule.max_late_s]
    rest = due[len(late) :]
    missed = [Missed(late[0], late[-1], len(late), Reason.LATE)] if late else []
    match schedule.misfire:
        case Misfire.SKIP:
            fire = [each for each in rest[-1:] if now - each <= ON_TIME_S]
            missed += _span(rest[: len(rest) - len(fire)], Reason.MISFIRE)
        case Misfire.ONCE:
            fire = rest[-1:]
            missed += _span(rest[:-1], Reason.MISFIRE)
        case Misfire.ALL:
            kept = rest[-schedule.max_catch_up :]
            missed += _span(rest[: len(rest) - len(kept)], Reason.CATCH_UP)
            fire = kept
        case unknown:
            assert_never(unknown)
    return DueInstants(fire=fire, missed=missed, next_at=next(timing.after(max(now, due[-1])), None), counted=counted)


def _span(instants: Sequence[float], reason: Reason) -> list[Missed]:
    return [Missed(instants[0], instants[-1], len(instants), reason)] if instants else []


class Placement(NamedTuple):
    """What becomes of one instant that is to be fired."""

    status: FiringStatus
    reason: Reason = Reason.NONE


def place_firings(
    schedule: Schedule, fire: Sequence[float], *, active: int, queued: int, now: float
) -> list[Placement]:
    """Decide by the schedule's overlap rule, instant by instant.

    Several instants at once are those of a catch-up: one after another is what was asked for, so that each waits for
    the one before.
    """
    placements: list[Placement] = []
    together = len(fire) > 1
    for due in fire:
        late = Reason.CAUGHT_UP if now - due > ON_TIME_S else Reason.NONE
        if not active and not queued:
            placed = Placement(FiringStatus.FIRED, late)
        elif together:
            placed = Placement(FiringStatus.QUEUED, Reason.CAUGHT_UP)
        else:
            placed = _overlapping(schedule.overlap, late, queued)
        active += placed.status is FiringStatus.FIRED
        queued += placed.status is FiringStatus.QUEUED
        placements.append(placed)
    return placements


def _overlapping(overlap: Overlap, late: Reason, queued: int) -> Placement:
    match overlap:
        case Overlap.SKIP:
            return Placement(FiringStatus.SKIPPED, Reason.OVERLAP)
        case Overlap.QUEUE if queued >= MAX_QUEUED:
            return Placement(FiringStatus.SKIPPED, Reason.QUEUE_FULL)
        case Overlap.QUEUE:
            return Placement(FiringStatus.QUEUED, Reason.OVERLAP)
        case Overlap.CANCEL:
            return Placement(FiringStatus.FIRED, late)
        case unknown:
            assert_never(unknown)


def run_of_firing(trigger: str, due_at: float) -> RunId:
    """Return the id of the run that a trigger starts for a due instant: always the same one."""
    return RunId(str(uuid.uuid5(_RUNS, f"{trigger} {iso_utc(due_at)}")))


def jitter(trigger: str, due_at: float, most_s: float) -> float:
    """Return by how much a firing is delayed: the same on every server, different for every schedule."""
    if most_s <= 0:
        return 0.0
    digest = hashlib.sha256(f"{trigger} {due_at!r}".encode()).digest()
    return most_s * int.from_bytes(digest[:8]) / 2**64


class AskedPerson(NamedTuple):
    """What the run of a firing, or a run that works for it, has asked a person."""

    run_id: RunId
    """The run that was fired."""
    approval_id: str
    since: float
    expires_at: float
    decided_at: float | None = None
    """When it was answered; None: not yet, or it will not be."""
    decided_by: str = ""

    def is_open_at(self, instant: float) -> bool:
        """Tell whether the run waited for the answer at an instant."""
        return self.since <= instant < (self.expires_at if self.decided_at is None else self.decided_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """The record of a due instant, or of several in a row that were skipped."""

    trigger: str
    """The name of the schedule or sensor."""
    due_at: float
    until_at: float
    """The last instant; the same as the first, unless several were skipped."""
    count: int = 1
    status: FiringStatus
    reason: Reason = Reason.NONE
    fired_at: float
    """When it was decided."""
    run_id: RunId | None = None
    server: str = ""
    about: str = ""
    """The run that it overlapped with, or what went wrong."""
    revision: int = 0

    @classmethod
    def of(
        cls, schedule: Schedule, due_at: float, status: FiringStatus, reason: Reason, *, at: float, server: str
    ) -> Self:
        """Return the record of one instant of a schedule."""
        return cls(
            trigger=schedule.name,
            due_at=due_at,
            until_at=due_at,
            status=status,
            reason=reason,
            fired_at=at,
            server=server,
            revision=schedule.revision,
        )

    @property
    def late_s(self) -> float:
        """How much later than due."""
        return max(0.0, self.fired_at - self.due_at)
