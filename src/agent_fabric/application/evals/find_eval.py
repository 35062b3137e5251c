"""Finds evaluations, and tells how they stand."""

from collections.abc import Sequence
from dataclasses import replace

from agent_fabric.application.ports.evals import EvalRecord, EvalRepository, TrialOutcomes
from agent_fabric.application.ports.leases import NamedLocks
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import EvalNotFound
from agent_fabric.domain.evals.summary import Eval, EvalSummary, summarize
from agent_fabric.domain.identity.ownership import EVERYTHING, Viewer
from agent_fabric.domain.ids import EvalId
from agent_fabric.domain.runs.task import RunStatus


def lock_of(eval_id: EvalId) -> str:
    """Return the name of the lock that the worker of an evaluation holds."""
    return f"eval:{eval_id}"


@dataclass(frozen=True, slots=True)
class FindEval:
    """Use case: find an evaluation that a caller may see. One that no process works on counts as interrupted."""

    evals: EvalRepository
    trials: TrialOutcomes
    locks: NamedLocks

    async def __call__(self, name: str, *, viewer: Viewer = EVERYTHING) -> Eval:
        """Return the evaluation of an id, or of the beginning of one, or else the newest of this name.

        Raises:
            EvalNotFound: there is none, or more than one.
        """
        found = await self.evals.find(name, viewer=viewer)
        return replace(found, status=await self._standing(found.eval_id, found.status))

    async def newest(self, *, viewer: Viewer = EVERYTHING, owner: str = "") -> Eval:
        """Return the evaluation that was started last.

        Raises:
            EvalNotFound: there is none at all.
        """
        found = await self.evals.list(limit=1, viewer=viewer, owner=owner)
        if not found:
            raise EvalNotFound("There are no evaluations here yet", hint="Start one with: fabric eval run FILE")
        return await self(found[0].eval_id, viewer=viewer)

    async def summary(self, evaluation: Eval) -> EvalSummary:
        """Return what it has shown so far."""
        return summarize(evaluation, await self.trials.read(evaluation.eval_id))

    async def list(self, *, limit: int, viewer: Viewer = EVERYTHING, owner: str = "") -> Sequence[EvalRecord]:
        """Return the newest ones, newest first."""
        found = await self.evals.list(limit=limit, viewer=viewer, owner=owner)
        return [replace(each, status=await self._standing(each.eval_id, each.status)) for each in found]

    async def _standing(self, eval_id: EvalId, status: RunStatus) -> RunStatus:
        if status is not RunStatus.RUNNING or await self.locks.is_held(lock_of(eval_id)):
            return status
        return RunStatus.INTERRUPTED
