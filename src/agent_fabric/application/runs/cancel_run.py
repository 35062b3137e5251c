"""Ends a run from anywhere."""

from contextlib import suppress

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.runs import CANCEL, RunRepository
from agent_fabric.application.runs.fold_log import fold_log
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import RunHeld, RunNotFound, RunUndrivable
from agent_fabric.domain.events import Event, RunCancelled
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.evolve import evolve
from agent_fabric.domain.runs.state import RunState, result_of
from agent_fabric.domain.runs.task import RunResult

POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class CancelRun:
    """Use case: ask a run's driver to end it, or end it ourselves when no one drives it."""

    runs: RunRepository
    clock: Clock
    patience_s: float = 10.0
    """How long to wait until a living driver has obeyed."""

    async def __call__(self, run_id: RunId, *, by: str, reason: str = "") -> RunResult:
        """Return the run as it stands afterwards. A run that has settled stays as it is.

        Raises:
            RunNotFound: there is no such run.
            RunUndrivable: a newer program wrote its log.
            RunHeld: its driver lives but did not obey in time; the request stays in the inbox.
        """
        if (await self.runs.status(run_id)).settled:
            return await self._result(run_id)
        await self.runs.post(run_id, CANCEL, {"by": by, "reason": reason})
        deadline = self.clock.monotonic() + self.patience_s
        while True:
            try:
                state = await self._end(run_id, by=by, reason=reason)
                await self._end_children(state)
                return result_of(state)
            except RunHeld:
                if (await self.runs.status(run_id)).settled:
                    return await self._result(run_id)
                if self.clock.monotonic() > deadline:
                    raise
            await self.clock.sleep(POLL_S)

    async def _result(self, run_id: RunId) -> RunResult:
        return result_of(await fold_log(run_id, await self.runs.read(run_id)))

    async def _end_children(self, state: RunState) -> None:
        """End the runs that worked for one that has ended; where it is driven, its driver does so."""
        for child in state.workflow.open_children.values() if state.workflow is not None else ():
            with suppress(RunHeld, RunNotFound):  # the request stays in its inbox; or it never came to be
                await self(child, by=f"run {state.run_id}", reason="the workflow has ended")

    async def _end(self, run_id: RunId, *, by: str, reason: str) -> RunState:
        """End a run that no one drives."""
        held, events, _ = await self.runs.take(run_id)
        try:
            state = await fold_log(run_id, events)
            if state.unknown_kind:
                raise RunUndrivable(
                    f"The log of run {run_id} holds {state.unknown_kind!r} events, which this version does not know",
                    hint="A newer agent-fabric wrote it. Upgrade, then cancel.",
                )
            if not state.status.settled:
                event = Event(state.next_seq, self.clock.now(), None, "", RunCancelled(by=by, reason=reason))
                evolve(state, event)
                await held.append((event,), consumed=await held.unread())
            return state
        finally:
            await held.release()
