"""The table of what came of trials."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.errors import EvalNotFound
from agent_fabric.domain.evals.trials import Arm, Evidence, Grade, Trial, TrialOutcome
from agent_fabric.domain.ids import EvalId, RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, storable
from agent_fabric.wire.json_codec import dump_json, load_json

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
        rows = await self._database.read(lambda connection: connection.execute(query, (eval_id,)).fetchall())
        return [_outcome(row) for row in rows]

    async def retries(self, eval_id: EvalId) -> Mapping[Trial, int]:
        query = f"SELECT case_id, model, pack, attempt, retry FROM eval_trials WHERE eval = {_NUMBER} AND retry > 0"  # noqa: S608 - ours
        rows = await self._database.read(lambda connection: connection.execute(query, (eval_id,)).fetchall())
        return {_trial(*key): retry for *key, retry in rows}

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
