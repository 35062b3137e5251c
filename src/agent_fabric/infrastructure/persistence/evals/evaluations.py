"""The table of evaluations."""

from collections.abc import Sequence
from typing import Any

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.evals import EvalRecord
from agent_fabric.domain.errors import EvalNotFound
from agent_fabric.domain.evals.definition import definition_from, plain_definition
from agent_fabric.domain.evals.summary import Eval
from agent_fabric.domain.evals.trials import trials_of
from agent_fabric.domain.identity.ownership import EVERYTHING, Viewer, is_owner, visibility_from
from agent_fabric.domain.ids import EvalId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.persistence.runs.run_visibility import visible_to
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, storable
from agent_fabric.wire.json_codec import dump_json, load_json

_COLUMNS = "eval_id, status, created_at, updated_at, owner, visibility, asked, definition"
_LAST_CHARACTER = "\U0010ffff"
_SEE_ALL = "See all evaluations with `fabric eval list`."


class SqlEvalRepository:
    """EvalRepository over the database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def create(self, evaluation: Eval) -> None:
        values = (
            evaluation.eval_id,
            storable(evaluation.definition.name),
            evaluation.status,
            storable(evaluation.owner),
            evaluation.visibility,
            evaluation.created_at,
            evaluation.updated_at,
            len(trials_of(evaluation.definition)),
            dump_json({"by": evaluation.requested_by, "scopes": list(evaluation.scopes)}),
            dump_json(plain_definition(evaluation.definition)),
        )
        query = (
            "INSERT INTO evals (eval_id, name, status, owner, visibility, created_at, updated_at, total, asked,"
            " definition) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        )
        await self._database.write(lambda connection: connection.execute(query, values).fetchall())

    async def find(self, name: str, *, viewer: Viewer = EVERYTHING) -> Eval:
        wanted = storable(name)
        if not wanted:
            raise EvalNotFound("No evaluation was named", hint=_SEE_ALL)
        visible = visible_to(viewer, "evals")

        def read(connection: SqlConnection) -> tuple[list[str], list[Any]]:
            prefix = wanted.lower()
            begins = f"eval_id >= ? AND eval_id < ? AND {visible.sql}"
            query = f"SELECT eval_id FROM evals WHERE {begins} ORDER BY eval_id LIMIT 6"  # noqa: S608 - ours
            ids = [
                str(found)
                for (found,) in connection.execute(query, (prefix, prefix + _LAST_CHARACTER, *visible.values))
            ]
            if len(ids) == 1 or (ids and ids[0] == prefix):
                where, values = "eval_id = ?", (ids[0],)
            else:
                where, values = f"name = ? AND {visible.sql}", (wanted, *visible.values)
            query = f"SELECT {_COLUMNS} FROM evals WHERE {where} ORDER BY number DESC LIMIT 1"  # noqa: S608 - ours
            return ids, connection.execute(query, values).fetchall()

        ids, rows = await self._database.read(read)
        if rows:
            return _eval(rows[0])
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
            records = (_record(row) for row in connection.execute(query, visible.values).fetchall())
            found = [each for each in records if not owner or is_owner(owner, each.owner)]
            return found if limit < 0 else found[:limit]

        return await self._database.read(read)

    async def status(self, eval_id: EvalId) -> RunStatus:
        query = "SELECT status FROM evals WHERE eval_id = ?"
        row = await self._database.read(lambda connection: connection.execute(query, (eval_id,)).fetchone())
        if row is None:
            raise EvalNotFound(f"There is no evaluation {eval_id!r}", hint=_SEE_ALL)
        return _status(row[0])

    async def mark(self, eval_id: EvalId, status: RunStatus) -> bool:
        query = "UPDATE evals SET status = ?, updated_at = ? WHERE eval_id = ? AND status <> ? RETURNING number"
        values = (status, self._clock.now(), eval_id, RunStatus.CANCELLED)
        return await self._database.write(lambda connection: connection.execute(query, values).fetchone() is not None)


def _status(value: object) -> RunStatus:
    try:
        return RunStatus(str(value))
    except ValueError:
        return RunStatus.WAITING  # a newer program's


def _eval(row: Sequence[Any]) -> Eval:
    eval_id, status, created_at, updated_at, owner, visibility, asked, definition = row
    who = load_json(asked)
    return Eval(
        eval_id=EvalId(eval_id),
        definition=definition_from(load_json(definition)),
        status=_status(status),
        created_at=created_at,
        updated_at=updated_at,
        owner=owner,
        visibility=visibility_from(visibility),
        scopes=tuple(who["scopes"]),
        requested_by=who["by"],
    )


def _record(row: Sequence[Any]) -> EvalRecord:
    eval_id, name, status, created_at, updated_at, owner, visibility, total, done, right = row
    return EvalRecord(
        eval_id=EvalId(eval_id),
        name=name,
        status=_status(status),
        created_at=created_at,
        updated_at=updated_at,
        owner=owner,
        visibility=visibility_from(visibility),
        total=total,
        done=done,
        right=right,
    )
