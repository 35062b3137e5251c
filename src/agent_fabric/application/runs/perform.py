"""Turns an action into what must be recorded first and the effect that follows: the only door to the world."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, assert_never

from agent_fabric.application.approvals.refuse_questions import refuse_questions
from agent_fabric.application.models.model_turn import ModelTurn
from agent_fabric.application.packs.recruit import RecruitSpecialists
from agent_fabric.application.ports.llm import ModelChooser, Notice, OnDelta, ProgressText, QueuedText
from agent_fabric.application.ports.packs import SpecialistPack, SpecialistRegistry
from agent_fabric.application.ports.runs import Prepared
from agent_fabric.application.runs.open_packs import OpenPacks
from agent_fabric.application.tools.call_site import CallSite, own_limits, user_scopes
from agent_fabric.application.tools.invoke_tool import InvokeTool
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError, FabricError, RecruitError
from agent_fabric.domain.events import Body, ModelCalled, PackStarted, RunFailed
from agent_fabric.domain.evidence.events import WorkspaceCompared
from agent_fabric.domain.fleet.chosen_node import offered_about, words_about
from agent_fabric.domain.ids import LaneId, RunId, SpecialistId
from agent_fabric.domain.models.dialects.compact_tools import compact as in_few_words
from agent_fabric.domain.models.messages import ModelSettings
from agent_fabric.domain.packs.contents import FinishSpec
from agent_fabric.domain.policy.labels import WORKSPACE_FILES
from agent_fabric.domain.runs.actions import (
    Action,
    AskWhatHappened,
    CallModel,
    CallTool,
    Compact,
    LookAtChanges,
    OpenLane,
    Record,
    Recruit,
)
from agent_fabric.domain.runs.context_window import output_limit
from agent_fabric.domain.runs.decide import given_up
from agent_fabric.domain.runs.finish import FILLED
from agent_fabric.domain.runs.labelling import flow_of
from agent_fabric.domain.runs.opening_messages import HOW_TO_TALK, HOW_TO_TALK_BRIEFLY, opening_for
from agent_fabric.domain.runs.plan import HOW_TO_PLAN, HOW_TO_PLAN_ALOUD, PLAN_FINISH, offered_for_plan
from agent_fabric.domain.runs.state import Lane, RunState
from agent_fabric.domain.runs.task import Priority, root_of
from agent_fabric.domain.secrets.shapes import hide_shapes
from agent_fabric.domain.tools.specs import MEMORY_TOOL, ToolContext, ToolSpec
from agent_fabric.domain.workflows.actions import AskAboutStep, AskPerson, CallStepTool, RunChild, StopStep, Wait

if TYPE_CHECKING:  # most runs have no steps, many look nothing up, and few use an answer again
    from agent_fabric.application.ports.memory import Briefing, ContextSource
    from agent_fabric.application.runs.reuse_answers import ReuseAnswers
    from agent_fabric.application.workflows.perform_step import PerformStep

LaneDelta = Callable[[LaneId, str], None]


@dataclass(frozen=True, slots=True)
class Perform:
    """Use case: carry out what a run decided. Stateless; what a drive opens lives in its `OpenPacks`."""

    registry: SpecialistRegistry
    recruit: RecruitSpecialists
    models: ModelChooser
    model_turn: ModelTurn
    invoke_tool: InvokeTool
    steps: "Callable[[], PerformStep] | None" = None
    """Gives what carries out the steps of workflows, as soon as there is one."""
    compare_workspace: Callable[[RunId, str, str], Awaitable[WorkspaceCompared]] | None = None
    """Says what a run has changed; None: no one knows."""
    context: "Callable[[], ContextSource] | None" = None
    """Gives what knows something about tasks beforehand, as soon as one asks for it; None: nothing does."""
    reuse: "ReuseAnswers | None" = None
    """Finds answers that models gave before; None: they are always asked."""
    context_in_sessions: bool = True
    """Whether turns of sessions are told it, whichever pack they have."""

    def __call__(
        self, action: Action, state: RunState, packs: OpenPacks, *, notice: Notice, on_delta: LaneDelta | None = None
    ) -> Prepared:
        """Make an action ready."""
        match action:
            case Record():
                return Prepared(action.bodies)
            case CallModel():
                return self._call_model(action, state, notice, on_delta)
            case CallTool():
                return self._call_tool(action, state, packs)
            case AskWhatHappened():
                site = _site(state, state.lanes[action.lane])
                asked = Prepared((self.invoke_tool.ask_what_happened(action.call, site=site),))
                return refuse_questions(asked) if site.unattended else asked
            case Recruit():
                return self._recruit(state, notice)
            case OpenLane():
                return Prepared(effect=lambda: self._open_lane(action, state, packs, notice))
            case Compact():
                return self._compact(action, state, notice)
            case LookAtChanges():
                return Prepared(effect=lambda: self._compare(state))
            case CallStepTool() | AskAboutStep() | AskPerson() | RunChild():
                return self._steps(action, state, packs)
            case StopStep() | Wait():
                return Prepared()  # the driver itself does these
            case unknown:
                assert_never(unknown)

    @property
    def _steps(self) -> "PerformStep":
        assert self.steps is not None  # set wherever workflows are driven
        return self.steps()

    async def end_child(self, run_id: RunId, *, by: str, reason: str) -> None:
        """End a run that works for a step which no one needs any more."""
        await self._steps.children.end(run_id, by=by, reason=reason)

    async def child_outcome(self, run_id: RunId, step_id: str) -> Sequence[Body]:
        """Say how a run ended that works for a step and that someone else has driven; nothing if it has not."""
        return await self._steps.children.outcome(run_id, step_id)

    def _call_model(self, action: CallModel, state: RunState, notice: Notice, on_delta: LaneDelta | None) -> Prepared:
        assert state.task is not None
        lane, priority = state.lanes[action.lane], state.task.priority
        called = ModelCalled(
            step=lane.current_step,
            message_count=len(lane.messages),
            attempt=action.attempt,
            model=lane.model.model,
            delay_s=action.delay_s,
            must_finish=action.must_finish,
        )
        shown: OnDelta | None = None if on_delta is None else lambda text: on_delta(lane.lane_id, text)

        async def ask() -> Sequence[Body]:
            return await self.model_turn(
                lane,
                attempt=action.attempt,
                delay_s=action.delay_s,
                must_finish=action.must_finish,
                time_left_s=_time_left(state),
                priority=priority,
                notice=_named_notice(notice, lane.model.model) if state.talks else notice,
                on_delta=shown,
            )

        reuse = self.reuse
        if reuse is None or action.must_finish:
            return Prepared((called,), ask)
        return Prepared((called,), lambda: reuse(lane, state, ask, shown))

    def _compact(self, action: Compact, state: RunState, notice: Notice) -> Prepared:
        assert state.task is not None
        lane, priority = state.lanes[action.lane], state.task.priority
        called = ModelCalled(
            step=lane.current_step,
            message_count=action.last - action.first,
            attempt=lane.attempt + 1,
            model=lane.model.model,
            purpose="compaction",
        )
        return Prepared(
            (called,),
            lambda: self.model_turn.summarise(
                lane, action.first, action.last, time_left_s=_time_left(state), priority=priority, notice=notice
            ),
        )

    async def _compare(self, state: RunState) -> Sequence[Body]:
        if self.compare_workspace is None:
            return (WorkspaceCompared(known=False),)
        compared = await self.compare_workspace(state.run_id, state.workspace, state.task.prompt if state.task else "")
        # A name may look like a secret, and the log must not have one.
        return (
            replace(compared, **{each.name: hide_shapes(getattr(compared, each.name)) for each in fields(compared)}),
        )

    def _call_tool(self, action: CallTool, state: RunState, packs: OpenPacks) -> Prepared:
        lane = state.lanes[action.lane]
        pack = packs.opened.get(lane.specialist_id)
        if pack is None:  # after a crash: reopen, then decide again
            return Prepared(effect=lambda: self._reopen(lane, state, packs))
        spec = lane.tools.get(action.call.tool)
        time_left_s = _time_left(state)
        timeout_s = spec.timeout_s if spec else 0.0
        assert state.task is not None
        context = ToolContext(
            run_id=state.run_id,
            call_id=action.call.call_id,
            timeout_s=timeout_s if time_left_s is None else min(timeout_s, time_left_s),
            network_allowed=state.task.network_allowed,
            agent=lane.specialist_id,
            working_dir=state.workspace,
        )
        site = _site(state, lane)
        prepared = self.invoke_tool(
            action.call,
            site=site,
            tools=lane.tools,
            pack=pack,
            attempt=action.attempt,
            context=context,
            limit_chars=output_limit(lane.model, self.invoke_tool.max_output_chars),
        )
        return refuse_questions(prepared) if site.unattended else prepared

    def _recruit(self, state: RunState, notice: Notice) -> Prepared:
        assert state.task is not None
        try:
            return self.recruit(state.task, notice, project=WORKSPACE_FILES in state.private)
        except RecruitError as problem:
            return Prepared((failure(problem),))

    async def _open_lane(self, action: OpenLane, state: RunState, packs: OpenPacks, notice: Notice) -> Sequence[Body]:
        assert state.task is not None
        try:
            settings, why = await self.models.choose(state.task.model_key, notice)
            pack = await packs.open(action.specialist_id, state, self.registry)
        except (RecruitError, ConfigError) as problem:
            return (_given_up(state, action.specialist_id, problem),)
        prompt, tools, finish = _instructions(pack, compact=settings.compact)
        if pack.skills:
            from agent_fabric.domain.tools.skills import catalogue  # noqa: PLC0415 - most runs have none

            prompt = f"{prompt}\n\n{catalogue(pack.skills, settings.context_window)}"
        if state.talks:
            prompt = f"{prompt}\n\n{HOW_TO_TALK_BRIEFLY if settings.compact else HOW_TO_TALK}"
        if node := state.task.node:
            prompt = f"{prompt}\n\n{words_about(node, tools)}"
            tools = offered_about(tools, node)
        if state.task.plan:
            prompt = f"{prompt}\n\n{HOW_TO_PLAN_ALOUD if state.talks else HOW_TO_PLAN}"
            tools, finish = offered_for_plan(tools), PLAN_FINISH
        briefing = await self._brief(state, pack, settings)
        return (
            PackStarted(
                specialist_id=action.specialist_id,
                pack_index=action.index,
                system_prompt=prompt,
                opening=opening_for(state, action.specialist_id),
                tools=tools,
                finish=finish,
                model=settings,
                model_reason=why,
                notices=(
                    *pack.notices,
                    *([briefing.notice] if briefing is not None and briefing.notice else ()),
                    *_not_counted(state, settings),
                ),
                knowledge=None if briefing is None else briefing.knowledge,
            ),
        )

    async def _brief(self, state: RunState, pack: SpecialistPack, settings: ModelSettings) -> "Briefing | None":
        """Find out what is known about the task, where a pack looks things up or a person talks; None: no one does."""
        looks_up = any(tool.name == MEMORY_TOOL for tool in pack.tool_definitions)
        if self.context is None or not (looks_up or (state.talks and self.context_in_sessions)):
            return None
        from agent_fabric.application.runs.ask_context import ask_context  # noqa: PLC0415 - few ask

        return await ask_context(self.context, state, settings)

    async def _reopen(self, lane: Lane, state: RunState, packs: OpenPacks) -> Sequence[Body]:
        try:
            await packs.open(lane.specialist_id, state, self.registry)
        except RecruitError as problem:
            return (_given_up(state, lane.specialist_id, problem),)
        return ()


def _instructions(pack: SpecialistPack, *, compact: bool) -> tuple[str, tuple[ToolSpec, ...], FinishSpec]:
    """Return what a model is told about a pack; a small model gets it in few words."""
    tools, finish = tuple(pack.tool_definitions), pack.finish
    if not compact:
        return pack.system_prompt, tools, finish
    few = pack.compact_tools
    *tools_in_short, ending = in_few_words((*(tools if few is None else few), finish.as_tool()))
    left_out = tuple(name for name in finish.parameters.get("properties", {}) if name in FILLED)
    left_out = tuple(name for name in left_out if name not in ending.parameters.get("properties", {}))
    finish = replace(finish, description=ending.description, parameters=ending.parameters, left_out=left_out)
    return pack.compact_prompt or pack.system_prompt, tuple(tools_in_short), finish


def _not_counted(state: RunState, model: ModelSettings) -> Sequence[str]:
    """Say that a limit of cost does not count a model's answers, because no one knows what they cost."""
    assert state.task is not None
    if state.task.budget.max_cost is None or model.price is not None:
        return ()
    return (f"The limit of cost does not count answers of {model.model}: it has no `price` in the configuration",)


