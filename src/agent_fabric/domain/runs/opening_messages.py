"""The opening message of a specialist: the task, and the results of the others."""

import json
from collections.abc import Sequence

from agent_fabric.domain.ids import LaneId, SpecialistId
from agent_fabric.domain.runs.state import RunState
from agent_fabric.domain.runs.task import TaskForceMode
from agent_fabric.domain.tools.specs import FINISH_TASK

MAX_FORWARDED_CHARS = 8_000
"""Of each earlier result; the whole is in the workspace and in the log."""

HOW_TO_TALK = (
    "This is a conversation with a person. Use the tools to find out and to do what they ask for, and look at the "
    "results before you speak of them. When you are done, or have a question, answer in plain text (Markdown): that "
    f"ends your turn. There is no {FINISH_TASK} here. What was said earlier stands above; its tool results may be out "
    "of date."
)
"""Follows the prompt of a pack in a turn of a session."""
HOW_TO_TALK_BRIEFLY = (
    f"This is a conversation with a person. There is no {FINISH_TASK} here: when you have done what they ask for, or "
    "can answer without a tool, answer in a few plain sentences."
)
"""The same for a small model."""


def opening_for(state: RunState, specialist_id: SpecialistId) -> str:
    """Return the first user message for a specialist."""
    assert state.task is not None
    others = [who for who in state.specialist_ids if who != specialist_id]
    if not others:
        return state.task.prompt
    if state.task_force_mode is TaskForceMode.PARALLEL:
        notes = [
            f"You work on this as {specialist_id!r}, at the same time as {_list_names(others)}. Do your own part of "
            "the task. You share one workspace: give your files names that the others will not use."
        ]
    else:
        earlier = state.specialist_ids[: state.specialist_ids.index(specialist_id)]
        later = state.specialist_ids[len(earlier) + 1 :]
        notes = [_tell_result(state, who) for who in earlier]
        if later:
            notes.append(
                f"You work on this as {specialist_id!r}. After you come {_list_names(later)}: do your own part."
            )
        else:
            notes.append(f"You work on this as {specialist_id!r}. You are the last: complete the task.")
    return "\n\n".join([state.task.prompt, *notes])


def _list_names(names: Sequence[SpecialistId]) -> str:
    return " and ".join(repr(str(name)) for name in names)


def _tell_result(state: RunState, who: SpecialistId) -> str:
    """Say what a specialist who worked before came to."""
    if who in state.failed:
        return f"Before you, {who!r} failed: {state.failed[who].message} Its files, if any, are in the workspace."
    lane = state.lanes.get(LaneId(who))
    result = json.dumps(lane.payload if lane is not None else {}, ensure_ascii=False, default=str)
    if len(result) > MAX_FORWARDED_CHARS:
        result = f"{result[:MAX_FORWARDED_CHARS]} … (cut)"
    return f"Before you, {who!r} has worked on this; its files are in the workspace. Its result:\n{result}"
