"""LangGraph with its SQLite checkpointer: the same graph, every step durable before the next one (`durability="sync"`).

    python -m workflow_peers.langgraph_graph sync|async

`sync`: SqliteSaver, plain functions as nodes, one thread for each run at once. `async`: AsyncSqliteSaver, coroutines as
nodes, so that no thread is needed for them. Graphs are compiled before the clock starts.
"""

import argparse
import asyncio
import operator
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module  # it is installed only where this runs
from pathlib import Path
from typing import Annotated, Any, TypedDict
from uuid import uuid4

from workflow_peers.jobs import CHAIN, Job, serve

FULL = "PRAGMA synchronous = FULL"


class State(TypedDict):
    value: Annotated[int, operator.add]


def add_one(_: State) -> dict[str, int]:
    return {"value": 1}


async def add_one_async(_: State) -> dict[str, int]:
    return {"value": 1}


def compiled(job: Job, node: Callable[[State], Any], saver: Any) -> Any:
    """Return the graph of a job."""
    graph = import_module("langgraph.graph")
    builder = graph.StateGraph(State)
    for step in range(job.steps):
        builder.add_node(f"s{step}", node)
        builder.add_edge(graph.START if job.shape != CHAIN or step == 0 else f"s{step - 1}", f"s{step}")
    builder.add_edge([f"s{job.steps - 1}"] if job.shape == CHAIN else [f"s{n}" for n in range(job.steps)], graph.END)
    return builder.compile(checkpointer=saver)


def _settings(job: Job) -> dict[str, Any]:
    return {"configurable": {"thread_id": uuid4().hex}, "recursion_limit": job.steps + 10}


class WithThreads:
    def __init__(self, folder: Path) -> None:
        connection = sqlite3.connect(folder / "checkpoints.db", check_same_thread=False)
        self._saver = import_module("langgraph.checkpoint.sqlite").SqliteSaver(connection)
        self._saver.setup()
        connection.execute(FULL)
        self._graphs: dict[tuple[str, int], Any] = {}

    def do(self, job: Job) -> int:
        if job.graph not in self._graphs:
            self._graphs[job.graph] = compiled(job, add_one, self._saver)
        if job.at_once == 1:
            return sum(self._run(job) for _ in range(job.runs))
        with ThreadPoolExecutor(job.at_once) as pool:
            return sum(pool.map(lambda _: self._run(job), range(job.runs)))

    def _run(self, job: Job) -> int:
        result = self._graphs[job.graph].invoke({"value": 0}, _settings(job), durability="sync")
        return int(result["value"])


class WithCoroutines:
    def __init__(self, folder: Path) -> None:
        self._path = folder / "checkpoints.db"
        self._runner = asyncio.Runner()
        self._saver = self._runner.run(self._open())
        self._graphs: dict[tuple[str, int], Any] = {}

    async def _open(self) -> Any:
        connection = await import_module("aiosqlite").connect(self._path)
        saver = import_module("langgraph.checkpoint.sqlite.aio").AsyncSqliteSaver(connection)
        await saver.setup()
        await connection.execute(FULL)
        return saver

    def do(self, job: Job) -> int:
        if job.graph not in self._graphs:
            self._graphs[job.graph] = compiled(job, add_one_async, self._saver)
        return self._runner.run(self._do(job))

    async def _do(self, job: Job) -> int:
        graph, done = self._graphs[job.graph], 0
        todo = iter(range(job.runs))

        async def worker() -> None:
            nonlocal done
            for _ in todo:
                result = await graph.ainvoke({"value": 0}, _settings(job), durability="sync")
                done += result["value"]

        await asyncio.gather(*(worker() for _ in range(job.at_once)))
        return done


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("saver", choices=("sync", "async"))
    serve(WithThreads if parser.parse_args().saver == "sync" else WithCoroutines)
