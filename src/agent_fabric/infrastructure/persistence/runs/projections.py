"""Compares the tables that follow from logs with the logs: the status of runs, and the questions to people."""

import zlib
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from agent_fabric.application.ports.approvals import ApprovalCard, ApprovalStatus, follow_approvals
from agent_fabric.application.ports.encryption import Cipher
from agent_fabric.application.ports.runs import APPROVAL
from agent_fabric.config.constants import DEFAULT_POOL
from agent_fabric.domain.approvals.answers import Decision
from agent_fabric.domain.approvals.events import ApprovalRequested
from agent_fabric.domain.events import Event, RunCreated, UnknownEvent
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.consequences import consequences
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.persistence.approvals.questions import cards_of
from agent_fabric.infrastructure.persistence.runs.inbox import unsealed_payload
from agent_fabric.infrastructure.persistence.secrets.sealing import RunKeys
from agent_fabric.infrastructure.persistence.sql import SqlConnection
from agent_fabric.wire.json_codec import dump_json, load_json

CREATION_S = 60.0
"""A run is created within this time of its first event."""


class Projection:
    """What the tables must say of one run, from its events."""

    def __init__(self, run_id: RunId) -> None:
        self._run_id = run_id
        self._created: RunCreated | None = None
        self._created_at: float | None = None
        self._status = RunStatus.RUNNING
        self._wake_at: float | None = None
        self._cards: dict[str, ApprovalCard] = {}
        self._cut: set[str] = set()
        """Questions whose arguments are too long to be compared."""
        self._known = True
        """Whether every event is of a kind that this program knows."""

    def follow(self, event: Event, *, whole: bool = True) -> None:
        """Take in the next event; of one that is not `whole`, something else stands for long texts."""
        match event.body:
            case ApprovalRequested() as asked if not whole:
                self._cut.add(asked.approval_id)
            case RunCreated() as created if self._created is None:
                self._created, self._created_at = created, event.ts
            case UnknownEvent():
                self._known = False
            case _:
                pass
        following = consequences(self._run_id, self._created, (event,))
        if following.status is not None:
            self._status, self._wake_at = following.status, following.wake_at
        follow_approvals(self._cards, self._run_id, following)

    def damage(self, connection: SqlConnection, keys: RunKeys, number: int, cipher: Cipher | None) -> Iterator[str]:
        """Return where the tables say something else, one sentence each."""
        if self._known:  # a newer program's events may have had other consequences
            yield from self._status_damage(connection, number)
            yield from self._approval_damage(connection, keys, number, cipher)

    def _status_damage(self, connection: SqlConnection, number: int) -> Iterator[str]:
        query = (
            "SELECT runs.status, runs.wake_at, runs.created_at, runs.owner, runs.visibility,"
            " CASE WHEN runs.parent IS NOT NULL THEN"
            " coalesce(parents.run_id, (SELECT run_id FROM audit_chain WHERE run = runs.parent LIMIT 1), '?') END,"
            " runs.continues, (SELECT number FROM runs AS earlier WHERE earlier.run_id = ?), runs.trial_of,"
            " runs.pool, runs.session_id"
            " FROM runs LEFT JOIN runs AS parents ON parents.number = runs.parent WHERE runs.number = ?"
        )
        continues = None if self._created is None else self._created.continues
        (
            (
                status,
                wake_at,
                created_at,
                owner,
                visibility,
                parent,
                earlier,
                recorded_earlier,
                trial_of,
                pool,
                session,
            ),
        ) = connection.execute(query, (continues, number)).fetchall()
        if status != self._status:
            yield f"the store says that the run is {status}, but its log ends as {self._status.value}"
        if wake_at != self._wake_at:
            yield f"the table of runs has another time at which it goes on ({wake_at}) than its log ({self._wake_at})"
        if self._created_at is not None and not abs(created_at - self._created_at) <= CREATION_S:
            yield f"the table of runs has another time of its beginning ({created_at}) than its log"
        if self._created is not None and (owner, visibility) != (self._created.owner, self._created.visibility):
            yield f"the table of runs has another owner or visibility ({owner}, {visibility}) than its log"
        recorded = self._created.parent.run_id if self._created is not None and self._created.parent else None
        if parent != recorded:
            yield f"the table of runs says that it works for {parent}, and its log for {recorded}"
        if earlier != recorded_earlier:
            yield "the table of runs names another run that it follows up than its log"
        if self._created is not None and trial_of != self._created.trial_of:
            yield "the table of runs names another evaluation that it is a trial of than its log"
        if self._created is not None and pool != (self._created.pool or DEFAULT_POOL):
            yield f"the table of runs has another pool ({pool}) than its log"
        if self._created is not None and session != self._created.session:
            yield "the table of runs names another session that it is a turn of than its log"

    def _is_late_answer(self, card: ApprovalCard) -> bool:
        """Tell whether 0.5 may have left an answer there when the run was cancelled without having read it."""
        by_0_5 = self._created is not None and not self._created.owner
        return by_0_5 and card.status in _ANSWERED and card.decided_by != "" and card.decided_at is not None

    def _approval_damage(
        self, connection: SqlConnection, keys: RunKeys, number: int, cipher: Cipher | None
    ) -> Iterator[str]:
        try:
            found = {card.approval_id: card for card in cards_of(connection, keys, number)}
        except (ValueError, KeyError, TypeError, zlib.error) as problem:
            yield f"its approvals cannot be read: {problem}"
            return
        answers = _answers(connection, number, cipher)
        for approval_id in sorted(found.keys() | self._cards.keys()):
            card, recorded = found.get(approval_id), self._cards.get(approval_id)
            if card is None:
                yield f"approval {approval_id} is missing from the table"
            elif recorded is None:
                yield f"approval {approval_id} is in the table, and not in its log"
            else:
                expected = answers.get(approval_id, {}) if recorded.status is ApprovalStatus.PENDING else {}
                wanted = {name: _plain(recorded, name) for name in _FIELDS} | expected
                if recorded.status is ApprovalStatus.CANCELLED and self._is_late_answer(card):
                    wanted = {name: value for name, value in wanted.items() if name not in _DECISION}
                if approval_id in self._cut:
                    del wanted["args"]
                differs = [name for name, value in wanted.items() if _plain(card, name) != value]
                if differs:
                    yield f"approval {approval_id} is not what its log says: {', '.join(differs)}"


