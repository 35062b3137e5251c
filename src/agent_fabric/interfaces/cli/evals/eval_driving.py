"""Evaluations in the foreground of a command."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from agent_fabric.bootstrap.local import open_local
from agent_fabric.bootstrap.runs import EvalParts, open_evals
from agent_fabric.config.loader import Loaded
from agent_fabric.domain.errors import StoreFull
from agent_fabric.domain.evals.summary import Eval, EvalSummary
from agent_fabric.domain.plural import counted
from agent_fabric.interfaces.cli.evals.eval_places import ComparedEval, LocalEvals, Old, compare_with, find_old
from agent_fabric.interfaces.cli.evals.eval_progress import EvalProgress
from agent_fabric.interfaces.cli.server.nearby_server import mention_server
from agent_fabric.interfaces.cli.stopping import StopSignals

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
                tell_beginning, await reading.summary(evaluation.eval_id), progress, stops=stops, shown=shown
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
            return compare_with(await reading.summary(evaluation.eval_id), before)

    with stop:
        return asyncio.run(go())


def tell_beginning(summary: EvalSummary, progress: EvalProgress, *, stops: str, shown: bool) -> None:
    """Say what is to be tried, and what Ctrl-C does to it."""
    progress.begin(total=summary.total, done=summary.done, right=summary.right)
    if not shown or summary.done == summary.total:
        return
    facts = summary.facts
    already = f", {summary.done} of them done" if summary.done else ""
    sys.stderr.write(f"evaluation {facts.eval_id[:8]} has {counted(summary.total, 'trial')}{already}. {stops}\n")
    sys.stderr.flush()
    progress.tell()
