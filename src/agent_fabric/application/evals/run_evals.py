"""Evaluations in the background of a server."""

import asyncio
import logging
from dataclasses import dataclass, field

from agent_fabric.application.evals.find_eval import lock_of
from agent_fabric.application.evals.run_eval import RunEval
from agent_fabric.domain.errors import EvalHeld, FabricError
from agent_fabric.domain.evals.summary import Eval
from agent_fabric.domain.ids import EvalId
from agent_fabric.domain.runs.task import RunStatus

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunEvals:
    """Use case: work through evaluations after their user has left. The next server goes on with them."""

    run: RunEval
    _under_way: dict[EvalId, asyncio.Task[RunStatus]] = field(default_factory=dict)

    async def start(self, evaluation: Eval) -> None:
        """Begin with an evaluation, or go on with it; one that is under way here goes on.

        Raises:
            EvalHeld: another process works on it.
        """
        eval_id = evaluation.eval_id
        if eval_id in self._under_way:
            return
        is_held = await self.run.locks.is_held(lock_of(eval_id))
        if eval_id in self._under_way:  # meanwhile
            return
        if is_held:
            raise EvalHeld(f"Another process works on evaluation {eval_id}", hint="See how far it is, or cancel it.")
        task = asyncio.create_task(self.run(evaluation), name=f"eval {eval_id}")
        self._under_way[eval_id] = task
        task.add_done_callback(lambda done: self._after_end(eval_id, done))

    async def resume_unfinished(self) -> None:
        """Go on with what an earlier server, or a process that died, left unfinished."""
        for each in await self.run.evals.list(limit=-1):
            if each.status is RunStatus.RUNNING and not await self.run.locks.is_held(lock_of(each.eval_id)):
                try:
                    await self.start(await self.run.evals.find(each.eval_id))
                except FabricError as problem:
                    _log.warning("Evaluation %s was not resumed: %s", each.eval_id, problem.message)

    def stop(self) -> None:
        """Stop every evaluation where it stands."""
        for task in self._under_way.values():
            task.cancel()

    async def aclose(self) -> None:
        """Wait until all have stopped."""
        self.stop()
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)

    def _after_end(self, eval_id: EvalId, task: "asyncio.Task[RunStatus]") -> None:
        self._under_way.pop(eval_id, None)
        if task.cancelled():
            return
        problem = task.exception()
        if isinstance(problem, FabricError):
            _log.warning("Evaluation %s stopped: %s", eval_id, problem.message)
        elif problem is not None:
            _log.error("Evaluation %s stopped", eval_id, exc_info=problem)
