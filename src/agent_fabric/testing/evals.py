"""Evaluations in memory, for tests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.evals import EvalRecord
from agent_fabric.domain.errors import EvalNotFound
from agent_fabric.domain.evals.summary import Eval
from agent_fabric.domain.evals.trials import Grade, Trial, TrialOutcome, trials_of
from agent_fabric.domain.identity.ownership import EVERYTHING, Viewer, is_owner
from agent_fabric.domain.ids import EvalId
from agent_fabric.domain.runs.task import RunStatus


@dataclass(slots=True)
class MemoryTrials:
    """TrialOutcomes that forgets."""

    known: dict[EvalId, dict[Trial, TrialOutcome]] = field(default_factory=dict)
    begun_anew: dict[EvalId, dict[Trial, int]] = field(default_factory=dict)
    evals: set[EvalId] = field(default_factory=set)

    async def record(self, eval_id: EvalId, outcome: TrialOutcome) -> bool:
        if eval_id not in self.evals:
            raise EvalNotFound(f"There is no evaluation {eval_id!r}")
        outcomes = self.known.setdefault(eval_id, {})
        retry = self.begun_anew.get(eval_id, {}).get(outcome.trial, 0)
        if outcome.trial in outcomes or outcome.retry != retry:
            return False
        outcomes[outcome.trial] = outcome
        return True

    async def read(self, eval_id: EvalId) -> Sequence[TrialOutcome]:
        return list(self.known.get(eval_id, {}).values())

    async def retries(self, eval_id: EvalId) -> Mapping[Trial, int]:
        return dict(self.begun_anew.get(eval_id, {}))

    async def retry_failed(self, eval_id: EvalId) -> int:
        outcomes = self.known.get(eval_id, {})
        failed = [each for each in outcomes.values() if each.grade is Grade.FAILED]
        for each in failed:
            del outcomes[each.trial]
            self.begun_anew.setdefault(eval_id, {})[each.trial] = each.retry + 1
        return len(failed)


@dataclass(slots=True)
class MemoryEvals:
    """EvalRepository that forgets."""

    trials: MemoryTrials
    clock: Clock
    evals: dict[EvalId, Eval] = field(default_factory=dict)

    async def create(self, evaluation: Eval) -> None:
        self.evals[evaluation.eval_id] = evaluation
        self.trials.evals.add(evaluation.eval_id)

    async def find(self, name: str, *, viewer: Viewer = EVERYTHING) -> Eval:
        seen = [each for each in self.evals.values() if viewer.sees(each.owner, each.visibility)]
        begun = [each for each in seen if name and each.eval_id.startswith(name.lower())]
        named = [each for each in seen if each.definition.name == name]
        exact = [each for each in begun if each.eval_id == name.lower()]
        for found in (exact, begun if len(begun) == 1 else [], named[-1:]):
            if found:
                return found[0]
        raise EvalNotFound(f"No one evaluation is {name!r}")

    async def list(self, *, limit: int, viewer: Viewer = EVERYTHING, owner: str = "") -> Sequence[EvalRecord]:
        seen = [
            each
            for each in reversed(self.evals.values())
            if viewer.sees(each.owner, each.visibility) and (not owner or is_owner(owner, each.owner))
        ]
        return [await self._record(each) for each in (seen if limit < 0 else seen[:limit])]

    async def _record(self, evaluation: Eval) -> EvalRecord:
        outcomes = await self.trials.read(evaluation.eval_id)
        return EvalRecord(
            eval_id=evaluation.eval_id,
            name=evaluation.definition.name,
            status=evaluation.status,
            created_at=evaluation.created_at,
            updated_at=evaluation.updated_at,
            owner=evaluation.owner,
            visibility=evaluation.visibility,
            total=len(trials_of(evaluation.definition)),
            done=len(outcomes),
            right=sum(each.grade is Grade.RIGHT for each in outcomes),
        )

    async def status(self, eval_id: EvalId) -> RunStatus:
        if eval_id not in self.evals:
            raise EvalNotFound(f"There is no evaluation {eval_id!r}")
        return self.evals[eval_id].status

    async def mark(self, eval_id: EvalId, status: RunStatus) -> bool:
        if self.evals[eval_id].status is RunStatus.CANCELLED:
            return False
        self.evals[eval_id] = replace(self.evals[eval_id], status=status, updated_at=self.clock.now())
        return True
