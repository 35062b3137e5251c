"""What waits for its turn: each step in the queue that suits what it does next."""

from heapq import heappop, heappush
from typing import Literal

from agent_fabric.domain.workflows.definition import BuiltIn
from agent_fabric.domain.workflows.state import WorkflowState
from agent_fabric.domain.workflows.step_state import Phase, StepState

_Purpose = Literal["wait", "retry", "timeout"]


def put(wf: WorkflowState, step: StepState, phase: Phase) -> None:
    """Let a step enter a phase, and keep account of what is under way."""
    before = step.phase
    if step.node.takes_slot:
        wf.under_way += _at_work(phase) - _at_work(before)
    if before is Phase.ASKED:
        wf.questions.pop(step.lane, None)
    elif before is Phase.CHILD_LEFT:
        wf.left_children.pop(step.lane, None)
    elif before is Phase.WAITING and step.listens_to:
        wf.listeners[step.listens_to].pop(step.lane, None)
        step.listens_to = ""
    step.phase = phase
    match phase:
        case Phase.ASKED:
            wf.questions[step.lane] = step
        case Phase.CHILD_LEFT:
            wf.left_children[step.lane] = step
        case Phase.JUDGING | Phase.STOPPING | Phase.HALF_BEGUN | Phase.IN_DOUBT:
            wf.settling.append(step)
        case Phase.CALL_DUE:
            heappush(wf.queued, (step.order, step))
        case _:
            pass


def _at_work(phase: Phase) -> bool:
    return phase is Phase.BEGUN or phase is Phase.CALLED or phase is Phase.CHILD


def enqueue(wf: WorkflowState, step: StepState) -> None:
    """Let a step wait for its turn."""
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
    """Let the next step have the agent that this one has used."""
    agent = step.node.step.agent
    if wf.busy_agents.get(agent) == step.lane:
        del wf.busy_agents[agent]
        line = wf.lines.get(agent)
        if line:
            enqueue(wf, heappop(line)[1])


def broken_by(step: StepState) -> str:
    """Return the failed step that this one cannot do without, if there is one."""
    broken = step.block.broken
    if broken:
        for need in step.block.row.needs[step.node.index]:
            if need in broken:
                return broken[need]
    return ""


def set_timer(wf: WorkflowState, step: StepState, moment: float, purpose: _Purpose) -> None:
    """Remember that a step waits for a moment."""
    wf.timers_made += 1
    timer = (moment, wf.timers_made, step, step.attempt, purpose)
    heappush(wf.timers, timer)
    if purpose != "timeout":
        heappush(wf.moves, timer)