def _named_notice(notice: Notice, model: str) -> Notice:
    """Return a notice that names the model someone waits for: in a session there may be another one every time."""

    def tell(text: str) -> None:
        notice(ProgressText(f"waiting for {model}, {text.ahead} ahead") if isinstance(text, QueuedText) else text)

    return tell


def _site(state: RunState, lane: Lane) -> CallSite:
    task = state.task
    parent = None if task is None else task.parent
    return CallSite(
        run_id=state.run_id,
        root=None if parent is None else root_of(parent),
        lane=lane.lane_id,
        step=lane.answers,
        attempt=lane.attempt,
        began_with=lane.began_with,
        agent=lane.specialist_id,
        target=state.workspace,
        node="" if state.task is None else state.task.node,
        outside_allowed=state.task is None or state.task.outside_allowed,
        plans=state.task is not None and state.task.plan,
        unattended=state.task is not None and bool(state.task.trial_of),
        by_itself=state.task is not None and state.task.priority is Priority.SCHEDULED,
        scopes=user_scopes(state) if task is not None and task.user_scopes else frozenset(),
        limits=own_limits(state, lane),
        flow=flow_of(state),
        narrowed=lane.narrowed,
        grants=state.grants,
        asked=lane.asked,
        decided=lane.decided,
    )


def failure(problem: FabricError) -> RunFailed:
    """Return the event that ends a run because of an error."""
    return RunFailed(code=problem.code, message=problem.message, hint=problem.hint)


def _given_up(state: RunState, who: SpecialistId, problem: FabricError) -> Body:
    return given_up(state, who, code=problem.code, message=problem.message, hint=problem.hint)


def _time_left(state: RunState) -> float | None:
    assert state.task is not None
    limit = state.task.budget.max_seconds
    return None if limit is None else max(limit - state.seconds, 0.0)
