"""The table of questions, kept beside the logs: a row is written in the transaction of the event that it mirrors."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agent_fabric.application.ports.approvals import MAX_LOOKED_AT, Answer, ApprovalCard, ApprovalStatus
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.encryption import ENCRYPTED, Cipher
from agent_fabric.application.ports.runs import APPROVAL
from agent_fabric.domain.approvals.answers import Question
from agent_fabric.domain.approvals.events import ApprovalDecided, ApprovalRequested
from agent_fabric.domain.errors import ApprovalNotFound, ApprovalSettled, RunKeyMissing
from agent_fabric.domain.events import Event
from agent_fabric.domain.identity.ownership import EVERYTHING, Viewer
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.policy.outside_plan import Outside
from agent_fabric.infrastructure.persistence.runs.event_bodies import DAMAGE, body_reader, readable
from agent_fabric.infrastructure.persistence.runs.event_rows import locate
from agent_fabric.infrastructure.persistence.runs.inbox import inbox_payload, unsealed_payload
from agent_fabric.infrastructure.persistence.runs.run_visibility import visible_to
from agent_fabric.infrastructure.persistence.secrets.sealing import RunKeys, sealed_json, unsealed_json
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, marks, storable
from agent_fabric.wire.json_codec import dump_json, load_json

SHORTEST_PREFIX = 4
"""Of an id, this much has to be given."""
_WORDS = {
    ApprovalStatus.APPROVED: "approved",
    ApprovalStatus.DENIED: "denied",
    ApprovalStatus.DONE: "counted as done",
    ApprovalStatus.EXPIRED: "expired",
    ApprovalStatus.CANCELLED: "cancelled with its run",
}
_ON_THE_CARD = (
    *("question", "reason", "rule", "subject", "alike", "agent", "target", "sandbox"),
    *("untrusted", "private", "destination", "outside"),
)
_ALSO = ("policy_version", "args_hash")


def note_approvals(connection: SqlConnection, run: int, events: Sequence[Event], cipher: Cipher | None = None) -> None:
    """Bring the table to what events say; `cipher` is that of an encrypted run."""
    for event in events:
        match event.body:
            case ApprovalRequested() as body:
                card = {name: getattr(body, name) for name in (*_ON_THE_CARD, *_ALSO)}
                connection.execute(
                    "INSERT INTO pending_approvals "
                    "(id, run, execution_id, tool_name, arguments, status, created_at, expires_at, card, session_id) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, (SELECT nullif(session_id, '') FROM runs WHERE number = ?)) "
                    "ON CONFLICT (id) DO UPDATE SET run = excluded.run, "
                    "execution_id = excluded.execution_id, tool_name = excluded.tool_name, "
                    "arguments = excluded.arguments, status = excluded.status, created_at = excluded.created_at, "
                    "expires_at = excluded.expires_at, card = excluded.card, "
                    "decided_by = '', decided_at = NULL, decided_because = ''",
                    (
                        body.approval_id,
                        run,
                        body.call_id,
                        body.tool,
                        _seal(cipher, body.approval_id, "arguments", dump_json(dict(body.args))),
                        ApprovalStatus.PENDING,
                        event.ts,
                        body.expires_at,
                        _seal(cipher, body.approval_id, "card", dump_json(card)),
                        run,
                    ),
                )
            case ApprovalDecided() as body:
                status = ApprovalStatus.after(body.decision)
                _settle(connection, cipher, body.approval_id, status, body.by, body.reason, event.ts)
            case _:
                pass


_UNDECIDE = (
    "UPDATE pending_approvals SET status = ?, decided_by = '', decided_at = NULL, decided_because = '' WHERE run = ?"
)
_ANSWERED = (
    # An answer is written into both tables at the same moment; the event of it has another.
    "EXISTS (SELECT 1 FROM inbox WHERE inbox.run = pending_approvals.run AND inbox.kind = ?"
    " AND inbox.created_at = pending_approvals.decided_at{which})"
)


def cancel_approvals(connection: SqlConnection, run: int, events: Sequence[Event]) -> None:
    """Settle the questions of a run that has ended, but for those that it has recorded an answer to."""
    recorded = _recorded_answer(events)
    query = f"{_UNDECIDE} AND (status = ? OR ({_ANSWERED.format(which='')} AND id NOT IN ({marks(recorded)})))"
    connection.execute(query, (ApprovalStatus.CANCELLED, run, ApprovalStatus.PENDING, APPROVAL, *recorded))


def reopen_approvals(connection: SqlConnection, run: int, row_id: int, events: Sequence[Event]) -> None:
    """Take back an answer of the inbox that the run has not recorded: the table says what the log says."""
    recorded = _recorded_answer(events)
    answered = _ANSWERED.format(which=" AND inbox.id = ?")
    query = f"{_UNDECIDE} AND {answered} AND id NOT IN ({marks(recorded)})"
    connection.execute(query, (ApprovalStatus.PENDING, run, APPROVAL, row_id, *recorded))


def _recorded_answer(events: Sequence[Event]) -> Sequence[str]:
    """Return the questions that events answer; never an empty list, which not every database takes."""
    return ["", *(event.body.approval_id for event in events if isinstance(event.body, ApprovalDecided))]


def _seal(cipher: Cipher | None, approval_id: str, column: str, data: bytes) -> bytes:
    return data if cipher is None else sealed_json(cipher, f"approval\0{approval_id}\0{column}", data)


def _unseal(cipher: Cipher | None, approval_id: str, column: str, data: bytes) -> Any:
    return load_json(data if cipher is None else unsealed_json(cipher, f"approval\0{approval_id}\0{column}", data))


def _settle(
    connection: SqlConnection,
    cipher: Cipher | None,
    approval_id: str,
    status: ApprovalStatus,
    by: str,
    reason: str,
    at: float,
) -> None:
    if cipher is not None and reason:
        reason = _seal(cipher, approval_id, "reason", dump_json(reason)).decode()
    connection.execute(
        "UPDATE pending_approvals SET status = ?, decided_by = ?, decided_because = ?, decided_at = ? WHERE id = ?",
        (status, by, reason, at, approval_id),
    )


class SqlApprovalRepository:
    """ApprovalRepository in the file that the runs are in."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def list(
        self, *, run_id: RunId | None = None, pending_only: bool = True, viewer: Viewer = EVERYTHING
    ) -> Sequence[ApprovalCard]:
        visible = visible_to(viewer)
        conditions, values = [visible.sql], [*visible.values]
        if run_id is not None:
            conditions.append("runs.run_id = ?")
            values.append(run_id)
        if pending_only:
            conditions.append("approval.status = 'pending'")
        query = f"{_SELECT} WHERE {' AND '.join(conditions)} ORDER BY approval.created_at, approval.id"
        return await self._database.read(lambda connection: self._cards(connection, query, values))

    async def find(self, prefix: str, *, viewer: Viewer = EVERYTHING) -> ApprovalCard:
        if len(prefix) < SHORTEST_PREFIX:  # an empty variable in a script must not agree to whatever waits
            raise ApprovalNotFound(
                f"{prefix!r} is too short for an approval",
                hint=f"Give at least {SHORTEST_PREFIX} characters of its id. See them with `fabric approvals list`.",
            )
        visible = visible_to(viewer)
        query = f"{_SELECT} WHERE substr(approval.id, 1, ?) = ? AND {visible.sql} LIMIT 2"
        wanted = (len(prefix), storable(prefix), *visible.values)
        found = await self._database.read(lambda connection: self._cards(connection, query, wanted))
        if len(found) != 1:
            which = "More than one approval begins" if found else "No approval begins"
            raise ApprovalNotFound(f"{which} with {prefix!r}", hint="See them with `fabric approvals list`.")
        return found[0]

    async def agreed_before(self, card: ApprovalCard, *, viewer: Viewer = EVERYTHING) -> int:
        visible = visible_to(viewer)
        query = (
            f"{_SELECT} WHERE approval.status = ? AND approval.tool_name = ? AND approval.id <> ? AND {visible.sql}"
            " ORDER BY approval.created_at DESC LIMIT ?"
        )
        values = (ApprovalStatus.APPROVED, card.tool, card.approval_id, *visible.values, MAX_LOOKED_AT)

        def count(connection: SqlConnection) -> int:
            rows = connection.execute(query, values).fetchall()
            return sum(_rule(self._database.keys, row) == card.rule for row in rows)

        return await self._database.read(count)

    async def answer(self, approval_id: str, answer: Answer) -> None:
        now, status = self._clock.now(), ApprovalStatus.after(answer.decision)
        row = dump_json(answer.row(approval_id))

        def write(connection: SqlConnection) -> None:
            query = (
                "SELECT run, pending_approvals.status, decided_by, expires_at, run_id, key FROM pending_approvals"
                " JOIN runs ON number = run LEFT JOIN run_keys USING (run) WHERE id = ?"
            )
            found = connection.execute(query, (approval_id,)).fetchone()
            if found is None:
                raise ApprovalNotFound(f"There is no approval {approval_id!r}", hint="See `fabric approvals list`.")
            run, standing, by, expires_at, run_id, key = found
            if standing != ApprovalStatus.PENDING:
                who = f" by {by}" if by else ""
                raise ApprovalSettled(
                    f"Approval {approval_id} has been {_WORDS[ApprovalStatus(standing)]}{who} already",
                    hint="The first answer counts. See it with `fabric approvals show`.",
                )
            if float(expires_at) <= now:
                raise ApprovalSettled(
                    f"Approval {approval_id} has expired",
                    hint="Resume the run: the model is told, and may ask again.",
                )
            cipher = self._database.keys.cipher(RunId(run_id), key)
            _settle(connection, cipher, approval_id, status, answer.by, answer.reason, now)
            connection.execute(
                "INSERT INTO inbox (run, kind, payload, created_at) VALUES (?, ?, ?, ?)",
                (run, APPROVAL, inbox_payload(cipher, APPROVAL, row), now),
            )

        await self._database.write(write)

    def _cards(self, connection: SqlConnection, query: str, values: Sequence[Any]) -> Sequence[ApprovalCard]:
        # Not the table's words but the log's: these are what will run.
        keys = self._database.keys
        return [_card_of_log(connection, keys, row) for row in connection.execute(query, values).fetchall()]


