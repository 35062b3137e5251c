"""Carries out what the steps of a workflow decided: calls through the one door, questions, and runs for a step."""

from collections.abc import Sequence
from typing import Any, Literal, assert_never

from agent_fabric.application.ports.packs import SpecialistPack, SpecialistRegistry
from agent_fabric.application.ports.runs import Prepared
from agent_fabric.application.runs.open_packs import OpenPacks
from agent_fabric.application.tools.call_site import CallSite, own_limits, user_scopes
from agent_fabric.application.tools.invoke_tool import InvokeTool
from agent_fabric.application.workflows.child_runs import ChildRuns, problem_text
from agent_fabric.domain.approvals.answers import Question, approval_id, binding
from agent_fabric.domain.approvals.events import ApprovalRequested
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, RecruitError
from agent_fabric.domain.events import Body
from agent_fabric.domain.ids import CallId, LaneId
from agent_fabric.domain.packs.contents import STEPS
from agent_fabric.domain.policy.calls import argument_hash
from agent_fabric.domain.runs.labelling import flow_of
from agent_fabric.domain.runs.state import RunState
from agent_fabric.domain.runs.task import root_of
from agent_fabric.domain.tools.specs import ToolContext
from agent_fabric.domain.workflows.actions import AskAboutStep, AskPerson, CallStepTool, RunChild
from agent_fabric.domain.workflows.definition import Step
from agent_fabric.domain.workflows.events import ChildFinished

MAX_OUTPUT_CHARS = 1_000_000
"""Later steps read a step's output, not a model with its small window."""


@dataclass(frozen=True, slots=True)
class PerformStep:
    """Use case: carry out one action of a workflow."""

    registry: SpecialistRegistry
    invoke_tool: InvokeTool
    children: ChildRuns

    def __call__(
        self, action: CallStepTool | AskAboutStep | AskPerson | RunChild, state: RunState, packs: OpenPacks
    ) -> Prepared:
        """Make an action ready."""
        match action:
            case CallStepTool():
                return self._call(action, state, packs)
            case AskAboutStep():
                return Prepared((self.invoke_tool.ask_what_happened(action.call, site=_site(state, action.lane)),))
            case AskPerson():
                asked = question_for(action, state, invoke_tool=self.invoke_tool)
                return Prepared((asked,) if action.started is None else (action.started, asked))
            case RunChild():
                return self._run_child(action, state)
            case unknown:
                assert_never(unknown)

    def _call(self, action: CallStepTool, state: RunState, packs: OpenPacks) -> Prepared:
        pack = packs.opened.get(STEPS)
        if pack is None:  # at the first call, and again after a crash: open it, then decide again
            return Prepared(effect=lambda: self._open(action.lane, state, packs))
        prepared = self.invoke_tool(
            action.call,
            site=_site(state, action.lane),
            tools={spec.name: spec for spec in pack.tool_definitions},
            pack=pack,
            attempt=action.attempt,
            context=self._context(action.step, action, state, pack),
            limit_chars=MAX_OUTPUT_CHARS,
        )
        if action.started is None:
            return prepared
        return prepared._replace(bodies=(action.started, *prepared.bodies))

    def _context(self, step: Step, action: CallStepTool, state: RunState, pack: SpecialistPack) -> ToolContext:
        assert state.task is not None
        usual = next((each.timeout_s for each in pack.tool_definitions if each.name == action.call.tool), 0.0)
        return ToolContext(
            run_id=state.run_id,
            call_id=action.call.call_id,
            timeout_s=step.timeout_s or usual,
            network_allowed=state.task.network_allowed,
            agent=_agent(state),
            working_dir=state.workspace,
        )

    async def _open(self, lane: LaneId, state: RunState, packs: OpenPacks) -> Sequence[Body]:
        assert state.workflow is not None
        try:
            await packs.open_once(STEPS, state, self.registry)
        except RecruitError as problem:
            return (state.workflow.internal_failure(lane, problem_text(problem.message, problem.hint)),)
        return ()

    def _run_child(self, action: RunChild, state: RunState) -> Prepared:
        # A person who goes on with the workflow goes on with what works for it, however often that was taken over.
        by: Literal["person", "server"] = "server" if state.takeovers else "person"
        if action.begun:
            return Prepared(effect=lambda: self.children.see_through(action, by=by))
        try:
            child = self.children.new(action, state)
        except FabricError as problem:
            assert action.started.child_run_id is not None
            failed = ChildFinished(
                step_id=action.step.id,
                child_run_id=action.started.child_run_id,
                run_status="failed",
                error=problem_text(problem.message, problem.hint),
                error_type=problem.code,
            )
            return Prepared((action.started, failed))
        return Prepared((action.started,), lambda: self.children.see_through(action, by=by), (child,))


def _site(state: RunState, lane: LaneId) -> CallSite:
    assert state.workflow is not None
    made = state.workflow.call_of(lane)
    return CallSite(
        run_id=state.run_id,
        root=root_of(state.task.parent) if state.task is not None else None,
        lane=lane,
        step=made.number,
        attempt=made.attempt,
        began_with=made.began_with,
        agent=_agent(state),
        target=state.workspace,
        outside_allowed=state.task is None or state.task.outside_allowed,
        plans=state.task is not None and state.task.plan,
        scopes=user_scopes(state),
        limits=own_limits(state),
        flow=flow_of(state),
        grants=state.grants,
        asked=made.asked,
        decided=made.decided,
        secrets=state.workflow.secret_names,
    )


def _agent(state: RunState) -> str:
    assert state.workflow is not None
    return f"workflow:{state.workflow.definition.name}"


APPROVE = "approve"
"""Stands where other questions name a tool."""


def question_for(action: AskPerson, state: RunState, *, invoke_tool: InvokeTool) -> ApprovalRequested:
    """Return the question; the same one after every crash."""
    assert state.workflow is not None
    attempt = action.started.attempt if action.started else state.workflow.call_of(action.lane).number
    call_id = CallId(f"{action.lane}#{attempt}")
    args: dict[str, Any] = {"message": action.message}
    if action.form:
        args["form"] = dict(action.form)
    version = invoke_tool.policy.version
    bound = binding(
        run_id=state.run_id,
        lane=action.lane,
        step=attempt,
        call_id=call_id,
        tool=APPROVE,
        args=args,
        target=state.workspace,
        policy_version=version,
    )
    timeout_s = invoke_tool.approval_timeout_s if action.timeout_s is None else action.timeout_s
    return ApprovalRequested(
        approval_id=approval_id(bound, Question.ANSWER, attempt),
        call_id=call_id,
        tool=APPROVE,
        args=args,
        question=Question.ANSWER,
        reason=action.message,
        rule=f"step {action.step.id}",
        subject=action.step.description or action.step.id,
        alike="",
        agent=f"workflow:{state.workflow.definition.name}",
        target=state.workspace,
        sandbox=invoke_tool.sandbox_level,
        untrusted=tuple(state.untrusted),
        private=tuple(state.private),
        policy_version=version,
        binding=bound,
        args_hash=argument_hash(args),
        expires_at=invoke_tool.clock.now() + timeout_s,
    )
