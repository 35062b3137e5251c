"""The queues of a workflow: ready steps, steps that need a slot, and timers."""

from heapq import heappop, heappush
from typing import Literal

from agent_fabric.domain.workflows.definition import BuiltIn
from agent_fabric.domain.workflows.state import WorkflowState
from agent_fabric.domain.workflows.step_state import StepPhase, StepState

_Purpose = Literal["wait", "retry", "timeout"]


def put(wf: WorkflowState, step: StepState, phase: StepPhase) -> None:
    """Set the phase of a step and update the queues and counters."""
    before = step.phase
    if step.node.takes_slot:
        wf.under_way += _at_work(phase) - _at_work(before)
    if before is StepPhase.ASKED:
        wf.questions.pop(step.lane, None)
    elif before is StepPhase.CHILD_DETACHED:
        wf.detached_children.pop(step.lane, None)
    elif before is StepPhase.WAITING and step.listens_to:
        wf.listeners[step.listens_to].pop(step.lane, None)
        step.listens_to = ""
    step.phase = phase
    match phase:
        case StepPhase.ASKED:
            wf.questions[step.lane] = step
        case StepPhase.CHILD_DETACHED:
            wf.detached_children[step.lane] = step
        case StepPhase.JUDGING | StepPhase.STOPPING | StepPhase.START_INTERRUPTED | StepPhase.IN_DOUBT:
            wf.settling.append(step)
        case StepPhase.CALL_DUE:
            heappush(wf.queued, (step.order, step))
        case _:
            pass


def _at_work(phase: StepPhase) -> bool:
    return phase is StepPhase.BEGUN or phase is StepPhase.CALLED or phase is StepPhase.CHILD


def enqueue(wf: WorkflowState, step: StepState) -> None:
    """Enqueue a step that is ready."""
    if wf.halted:
        return
    node = step.node
    if not node.takes_slot or broken_by(step):
        heappush(wf.ready, (step.order, step))
        return
    agent = node.step.agent
    if (
        agent in wf.exclusive
        and node.step.action == BuiltIn.INVOKE_AGENT
        and wf.busy_agents.setdefault(agent, step.lane) != step.lane
    ):
        heappush(wf.lines.setdefault(agent, []), (step.order, step))
    else:
        heappush(wf.queued, (step.order, step))


def release_agent(wf: WorkflowState, step: StepState) -> None:
    """Release the agent of a step to the next step in line."""
    agent = step.node.step.agent
    if wf.busy_agents.get(agent) == step.lane:
        del wf.busy_agents[agent]
        line = wf.lines.get(agent)
        if line:
            enqueue(wf, heappop(line)[1])


def broken_by(step: StepState) -> str:
    """Return the failed dependency of a step, or an empty text."""
    broken = step.block.broken
    if broken:
        for need in step.block.step_list.needs[step.node.index]:
            if need in broken:
                return broken[need]
    return ""


def set_timer(wf: WorkflowState, step: StepState, moment: float, purpose: _Purpose) -> None:
    """Set a timer for a step."""
    wf.timers_made += 1
    timer = (moment, wf.timers_made, step, step.attempt, purpose)
    heappush(wf.timers, timer)
    if purpose != "timeout":
        heappush(wf.moves, timer)