def _card_of_log(connection: SqlConnection, keys: RunKeys, row: tuple[Any, ...]) -> ApprovalCard:
    """Return a question as the log has it, and as its row says what became of it."""
    approval_id, run_id, *_, key, owner = row
    try:
        cipher = keys.cipher(RunId(run_id), key)
    except RunKeyMissing:
        return _card(keys, row)
    asked = _asked_row(connection, RunId(run_id), approval_id, cipher)
    try:
        card = _card(keys, row)
        changed = _changed_fields(connection, card, cipher) if card.status is ApprovalStatus.APPROVED else None
    except DAMAGE as problem:
        damage = f"its row cannot be read: {problem}"
        return replace(_DAMAGED if asked is None else asked, **_names(row), owner=str(owner), damage=damage)
    if asked is None:
        return replace(_DAMAGED, **_names(row), owner=str(owner), damage="the log of its run does not have it")
    differs = [name for name in _ASKED if plain_field(card, name) != plain_field(asked, name)]
    damage = f"its row is not what the log says: {', '.join(differs)}" if differs else ""
    of_log = {name: getattr(asked, name) for name in (*_ASKED, "binding")}
    return replace(card, **of_log, changed=changed, damage=damage)


def _changed_fields(connection: SqlConnection, card: ApprovalCard, cipher: Cipher | None) -> Mapping[str, Any] | None:
    """Return what the person who approved made of the arguments: as the log says, or an answer on its way there."""
    number, _ = locate(connection, card.run_id)
    read = readable(body_reader(connection, number, cipher))
    query = "SELECT seq, kind, version, payload FROM events WHERE run = ? AND kind = ? ORDER BY seq DESC"
    for seq, kind, version, payload in connection.execute(query, (number, ApprovalDecided.kind)):
        body = read(seq, kind, version, payload)
        if isinstance(body, ApprovalDecided) and body.approval_id == card.approval_id:
            return body.args
    query = "SELECT payload FROM inbox WHERE run = ? AND kind = ? AND created_at = ?"
    for (payload,) in connection.execute(query, (number, APPROVAL, card.decided_at)):
        answer = load_json(unsealed_payload(cipher, APPROVAL, payload))
        if answer["approval_id"] == card.approval_id:
            args: Mapping[str, Any] | None = answer["args"]
            return args
    return None


