"""The evaluations of a server, as commands read and follow them."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence

from agent_fabric.application.ports.evals import EvalRecord
from agent_fabric.bootstrap.this_machine import acting_run
from agent_fabric.client import FabricClient
from agent_fabric.client.errors import ServerTimedOut, ServerUnreachable
from agent_fabric.domain.evals.summary import EvalSummary
from agent_fabric.domain.evals.trials import Trial
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.interfaces.cli.evals.eval_driving import tell_beginning
from agent_fabric.interfaces.cli.evals.eval_places import ComparedEval, Old, compare_with, find_old
from agent_fabric.interfaces.cli.evals.eval_progress import EvalProgress
from agent_fabric.interfaces.cli.stopping import StopSignals

POLL_S = 1.0
PATIENCE_S = 60.0
"""How long a server that is started anew is waited for."""


class ServerEvals:
    """The evaluations of a server."""

    def __init__(self, client: FabricClient) -> None:
        self._client = client

    async def list(self, *, limit: int) -> Sequence[EvalRecord]:
        return await self._client.evals.list(limit=limit)

    async def summary(self, name: str | None) -> EvalSummary:
        evals = self._client.evals
        return await (evals.newest(own=True) if name is None else evals.show(name))

    async def cancel(self, name: str | None, *, reason: str) -> EvalSummary:
        found = (await self.summary(None)).facts.eval_id if name is None else name
        return await self._client.evals.cancel(found, reason=reason)


async def resume_there(name: str | None, retry_failed: bool, client: FabricClient) -> EvalSummary:
    """Let a server go on with an evaluation."""
    found = (await client.evals.newest(own=True)).facts.eval_id if name is None else name
    return await client.evals.resume(found, retry_failed=retry_failed)


def evaluate_there(
    url: str, begin: Callable[[FabricClient], Awaitable[EvalSummary]], *, old: Old, quiet: bool
) -> ComparedEval:
    """Let a server work through an evaluation, and show how far it is. It continues there after Ctrl-C."""
    stop = StopSignals()
    shown = not quiet or sys.stderr.isatty()
    progress = EvalProgress(shown=shown)

    async def go() -> ComparedEval:
        async with FabricClient(url, run=acting_run()) as client:
            before = await find_old(ServerEvals(client), old)
            summary = await begin(client)
            eval_id = summary.facts.eval_id
            ends = f"`fabric eval cancel {eval_id[:8]} --server {url}` ends it."
            if summary.facts.status is RunStatus.RUNNING:
                tell_beginning(summary, progress, stops=f"After Ctrl-C it continues there; {ends}", shown=shown)
            work = asyncio.ensure_future(_followed(client, summary, progress))
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


async def _followed(client: FabricClient, summary: EvalSummary, progress: EvalProgress) -> EvalSummary:
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
