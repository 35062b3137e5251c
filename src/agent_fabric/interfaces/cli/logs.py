"""`fabric logs`: look at runs."""

import sys
import time
from collections.abc import Sequence
from contextlib import aclosing
from typing import Annotated, Any

import typer

from agent_fabric.application.ports.embeddings import FoundRun
from agent_fabric.application.ports.runs import RunRecord
from agent_fabric.domain.errors import ConfigError, RunKeyMissing
from agent_fabric.domain.events import Event, problem_of
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.ownership import Visibility
from agent_fabric.domain.runs.evolve import evolve
from agent_fabric.domain.runs.state import RunState
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.runlog.jsonl_log import JsonlRunLog
from agent_fabric.infrastructure.runlog.lines import is_encrypted, line_of
from agent_fabric.infrastructure.runlog.run_index import RunIndex
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED
from agent_fabric.interfaces.cli.options import AsJson, RunIdArgument, Workspace
from agent_fabric.interfaces.cli.output import capable, json_text, plain, print_json, print_warning, shortened
from agent_fabric.interfaces.cli.place import RunAccess, Server, at_place

MANY = 100
"""Runs whose reading takes so long that a person wants to see it."""

app = new_app("Inspect runs: list, show, search, export.")

Limit = Annotated[int, typer.Option(min=1, help="Most runs to show.")]


@app.callback()
def logs() -> None:
    """Inspect runs. Everything is read from the store, whatever happened to the log files."""


@app.command("list")
def list_runs(
    workspace: Workspace = None,
    server: Server = None,
    limit: Limit = 20,
    owner: Annotated[
        str, typer.Option(metavar="NAME", help="Only runs of this owner: user:ada, key:ci, local, or a name alone.")
    ] = "",
    status: Annotated[RunStatus | None, typer.Option(help="Only runs with this status.")] = None,
    as_json: AsJson = False,
) -> int:
    """List the newest runs, with their owners.

    Exit codes: 0 all of them can be read, 1 some are damaged.
    """

    async def go(place: RunAccess) -> Sequence[RunRecord]:
        return await place.recent(limit=limit, owner=owner, status=status)

    found: Sequence[RunRecord] = at_place(workspace, server, go, without=[])
    _print_runs(found, as_json=as_json)
    return FAILED if any(run.unreadable for run in found) else COMPLETED


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="Words of the task or the result.")],
    workspace: Workspace = None,
    server: Server = None,
    limit: Limit = 20,
    semantic: Annotated[bool, typer.Option("--semantic", help="Search by meaning instead of by words.")] = False,
    as_json: AsJson = False,
) -> None:
    """Find runs by words of their task or result, or by what they mean; the best match first."""
    if semantic:
        _search_by_meaning(query, workspace, server, limit=limit, as_json=as_json)
        return

    async def go(place: RunAccess) -> Sequence[RunRecord]:
        return await place.search(query, limit=limit)

    _print_runs(at_place(workspace, server, go, without=[]), as_json=as_json)


@app.command()
def show(
    run_id: RunIdArgument,
    kinds: Annotated[str, typer.Option(help="Only these kinds of event, separated by commas.")] = "",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue until the run settles.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Do not cut long texts.")] = False,
    workspace: Workspace = None,
    server: Server = None,
    as_json: AsJson = False,
) -> int:
    """Show a run's events: one JSON object a line, as in runlog.jsonl; with --json one object for the whole run.

    Of an encrypted run there is no runlog.jsonl, unless `fabric logs export RUN_ID` writes it.

    Exit codes: 0 all of it can be read, 1 some events are damaged; these lines say `unreadable`.
    """
    if follow and as_json:
        raise ConfigError("--json gives one object, so it cannot follow", hint="Leave one of the two away.")
    wanted = {kind.strip() for kind in kinds.split(",") if kind.strip()}

    async def go(place: RunAccess) -> int:
        found = await place.find(run_id)
        state = RunState(found)
        shown: list[dict[str, Any]] = []
        damaged = 0
        async with aclosing(place.follow(found) if follow else place.pages(found, whole=full)) as batches:
            async for events in batches:
                for event in events:
                    evolve(state, event)
                    damaged += problem_of(event) != ""
                    if not wanted or event.body.kind in wanted:
                        line = line_of(found, event, whole=full)
                        shown.append(line) if as_json else _print_line(line)
                sys.stdout.flush()
        if as_json:
            print_json({"run_id": found, "status": state.status.value, "events": shown})
        if damaged:
            print_warning(f"{damaged} events cannot be read. See what is damaged: fabric verify {found}")
        return FAILED if damaged else COMPLETED

    return at_place(workspace, server, go)


@app.command()
def export(
    run_id: Annotated[str | None, typer.Argument(metavar="RUN_ID", help="The run; without it, all runs.")] = None,
    workspace: Workspace = None,
    server: Server = None,
) -> None:
    """Write runlog.jsonl, and for all runs run_index.jsonl, anew from the store.

    Those of a server's runs are written below fabric-export in the current folder. An encrypted run is written in the
    clear only if it is named.
    """

    async def go(place: RunAccess) -> None:
        layout = place.exports
        runlog = JsonlRunLog(layout)
        if run_id is not None:
            found = await place.find(run_id)
            sys.stdout.write(f"{await runlog.export_pages(found, place.pages(found))}\n")
            return
        exported: list[tuple[RunId, Sequence[Event]]] = []
        for record in reversed(await place.recent(limit=-1)):
            try:
                events = await place.events(record.run_id)
            except RunKeyMissing as problem:
                sys.stderr.write(f"{problem.message}\n")
                continue
            if is_encrypted(events):
                sys.stderr.write(f"Run {record.run_id} is encrypted: export it by its id\n")
            else:
                sys.stdout.write(f"{runlog.export(record.run_id, events)}\n")
            exported.append((record.run_id, (events[0], *events[1:2], events[-1])))
        layout.root.mkdir(parents=True, exist_ok=True)
        RunIndex(layout).export(exported)
        sys.stdout.write(f"{layout.run_index}\n")

    at_place(workspace, server, go)


def _search_by_meaning(query: str, workspace: str | None, server: str | None, *, limit: int, as_json: bool) -> None:
    if not query.strip():
        raise ConfigError(
            "There is nothing to search for", hint='For example: fabric logs search --semantic "slow tests"'
        )

    async def go(place: RunAccess) -> Sequence[FoundRun]:
        return await place.search_by_meaning(query, limit=limit, on_progress=_print_progress)

    found: Sequence[FoundRun] = at_place(workspace, server, go, without=[])
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
        owner = plain(run.owner) + " (private)" * (run.visibility is Visibility.PRIVATE)
        line = f"{run.run_id}  {created}  {run.status.value:<11}  {who:<12}  {owner:<12}  {shortened(run.prompt, 60)}"
        sys.stdout.write(f"{score}{line}\n")


def _record(run: RunRecord) -> dict[str, Any]:
    unreadable = {"unreadable": run.unreadable} if run.unreadable else {}
    return {
        "run_id": run.run_id,
        "status": run.status.value,
        "created_at": run.created_at,
        "updated_at": run.updated_at,
        "specialist_ids": list(run.specialist_ids),
        "prompt": run.prompt,
        "summary": run.summary,
        "owner": run.owner,
        "visibility": run.visibility.value,
        **unreadable,
    }


def _print_line(line: dict[str, Any]) -> None:
    sys.stdout.write(json_text(line) + "\n")
