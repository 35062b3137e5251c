"""The floor: one durable insert for each step, into the store's own table with the store's own settings.

One run at a time: insert and commit, step after step, on the spot. Many at once: each step still waits until its own
row is durable, but rows that are asked for while a commit is under way share the next one, as in our store. Without
that the floor would pay for fifty commits where one does, and be easy to reach. Nothing else happens: no folder, no log
file, no hash, no decision.
"""

import asyncio
import json
import time
from functools import partial
from pathlib import Path

import apsw

from agent_fabric.infrastructure.persistence.database import connect
from agent_fabric.infrastructure.persistence.store import Writer
from workflow_peers.jobs import Job, serve

INSERT = (
    "INSERT INTO events (run, seq, ts, kind, version, lane, step, payload, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
NO_HASH = bytes(32)
Row = tuple[int, int, float, str, int, str, str, bytes, bytes]


class Floor:
    def __init__(self, folder: Path) -> None:
        self._connection = connect(folder / "floor.db")
        self._writer = Writer(folder / "floor.db")
        self._next_run = 0

    def do(self, job: Job) -> int:
        before = self._rows()
        if job.at_once == 1:
            for _ in range(job.runs):
                self._one_by_one(job.steps)
        else:
            asyncio.run(self._side_by_side(job))
        return self._rows() - before

    def _one_by_one(self, steps: int) -> None:
        connection, run = self._connection, self._run()
        for step in range(steps):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(INSERT, _row(run, step))
            connection.execute("COMMIT")

    async def _side_by_side(self, job: Job) -> None:
        todo = iter(range(job.runs))

        async def worker() -> None:
            for _ in todo:
                run = self._run()
                for step in range(job.steps):
                    await self._writer.write(partial(_insert, row=_row(run, step)))

        await asyncio.gather(*(worker() for _ in range(job.at_once)))

    def _run(self) -> int:
        self._next_run += 1
        return self._next_run

    def _rows(self) -> int:
        ((count,),) = self._connection.execute("SELECT max(position) FROM events").fetchall()
        return count if isinstance(count, int) else 0


def _insert(connection: apsw.Connection, row: Row) -> None:
    connection.execute(INSERT, row)


def _row(run: int, step: int) -> Row:
    outcome = {"step_id": f"s{step}", "attempt": 1, "status": "success", "outputs": {"value": step + 1}}
    return run, step, time.time(), "step_finished", 1, f"s{step}", "", json.dumps(outcome).encode(), NO_HASH


if __name__ == "__main__":
    serve(Floor)
