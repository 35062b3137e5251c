"""The tables of evaluations and of what came of their trials."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.evals import EvalRecord
from agent_fabric.domain.errors import EvalNotFound
from agent_fabric.domain.evals.definition import definition_from, plain_definition
from agent_fabric.domain.evals.summary import Eval
from agent_fabric.domain.evals.trials import Arm, Evidence, Grade, Trial, TrialOutcome, trials_of
from agent_fabric.domain.identity.ownership import EVERYTHING, Viewer, is_owner, visibility_from
from agent_fabric.domain.ids import EvalId, RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.persistence.runs.run_visibility import visible_to
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, storable
from agent_fabric.infrastructure.persistence.table import Codec, Table, begins_with, fetch, json_bytes
from agent_fabric.wire.json_codec import dump_json, load_json

_SEE_ALL = "See all evaluations with `fabric eval list`."


def _status(value: object) -> RunStatus:
    try:
        return RunStatus(str(value))
    except ValueError:
        return RunStatus.WAITING  # a newer program's


def _eval(asked: Mapping[str, Any], **stored: Any) -> Eval:
    return Eval(scopes=tuple(asked["scopes"]), requested_by=asked["by"], **stored)


def _split(evaluation: Eval) -> Mapping[str, Any]:
    return {
        "name": evaluation.definition.name,
        "total": len(trials_of(evaluation.definition)),
        "asked": {"by": evaluation.requested_by, "scopes": list(evaluation.scopes)},
        **{name: getattr(evaluation, name) for name in _EVALS.columns if name != "asked"},
    }


_STATUS: Final = Codec(_status)
_VISIBILITY: Final = Codec(visibility_from)
_EVALS: Final = Table(
    "evals",
    _eval,
    key="eval_id",
    columns="eval_id status created_at updated_at owner visibility asked definition",
    split=_split,
    status=_STATUS,
    visibility=_VISIBILITY,
    asked=json_bytes(),
    definition=Codec(
        lambda stored: definition_from(load_json(stored)), lambda definition: dump_json(plain_definition(definition))
    ),
)
_RECORDS: Final = Table("evals", EvalRecord, key="eval_id", status=_STATUS, visibility=_VISIBILITY)


class SqlEvalRepository:
    """EvalRepository over the database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def create(self, evaluation: Eval) -> None:
        await self._database.write(lambda connection: _EVALS.insert(connection, evaluation))

    async def find(self, name: str, *, viewer: Viewer = EVERYTHING) -> Eval:
        if not name:
            raise EvalNotFound("No evaluation was named", hint=_SEE_ALL)
        visible, begins = visible_to(viewer, "evals"), begins_with("eval_id", name.lower())

        def read(connection: SqlConnection) -> tuple[list[str], Eval | None]:
            query = f"SELECT eval_id FROM evals WHERE {begins.sql} AND {visible.sql} ORDER BY eval_id LIMIT 6"  # noqa: S608 - ours
            ids = [str(found) for (found,) in connection.execute(query, (*begins.values, *visible.values))]
            if len(ids) == 1 or (ids and ids[0] == name.lower()):
                return ids, _EVALS.find(connection, "eval_id = ?", ids[0])
            named = f"name = ? AND {visible.sql} ORDER BY number DESC LIMIT 1"
            return ids, _EVALS.find(connection, named, name, *visible.values)

        ids, found = await self._database.read(read)
        if found is not None:
            return found
        if ids:
            raise EvalNotFound(f"Several evaluations begin with {name!r}", hint=f"Give more: {', '.join(ids)}.")
        raise EvalNotFound(f"There is no evaluation {name!r}", hint=_SEE_ALL)

    async def list(self, *, limit: int, viewer: Viewer = EVERYTHING, owner: str = "") -> Sequence[EvalRecord]:
        visible = visible_to(viewer, "evals")
        query = (
            "SELECT eval_id, name, status, created_at, updated_at, owner, visibility, total,"  # noqa: S608 - ours
            " (SELECT count(*) FROM eval_trials WHERE eval = number AND grade <> ''),"
            " (SELECT count(*) FROM eval_trials WHERE eval = number AND grade = 'right')"
            f" FROM evals WHERE {visible.sql} ORDER BY number DESC"
        )

        def read(connection: SqlConnection) -> Sequence[EvalRecord]:
            records = (_RECORDS.load(row) for row in connection.execute(query, visible.values).fetchall())
            found = [each for each in records if not owner or is_owner(owner, each.owner)]
            return found if limit < 0 else found[:limit]

        return await self._database.read(read)

    async def status(self, eval_id: EvalId) -> RunStatus:
        found = await fetch(self._database, "SELECT status FROM evals WHERE eval_id = ?", eval_id)
        if not found:
            raise EvalNotFound(f"There is no evaluation {eval_id!r}", hint=_SEE_ALL)
        return _status(found[0][0])

    async def mark(self, eval_id: EvalId, status: RunStatus) -> bool:
        query = "UPDATE evals SET status = ?, updated_at = ? WHERE eval_id = ? AND status <> ? RETURNING number"
        values = (status, self._clock.now(), eval_id, RunStatus.CANCELLED)
        return await self._database.write(lambda connection: connection.execute(query, values).fetchone() is not None)


