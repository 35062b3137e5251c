"""The beginning of a specialist's conversation: what it is told, and what memory knows about the task."""

from agent_fabric.domain.events import PackStarted
from agent_fabric.domain.ids import LaneId
from agent_fabric.domain.models.messages import Message, Role
from agent_fabric.domain.runs.context_window import estimated_tokens
from agent_fabric.domain.runs.state import Lane, Observation, RunState


def open_lane(state: RunState, body: PackStarted, seq: int) -> None:
    """Open the lane of a specialist, as event `seq` tells it."""
    lane_id = LaneId(body.specialist_id)
    talks, history = state.talks, () if state.task is None else state.task.history
    messages = [Message(Role.SYSTEM, body.system_prompt), *history, Message(Role.USER, body.opening)]
    told = [] if body.knowledge is None else body.knowledge.messages(len(messages))
    messages += told
    lane = state.lanes[lane_id] = Lane(
        lane_id=lane_id,
        specialist_id=body.specialist_id,
        index=body.pack_index,
        tools={tool.name: tool for tool in body.tools},
        offered=body.tools if talks else (*body.tools, body.finish.as_tool()),
        finish=body.finish,
        model=body.model,
        messages=messages,
        history=len(history),
        window=body.model.context_window,
        context_tokens=estimated_tokens(messages) if history or told else 0,
    )
    if body.knowledge is not None:
        lane.worked = not body.knowledge.is_empty  # the search was its first piece of work
        state.sources.extend(body.knowledge.sources)
        if talks:
            lane.passages.extend(each.as_object() for each in body.knowledge.passages)
            lane.observed.extend(Observation(seq, each.content) for each in told if each.role is Role.TOOL)
