"""`fabric logs`: look at runs."""

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Annotated, Any, TypeVar

import typer

from agent_fabric.application.ports.embeddings import FoundRun
from agent_fabric.application.ports.runs import RunRecord
from agent_fabric.bootstrap.local import Records, open_records
from agent_fabric.domain.errors import ConfigError, RunNotFound
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.evolve import evolve
from agent_fabric.domain.runs.state import RunState
from agent_fabric.infrastructure.runlog.lines import line_of
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.options import AsJson, RunIdArgument, Workspace, configuration, existing_root
from agent_fabric.interfaces.cli.output import capable, json_text, print_json, shortened

FOLLOW_S = 0.3
MANY = 100
"""Runs whose reading takes so long that a person wants to see it."""
T = TypeVar("T")

app = new_app("Look at runs: list, show, search, export.")

Limit = Annotated[int, typer.Option(min=1, help="Most runs to show.")]


@app.callback()
def logs() -> None:
    """Look at runs. Everything is read from the store, whatever happened to the log files."""


@app.command("list")
def list_runs(workspace: Workspace = None, limit: Limit = 20, as_json: AsJson = False) -> None:
    """List the newest runs."""
    runs: Sequence[RunRecord] = _with_records(
        workspace, lambda records: records.catalogue.recent(limit=limit), without=[]
    )
    _print_runs(runs, as_json=as_json)


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="Words of the task or the result.")],
    workspace: Workspace = None,
    limit: Limit = 20,
    semantic: Annotated[bool, typer.Option("--semantic", help="Search by meaning instead of by words.")] = False,
    as_json: AsJson = False,
) -> None:
    """Find runs by words of their task or result, or by what they mean; the best match first."""
    if semantic:
        _search_by_meaning(query, workspace, limit=limit, as_json=as_json)
        return
    runs: Sequence[RunRecord] = _with_records(
        workspace, lambda records: records.catalogue.search(query, limit=limit), without=[]
    )
    _print_runs(runs, as_json=as_json)


@app.command()
def show(
    run_id: RunIdArgument,
    kinds: Annotated[str, typer.Option(help="Only these kinds of event, separated by commas.")] = "",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run settles.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Do not cut long texts.")] = False,
    workspace: Workspace = None,
    as_json: AsJson = False,
) -> None:
    """Show a run's events: one JSON object a line, as in runlog.jsonl; with --json one object for the whole run."""
    if follow and as_json:
        raise ConfigError("--json gives one object, so it cannot follow", hint="Leave one of the two away.")
    wanted = {kind.strip() for kind in kinds.split(",") if kind.strip()}

    async def go(records: Records) -> None:
        found = await records.catalogue.find(run_id)
        state = RunState(found)
        shown: list[dict[str, Any]] = []
        while True:
            events = await records.runs.read(found, after=state.next_seq - 1)
            for event in events:
                evolve(state, event)
                if not wanted or event.body.kind in wanted:
                    line = line_of(found, event, whole=full)
                    shown.append(line) if as_json else _print_line(line)
            if state.status.settled or not follow:
                break
            sys.stdout.flush()
            await asyncio.sleep(FOLLOW_S)
        if as_json:
            print_json({"run_id": found, "status": state.status.value, "events": shown})

    _with_records(workspace, go)


@app.command()
def export(
    run_id: Annotated[str | None, typer.Argument(metavar="RUN_ID", help="The run; without it, all runs.")] = None,
    workspace: Workspace = None,
) -> None:
    """Write runlog.jsonl, and for all runs run_index.jsonl, anew from the store."""

    async def go(records: Records) -> None:
        if run_id is not None:
            found = await records.catalogue.find(run_id)
            sys.stdout.write(f"{records.runlog.export(found, await records.runs.read(found))}\n")
            return
        exported: list[tuple[RunId, Sequence[Event]]] = []
        for record in reversed(await records.catalogue.recent(limit=-1)):
            events = await records.runs.read(record.run_id)
            sys.stdout.write(f"{records.runlog.export(record.run_id, events)}\n")
            exported.append((record.run_id, (events[0], *events[1:2], events[-1])))
        records.run_index.export(exported)
        sys.stdout.write(f"{records.layout.run_index}\n")

    _with_records(workspace, go)


def _search_by_meaning(query: str, workspace: str | None, *, limit: int, as_json: bool) -> None:
    from agent_fabric.bootstrap.recall import search_runs  # noqa: PLC0415 - nothing else needs what this imports

    if not query.strip():
        raise ConfigError(
            "There is nothing to search for", hint='For example: fabric logs search --semantic "slow tests"'
        )

    async def go(records: Records) -> Sequence[FoundRun]:
        search = search_runs(records, configuration(records.layout.root).config)
        return (await search(query, limit=limit, on_progress=_print_progress)).runs

    found: Sequence[FoundRun] = _with_records(workspace, go, without=[])
    if as_json:
        print_json({"runs": [{**_record(each.record), "score": round(each.score, 4)} for each in found]})
        return
    _print_runs([each.record for each in found], as_json=False, scores=[each.score for each in found])


def _print_progress(done: int, total: int) -> None:
    """Say how far reading is, where it takes long enough to wonder: over and over on a terminal, else once."""
    if total < MANY:
        return
    text = f"Reading {total} runs for the first time: {done}"
    if capable(sys.stderr):
        sys.stderr.write(f"\r{text}" if done < total else f"\r{text}, done.\n")
        sys.stderr.flush()
    elif done == 0:
        sys.stderr.write(f"Reading {total} runs for the first time…\n")


def _with_records(
    workspace: str | None, work: Callable[[Records], Coroutine[Any, Any, T]], *, without: T | None = None
) -> T:
    """Look at the runs of a fabric folder; `without` is the answer where there are none."""
    try:
        records = open_records(existing_root(workspace))
    except RunNotFound:
        if without is None:
            raise
        return without
    try:
        return asyncio.run(work(records))
    finally:
        records.close()


def _print_runs(runs: Sequence[RunRecord], *, as_json: bool, scores: Sequence[float] = ()) -> None:
    if as_json:
        print_json({"runs": [_record(run) for run in runs]})
        return
    if not runs:
        sys.stderr.write("No runs.\n")
    for place, run in enumerate(runs):
        score = f"{scores[place]:5.2f}  " if scores else ""
        created = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.created_at))
        who = ",".join(run.specialist_ids) or "-"
        line = f"{run.run_id}  {created}  {run.status.value:<11}  {who:<12}  {shortened(run.prompt, 60)}"
        sys.stdout.write(f"{score}{line}\n")


def _record(run: RunRecord) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "status": run.status.value,
        "created_at": run.created_at,
        "updated_at": run.updated_at,
        "specialist_ids": list(run.specialist_ids),
        "prompt": run.prompt,
        "summary": run.summary,
    }


def _print_line(line: dict[str, Any]) -> None:
    sys.stdout.write(json_text(line) + "\n")