_NUMBER: Final = "(SELECT number FROM evals WHERE eval_id = ?)"


_FIGURES: Final = (
    "evidence",
    "sent_back",
    "outcome",
    "not_done",
    "already_right",
    "reason",
    "seconds",
    "steps",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "cost",
)


class SqlTrialOutcomes:
    """TrialOutcomes over the database. A row without a grade is a trial that begins anew."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def record(self, eval_id: EvalId, outcome: TrialOutcome) -> bool:
        now = self._clock.now()
        trial = outcome.trial
        figures = {name: getattr(outcome, name) for name in _FIGURES}
        told = {**figures, "reason": storable(outcome.reason), "status": outcome.status.value}
        query = (
            "INSERT INTO eval_trials (eval, case_id, model, pack, attempt, retry, run_id, grade, outcome)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (eval, case_id, model, pack, attempt) DO UPDATE SET run_id = excluded.run_id,"
            " grade = excluded.grade, outcome = excluded.outcome"
            " WHERE eval_trials.grade = '' AND eval_trials.retry = excluded.retry RETURNING attempt"
        )
        key = (trial.case_id, trial.arm.model, trial.arm.pack, trial.attempt)
        values = (*key, outcome.retry, outcome.run_id, outcome.grade, dump_json(told))

        def write(connection: SqlConnection) -> bool:
            changed = "UPDATE evals SET updated_at = ? WHERE eval_id = ? RETURNING number"
            found = connection.execute(changed, (now, eval_id)).fetchone()
            if found is None:
                raise EvalNotFound(f"There is no evaluation {eval_id!r}")
            return connection.execute(query, (found[0], *values)).fetchone() is not None

        return await self._database.write(write)

    async def read(self, eval_id: EvalId) -> Sequence[TrialOutcome]:
        query = (
            "SELECT case_id, model, pack, attempt, retry, run_id, grade, outcome FROM eval_trials"  # noqa: S608 - ours
            f" WHERE eval = {_NUMBER} AND grade <> ''"
        )
        return [_outcome(row) for row in await fetch(self._database, query, eval_id)]

    async def retries(self, eval_id: EvalId) -> Mapping[Trial, int]:
        query = f"SELECT case_id, model, pack, attempt, retry FROM eval_trials WHERE eval = {_NUMBER} AND retry > 0"  # noqa: S608 - ours
        return {_trial(*key): retry for *key, retry in await fetch(self._database, query, eval_id)}

    async def retry_failed(self, eval_id: EvalId) -> int:
        query = (
            f"UPDATE eval_trials SET grade = '', retry = retry + 1 WHERE eval = {_NUMBER}"  # noqa: S608 - ours
            " AND grade = ? RETURNING attempt"
        )
        values = (eval_id, Grade.FAILED)
        return await self._database.write(lambda connection: len(connection.execute(query, values).fetchall()))


def _trial(case_id: str, model: str, pack: str, attempt: int) -> Trial:
    return Trial(case_id, Arm(model, pack), attempt)


def _outcome(row: Sequence[Any]) -> TrialOutcome:
    *key, retry, run_id, grade, outcome = row
    told = load_json(outcome)
    return TrialOutcome(
        trial=_trial(*key),
        run_id=RunId(run_id),
        grade=Grade(grade),
        status=RunStatus(told["status"]),
        retry=retry,
        **{
            **{name: told[name] for name in _FIGURES if name in told},
            "evidence": _evidence(told),
            "not_done": tuple(told.get("not_done") or ()),
        },
    )


def _evidence(told: Mapping[str, Any]) -> Evidence:
    """Return what a run has shown. Rows from before there were kinds of it only say whether it was proven."""
    if "evidence" in told:
        return Evidence(told["evidence"])
    return Evidence.PROVEN if told.get("proven") else Evidence.UNPROVEN
