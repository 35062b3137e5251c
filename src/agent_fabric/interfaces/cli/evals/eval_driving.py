"""Evaluations in the foreground of a command: worked through by this process, or by a server."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from agent_fabric.bootstrap.local import open_local
from agent_fabric.bootstrap.runs import EvalParts, open_evals
from agent_fabric.bootstrap.this_machine import acting_run
from agent_fabric.client.errors import ServerTimedOut, ServerUnreachable
from agent_fabric.config.loader import Loaded
from agent_fabric.domain.errors import StoreFull
from agent_fabric.domain.evals.summary import Eval, EvalSummary
from agent_fabric.domain.evals.trials import Grade, Trial, TrialOutcome
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.plural import count_of
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.interfaces.cli.evals.eval_places import ComparedEval, LocalEvals, Old, compare_with, find_old
from agent_fabric.interfaces.cli.evals.eval_texts import trial_line
from agent_fabric.interfaces.cli.notices import Notices
from agent_fabric.interfaces.cli.output import capable
from agent_fabric.interfaces.cli.server.nearby_server import mention_server
from agent_fabric.interfaces.cli.stopping import StopSignals

if TYPE_CHECKING:
    from agent_fabric.client import FabricClient


class EvalProgress:
    """A line for each trial that ends, and how far it all is. As EventSink it shows what models take long for."""

    wants_deltas = False

    def __init__(self, *, shown: bool, out: TextIO | None = None) -> None:
        self._out = out or sys.stderr
        self._shown = shown
        self._total = self._done = self._right = self._begun_with = 0
        self._started = time.monotonic()
        self._bar = Notices(self._out, shown=shown and capable(self._out))

    def begin(self, *, total: int, done: int, right: int) -> None:
        """Learn how many trials there are, and how many have ended before."""
        self._total, self._done, self._right, self._begun_with = total, done, right, done
        self._started = time.monotonic()

    def outcome(self, outcome: TrialOutcome) -> None:
        """Show what came of a trial."""
        self._done += 1
        self._right += outcome.grade is Grade.RIGHT
        self.finish()
        if self._shown:
            self._out.write(f"[{self._done}/{self._total}] {trial_line(outcome, self._out)}\n")
            self._out.flush()
        self.tell()

    def tell(self) -> None:
        """Show how far it is, where a line can be overwritten."""
        if self._done < self._total:
            self._bar(f"{self._right} right so far{self._time_left()}: {100 * self._done // max(self._total, 1)} %")

    def finish(self) -> None:
        """Take away what was only for the moment."""
        self._bar.__exit__()

    def publish(self, run_id: RunId, events: Sequence[Event]) -> None:
        """Trials are shown when they end."""

    def delta(self, run_id: RunId, lane: LaneId, text: str) -> None:
        """As above."""

    def notice(self, run_id: RunId, text: str) -> None:  # noqa: ARG002 - as every sink
        """Show what a model takes long for, such as a download."""
        self._bar(text)

    def _time_left(self) -> str:
        tried = self._done - self._begun_with
        if not tried:
            return ""
        seconds = (time.monotonic() - self._started) / tried * (self._total - self._done)
        return f", about {seconds / 60:.0f} min left" if seconds > 90 else f", about {seconds:.0f} s left"


POLL_S = 1.0
PATIENCE_S = 60.0
"""How long a server that is started anew is waited for."""
Begin = Callable[[EvalParts], Awaitable[Eval]]
"""Starts an evaluation, or finds the one to go on with."""


def evaluate_here(root: Path, loaded: Loaded, begin: Begin, *, old: Old, quiet: bool) -> ComparedEval:
    """Work through an evaluation in this process, and return what it has shown, also after Ctrl-C."""
    mention_server(root)
    stop = StopSignals()
    shown = not quiet or sys.stderr.isatty()
    progress = EvalProgress(shown=shown)

    async def go() -> ComparedEval:
        async with open_local(root, loaded, progress, asks_here=False) as fabric:
            evals, reading = open_evals(fabric, loaded.config), LocalEvals(fabric.records)
            before = await find_old(reading, old)  # a wrong name is told before hours of work, not after
            evaluation = await begin(evals)
            resume = f"fabric eval resume {evaluation.eval_id[:8]}"
            stops = f"Ctrl-C stops it; to go on: {resume}"
            beginning = partial(
                tell_beginning, await reading.show(evaluation.eval_id), progress, stops=stops, shown=shown
            )
            work = asyncio.ensure_future(evals.run(evaluation, on_begin=beginning, on_outcome=progress.outcome))
            stop.cancels(work)
            try:
                await work
            except asyncio.CancelledError:
                stop.was_obeyed = True
            except StoreFull as problem:
                hint = f"Free some space, then: {resume}. Nothing that was recorded is lost."
                raise StoreFull(problem.message, hint=hint) from problem
            finally:
                progress.finish()
            return compare_with(await reading.show(evaluation.eval_id), before)

    with stop:
        return asyncio.run(go())


def tell_beginning(summary: EvalSummary, progress: EvalProgress, *, stops: str, shown: bool) -> None:
    """Say what is to be tried, and what Ctrl-C does to it."""
    progress.begin(total=summary.total, done=summary.done, right=summary.right)
    if not shown or summary.done == summary.total:
        return
    facts = summary.facts
    already = f", {summary.done} of them done" if summary.done else ""
    sys.stderr.write(f"evaluation {facts.eval_id[:8]} has {count_of(summary.total, 'trial')}{already}. {stops}\n")
    sys.stderr.flush()
    progress.tell()


async def resume_there(name: str | None, retry_failed: bool, client: "FabricClient") -> EvalSummary:
    """Let a server go on with an evaluation."""
    found = name or (await client.evals.newest(own=True)).facts.eval_id
    return await client.evals.resume(found, retry_failed=retry_failed)


def evaluate_there(
    url: str, begin: "Callable[[FabricClient], Awaitable[EvalSummary]]", *, old: Old, quiet: bool
) -> ComparedEval:
    """Let a server work through an evaluation, and show how far it is. It continues there after Ctrl-C."""
    from agent_fabric.client import FabricClient  # noqa: PLC0415 - aiohttp takes its time

    stop = StopSignals()
    shown = not quiet or sys.stderr.isatty()
    progress = EvalProgress(shown=shown)

    async def go() -> ComparedEval:
        async with FabricClient(url, run=acting_run()) as client:
            before = await find_old(client.evals, old)
            summary = await begin(client)
            eval_id = summary.facts.eval_id
            ends = f"`fabric eval cancel {eval_id[:8]} --server {url}` ends it."
            if summary.facts.status is RunStatus.RUNNING:
                tell_beginning(summary, progress, stops=f"After Ctrl-C it continues there; {ends}", shown=shown)
            work = asyncio.ensure_future(_follow(client, summary, progress))
            stop.cancels(work)
            try:
                summary = await work
            except asyncio.CancelledError:
                stop.was_obeyed = True
                progress.finish()
                sys.stderr.write(f"The evaluation continues at {url}; {ends}\n")
                summary = await client.evals.show(eval_id)
            finally:
                progress.finish()
            return compare_with(summary, before)

    with stop:
        return asyncio.run(go())


async def _follow(client: "FabricClient", summary: EvalSummary, progress: EvalProgress) -> EvalSummary:
    """Show what comes of trials until there are none left; return what all of them have shown."""
    known: set[Trial] = {each.trial for each in summary.trials}
    deadline = time.monotonic() + PATIENCE_S
    while summary.facts.status is RunStatus.RUNNING:
        await asyncio.sleep(POLL_S)
        try:
            summary = await client.evals.show(summary.facts.eval_id)
        except (ServerUnreachable, ServerTimedOut):
            if time.monotonic() > deadline:
                raise
            continue
        deadline = time.monotonic() + PATIENCE_S
        for outcome in summary.trials:
            if outcome.trial not in known:
                known.add(outcome.trial)
                progress.outcome(outcome)
    return summary