def _asked_row(
    connection: SqlConnection, run_id: RunId, approval_id: str, cipher: Cipher | None
) -> ApprovalCard | None:
    """Return the card that the newest event about a question makes; None if there is none that can be read."""
    number, _ = locate(connection, run_id)
    read = readable(body_reader(connection, number, cipher))
    query = "SELECT seq, ts, kind, version, payload FROM events WHERE run = ? AND kind = ? ORDER BY seq DESC"
    for seq, ts, kind, version, payload in connection.execute(query, (number, ApprovalRequested.kind)):
        body = read(seq, kind, version, payload)
        if isinstance(body, ApprovalRequested) and body.approval_id == approval_id:
            return ApprovalCard.from_request(run_id, body, ts)
    return None


def _rule(keys: RunKeys, row: tuple[Any, ...]) -> str:
    """Return the rule that asked; empty if the row cannot be read."""
    try:
        return _card(keys, row).rule
    except DAMAGE:
        return ""


def _names(row: tuple[Any, ...]) -> dict[str, Any]:
    return {"approval_id": str(row[0]), "run_id": RunId(row[1])}


def plain_field(card: ApprovalCard, name: str) -> Any:
    """Return a field as it is once it was stored."""
    return load_json(dump_json(getattr(card, name)))


def cards_of(connection: SqlConnection, keys: RunKeys, run: int) -> Iterator[ApprovalCard]:
    """Read the rows of one run.

    Raises:
        ValueError, KeyError, TypeError: one of them cannot be read.
    """
    for row in connection.execute(f"{_SELECT} WHERE approval.run = ?", (run,)):
        yield _card(keys, row)


