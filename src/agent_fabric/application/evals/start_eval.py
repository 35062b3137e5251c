"""Starts an evaluation: checks that everything it names is there, and makes it durable."""

from collections.abc import Callable
from dataclasses import replace

from agent_fabric.application.packs.recruit import RecruitSpecialists
from agent_fabric.application.ports.clock import Clock, IdSource
from agent_fabric.application.ports.evals import EvalRepository
from agent_fabric.application.runs.limits import Limits
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.evals.definition import EvalDefinition
from agent_fabric.domain.evals.summary import Eval
from agent_fabric.domain.evals.trials import Arm, arms_of
from agent_fabric.domain.identity.ownership import LOCAL_OWNER, Visibility, owner_of
from agent_fabric.domain.identity.principals import Principal
from agent_fabric.domain.ids import EvalId
from agent_fabric.domain.runs.task import RunStatus, Task

MakeTask = Callable[[str, Arm], Task]
"""Makes the task of a prompt. Raises ConfigError where there is no such model."""


@dataclass(frozen=True, slots=True)
class StartEval:
    """Use case: freeze a definition as an evaluation that can be run, killed and resumed."""

    evals: EvalRepository
    recruit: RecruitSpecialists
    make_task: MakeTask
    require_terms: Callable[[Task, float | None], object]
    """Raises InvalidInputs where the cost of a task is limited, and its model has no price."""
    default_model: str
    visibility: Visibility
    """Who sees it beside its owner, if no one says."""
    clock: Clock
    ids: IdSource

    async def __call__(
        self, definition: EvalDefinition, *, by: Principal | None = None, visibility: Visibility | None = None
    ) -> Eval:
        """Return the evaluation; `by` asked for it over the network. Nothing is tried yet.

        Raises:
            ConfigError: there is no such model.
            RecruitError: there is no such pack.
            StoreFull, StoreUnavailable: it cannot be kept.
        """
        definition = replace(definition, models=definition.models or (self.default_model,))
        for arm in arms_of(definition):
            task = self.make_task("", arm)
            self.recruit.require_known(task)
            self.require_terms(task, definition.max_cost)
        now = self.clock.now()
        started = Eval(
            eval_id=EvalId(self.ids.new_run_id()),
            definition=definition,
            status=RunStatus.RUNNING,
            created_at=now,
            updated_at=now,
            owner=LOCAL_OWNER if by is None else owner_of(by),
            visibility=visibility or self.visibility,
            scopes=() if by is None else tuple(sorted(by.scopes)),
            requested_by="" if by is None else by.name,
        )
        await self.evals.create(started)
        return started


def within_limits(definition: EvalDefinition, limits: Limits, by: Principal) -> EvalDefinition:
    """Return an evaluation within the limits of a caller.

    Raises:
        InvalidInputs: it asks for more steps than the caller may have.
    """
    if not limits.hold_for(by):
        return definition
    limits.caps.require(max_steps=definition.max_steps)
    most = limits.settings.concurrent_runs
    return definition if most is None else replace(definition, at_once=min(definition.at_once, most))
