"""`fabric logs`: look at runs."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any, TextIO

import typer

from agent_fabric.application.ports.runs import FoundRun, RunRecord
from agent_fabric.domain.errors import ConfigError, RunKeyMissing
from agent_fabric.domain.events import Event, problem_of
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.plural import count_of
from agent_fabric.domain.runs.consequences import consequences
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.infrastructure.runs.log.jsonl_log import JsonlRunLog, RunIndex
from agent_fabric.interfaces.cli.durations import moment_in
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED
from agent_fabric.interfaces.cli.options import Last, RunIdArgument
from agent_fabric.interfaces.cli.output import capable, colourful, json_text, laid_out, print_warning
from agent_fabric.interfaces.cli.pager import open_pager, pager_command
from agent_fabric.interfaces.cli.place import RUNS, Place, PlainPlace, RunAccess, RunChoice, choose_run, refuse_if
from agent_fabric.interfaces.cli.runs.result_lines import closing_lines, effect_texts, evidence_lines, warning_lines
from agent_fabric.interfaces.cli.runs.run_list import run_lines
from agent_fabric.interfaces.cli.runs.transcript import INDENT, Transcript
from agent_fabric.wire.event_lines import line_of
from agent_fabric.wire.results import PROOF

MANY = 100
"""Runs whose reading takes so long that a person wants to see it."""

app = new_app("Inspect runs: list, show, search, export.")

Owner = Annotated[
    str, typer.Option(metavar="NAME", help="Only runs of this owner: user:ada, key:ci, local, or a name alone.")
]
Limit = Annotated[int, typer.Option(min=1, help="Most runs to show.")]


@app.callback()
def logs() -> None:
    """Inspect runs. Everything is read from the store, not from the log files."""


@app.command("list")
def list_runs(
    limit: Limit = 20,
    owner: Owner = "",
    status: Annotated[RunStatus | None, typer.Option(help="Only runs with this status.")] = None,
    trials: Annotated[bool, typer.Option(help="Whether trials of evaluations are listed, too.")] = True,
    *,
    at: Place,
) -> int:
    """List the newest runs, with their owners.

    Exit codes: 0 all of them can be read, 1 some are damaged.
    """
    found: Sequence[RunRecord] = RUNS(
        at, lambda runs: runs.recent(limit=limit, owner=owner, status=status, trials=trials), without=[]
    )
    _print_runs(found, at)
    return FAILED if any(run.unreadable for run in found) else COMPLETED


@app.command()
def search(
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help="Words, and phrases in quotes: '\"two words\"'.")],
    limit: Limit = 20,
    owner: Owner = "",
    status: Annotated[RunStatus | None, typer.Option(help="Only runs with this status.")] = None,
    since: Annotated[str, typer.Option(metavar="TIME", help="Only runs created then or later: 2026-11-17, 7d.")] = "",
    until: Annotated[str, typer.Option(metavar="TIME", help="Only runs created before.")] = "",
    semantic: Annotated[bool, typer.Option("--semantic", help="Search by meaning instead of by words.")] = False,
    *,
    at: Place,
) -> None:
    """Find runs by words of what was asked, done and said, or by what they mean; the best match first."""
    query = " ".join(words)
    if semantic:
        refuse_if(
            bool(owner or status or since or until), "--semantic has no filters", hint="Leave out --semantic, or these."
        )
        _search_by_meaning(query, at, limit=limit)
        return
    began, ended = moment_in(since), moment_in(until)
    found: Sequence[RunRecord] = RUNS(
        at,
        lambda runs: runs.search(query, limit=limit, owner=owner, status=status, since=began, until=ended),
        without=[],
    )
    _print_runs(found, at)


@app.command()
def show(
    run_id: RunIdArgument = None,
    last: Last = False,
    kinds: Annotated[str, typer.Option(help="Only these kinds of event, separated by commas.")] = "",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue until the run settles.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Do not fold prompts or shorten long texts.")] = False,
    as_lines: Annotated[
        bool, typer.Option("--jsonl", help="Print one JSON object for each event, as in runlog.jsonl.")
    ] = False,
    *,
    at: Place,
) -> int:
    """Show a run as a transcript: what was said, called, returned and agreed to, with times and costs.

    At a terminal it is coloured (NO_COLOR) and paged (PAGER, LESS, NO_PAGER), and prompts and long results are folded;
    --full unfolds them. Into a file or a pipe, all of it is written as plain text.

    Of an encrypted run there is no runlog.jsonl, unless `fabric logs export RUN_ID` writes it.

    Exit codes: 0 all of it can be read, 1 some events are damaged; these are marked as unreadable.
    """
    refuse_if(follow and at.as_json, "--json gives one object, so it cannot follow", hint="--jsonl --follow can.")
    refuse_if(as_lines and at.as_json, "--json and --jsonl cannot be combined", hint="Use one of the two.")
    chosen = choose_run(run_id, last=last)
    wanted = frozenset(kind.strip() for kind in kinds.split(",") if kind.strip())
    reading = _Reading(chosen, wanted, follow=follow, whole=full)
    if at.as_json or as_lines:
        RUNS(at, reading.print_json if at.as_json else reading.print_lines)
    else:
        with open_pager("" if follow else pager_command(sys.stdout)) as out:
            RUNS(at, partial(reading.print_transcript, out=out))
    if reading.damaged:
        print_warning(
            f"{count_of(reading.damaged, 'event')} cannot be read. See what is damaged: fabric verify {reading.found}"
        )
    return FAILED if reading.damaged else COMPLETED


class _Reading:
    """Reads the events of a run, some at a time, and prints each in one of three forms."""

    def __init__(self, chosen: RunChoice, wanted: frozenset[str], *, follow: bool, whole: bool) -> None:
        self._chosen, self._wanted = chosen, wanted
        self._follow, self._whole = follow, whole
        self.damaged = 0
        """Events that cannot be read."""
        self.found = RunId("")

    async def print_json(self, place: RunAccess) -> None:
        self.found = await self._chosen.find(place)
        status, out, count = RunStatus.RUNNING, sys.stdout, 0
        begin = f'{{\n  "run_id": {json_text(self.found)},\n  "events": ['  # not before it is known that it can be read
        async with aclosing(self._events(place, whole=self._whole)) as batches:
            async for events in batches:
                out.write(begin)
                begin = ""
                status = consequences(self.found, None, events).status or status
                for event in filter(self._is_wanted, events):
                    line = json_text(line_of(self.found, event, whole=self._whole), indent=2)
                    out.write(("," if count else "") + "\n    " + line.replace("\n", "\n    "))
                    count += 1
        end = "\n  " if count else ""
        proof = None if (result := await self._final_result(place, status)) is None else PROOF.dump(result.proof)
        out.write(f'{begin}{end}],\n  "status": {json_text(status.value)},\n  "proof": {json_text(proof)}\n}}\n')

    async def print_lines(self, place: RunAccess) -> None:
        self.found = await self._chosen.find(place)
        async with aclosing(self._events(place, whole=self._whole)) as batches:
            async for events in batches:
                for event in filter(self._is_wanted, events):
                    sys.stdout.write(json_text(line_of(self.found, event, whole=self._whole)) + "\n")
                sys.stdout.flush()

    async def print_transcript(self, place: RunAccess, *, out: TextIO) -> None:
        self.found = await self._chosen.find(place)
        folded = not self._whole and sys.stdout.isatty()
        transcript = Transcript(
            self.found, folded=folded, coloured=colourful(sys.stdout), every_kind=bool(self._wanted)
        )
        status = RunStatus.RUNNING
        async with aclosing(self._events(place, whole=not folded)) as batches:
            async for events in batches:
                status = consequences(self.found, None, events).status or status
                lines = (line for event in filter(self._is_wanted, events) for line in transcript.lines(event))
                # In a thread, as a pager takes no more than fits on its screen: connections stay alive meanwhile.
                await asyncio.to_thread(write_lines, out, lines)
        write_lines(out, transcript.rest())
        if (result := await self._final_result(place, status)) is not None and not self._wanted:
            closing = [*evidence_lines(result, sys.stdout), *effect_texts(result.effects, sys.stdout, files=True)]
            if not transcript.has_warned:  # an older log
                closing += warning_lines(result.effects, result.outcome, sys.stdout)
            closing += closing_lines(result.effects, result.outcome, sys.stdout)
            write_lines(out, (f"{INDENT}{line}" for line in closing))

    async def _final_result(self, place: RunAccess, status: RunStatus) -> RunResult | None:
        """Return what came of a run that completed, and what bears it out, unless its log cannot tell."""
        return None if status is not RunStatus.COMPLETED or self.damaged else await place.result(self.found)

    async def _events(self, place: RunAccess, *, whole: bool) -> AsyncGenerator[Sequence[Event], None]:
        pages = place.follow(self.found) if self._follow else place.pages(self.found, whole=whole)
        async with aclosing(pages) as batches:
            async for events in batches:
                self.damaged += sum(problem_of(event) != "" for event in events)
                yield events

    def _is_wanted(self, event: Event) -> bool:
        return not self._wanted or event.body.kind in self._wanted


def write_lines(out: TextIO, lines: Iterable[str]) -> None:
    """Write lines; those that a terminal or its pager would break within a word are broken between words."""
    indents = ((line, max(len(line) - len(line.lstrip(" ")), len(INDENT))) for line in lines)
    out.writelines(f"{laid_out(line, sys.stdout, indent=' ' * indent)}\n" for line, indent in indents)
    out.flush()


@app.command()
def export(
    run_id: Annotated[str | None, typer.Argument(metavar="RUN_ID", help="The run; without it, all runs.")] = None,
    last: Last = False,
    *,
    at: PlainPlace,
) -> None:
    """Write runlog.jsonl, and for all runs run_index.jsonl, again from the store.

    Those of a server's runs are written below fabric-export in the current folder. An encrypted run is written in the
    clear only if it is named.
    """
    chosen = choose_run(run_id, last=last) if last or run_id is not None else None

    async def go(place: RunAccess) -> None:
        layout = place.exports
        runlog = JsonlRunLog(layout)
        if chosen is not None:
            found = await chosen.find(place)
            sys.stdout.write(f"{await runlog.export_pages(found, place.pages(found), encrypted=True)}\n")
            return
        exported: list[tuple[RunId, Sequence[Event]]] = []
        for record in reversed(await place.recent(limit=-1)):
            outline: list[Event] = []
            try:
                path = await runlog.export_pages(record.run_id, _keep_outline(place.pages(record.run_id), outline))
            except RunKeyMissing as problem:
                sys.stderr.write(f"{problem.message}\n")
                continue
            if path is None:
                sys.stderr.write(f"Run {record.run_id} is encrypted: export it by its id\n")
            else:
                sys.stdout.write(f"{path}\n")
            exported.append((record.run_id, outline))
        layout.root.mkdir(parents=True, exist_ok=True)
        RunIndex(layout).export(exported)
        sys.stdout.write(f"{layout.run_index}\n")

    RUNS(at, go)


async def _keep_outline(
    pages: AsyncGenerator[Sequence[Event], None], outline: list[Event]
) -> AsyncGenerator[Sequence[Event], None]:
    """Pass pages on, and keep what the index of runs tells: the first two events and the last."""
    async with aclosing(pages) as batches:
        async for events in batches:
            first = [*outline, *events][:2]
            outline[:] = first if events[-1] is first[-1] else [*first, events[-1]]
            yield events


def _search_by_meaning(query: str, at: Place, *, limit: int) -> None:
    if not query.strip():
        raise ConfigError(
            "There is nothing to search for", hint='For example: fabric logs search --semantic "slow tests"'
        )
    found: Sequence[FoundRun] = RUNS(
        at, lambda runs: runs.search_by_meaning(query, limit=limit, on_progress=_print_progress), without=[]
    )
    _print_runs([each.record for each in found], at, scores=[each.score for each in found])


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


def _print_runs(runs: Sequence[RunRecord], at: Place, *, scores: Sequence[float] = ()) -> None:
    more = [{"score": round(score, 4)} for score in scores] or [{}] * len(runs)
    records = [{**_record(run), **fit} for run, fit in zip(runs, more, strict=True)]
    lines = run_lines(runs, sys.stdout, scores=scores)
    at.print({"runs": records}, "".join(f"{line}\n" for line in lines), note="" if runs else "No runs.\n")


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
        "continues": run.continues,
        "trial_of": run.trial_of or None,
        **({"matched": run.matched} if run.matched else {}),
        **unreadable,
    }