def _card(keys: RunKeys, row: tuple[Any, ...]) -> ApprovalCard:
    approval_id, run_id, call_id, tool, arguments, status, created_at, expires_at, card, *decided, key, owner = row
    by, at, because = decided
    args: Mapping[str, Any]
    shown: Mapping[str, Any]
    try:
        cipher = keys.cipher(RunId(run_id), key)
    except RunKeyMissing:
        args, shown, because = {}, _UNREADABLE, because and ENCRYPTED
    else:
        args = _unseal(cipher, approval_id, "arguments", arguments)
        shown = _unseal(cipher, approval_id, "card", card)
        if cipher is not None and because:
            because = _unseal(cipher, approval_id, "reason", because.encode())
    return ApprovalCard(
        approval_id=approval_id,
        run_id=RunId(run_id),
        call_id=call_id,
        tool=tool,
        args=args,
        created_at=created_at,
        expires_at=expires_at,
        status=ApprovalStatus(status),
        decided_by=by,
        decided_at=at,
        decided_because=because,
        owner=owner,
        **{**shown, "question": Question(shown["question"]), "outside": Outside.from_stored(shown.get("outside"))},
    )


_SELECT = (
    "SELECT approval.id, runs.run_id, approval.execution_id, approval.tool_name, approval.arguments, approval.status, "
    "approval.created_at, approval.expires_at, approval.card, approval.decided_by, approval.decided_at, "
    "approval.decided_because, run_keys.key, runs.owner FROM pending_approvals AS approval"
    " JOIN runs ON runs.number = approval.run LEFT JOIN run_keys ON run_keys.run = approval.run"
)

_UNREADABLE: Mapping[str, Any] = {
    **dict.fromkeys((*_ON_THE_CARD, *_ALSO), ENCRYPTED),
    "question": Question.MAY_IT_RUN,
    "alike": "",
    "untrusted": (),
    "private": (),
    "destination": "",
    "outside": None,
}
"""What is shown of a question if the key of its run is not here."""
_ASKED = ("tool", "args", "created_at", "expires_at", "call_id", *_ON_THE_CARD, *_ALSO)
"""What the event says of a question; the rest is what became of it."""
_WORDLESS: Mapping[str, Any] = {name: "" if text == ENCRYPTED else text for name, text in _UNREADABLE.items()}
_DAMAGED = ApprovalCard(
    approval_id="",
    run_id=RunId(""),
    tool="(damaged)",
    args={},
    call_id="",
    created_at=0.0,
    expires_at=0.0,
    status=ApprovalStatus.PENDING,
    **_WORDLESS,
)
"""What is shown of a question whose words are lost."""