_FIELDS = [field.name for field in fields(ApprovalCard) if field.name not in {"owner", "binding", "changed", "damage"}]
"""The owner is the run's, and compared there; two are only in the log; damage is what this looks for."""

_ANSWERED = (ApprovalStatus.APPROVED, ApprovalStatus.DENIED, ApprovalStatus.DONE)
_DECISION = ("status", "decided_by", "decided_at", "decided_because")


def _plain(card: ApprovalCard, name: str) -> Any:
    return load_json(dump_json(getattr(card, name)))


def _answers(connection: SqlConnection, number: int, cipher: Cipher | None) -> dict[str, dict[str, Any]]:
    """Return what unread answers in the run's inbox make of its cards, by approval."""
    found: dict[str, dict[str, Any]] = {}
    query = "SELECT payload, created_at FROM inbox WHERE run = ? AND kind = ?"
    for payload, at in connection.execute(query, (number, APPROVAL)):
        try:
            row = load_json(unsealed_payload(cipher, APPROVAL, payload))
            found[str(row["approval_id"])] = {
                "status": ApprovalStatus.after(Decision(row["decision"])).value,
                "decided_by": row["by"],
                "decided_because": row["reason"],
                "decided_at": at,
            }
        except (ValueError, KeyError, TypeError):
            continue  # no answer of ours, so it accounts for nothing
    return found
