"""One result from several specialists: pure, and the same whatever order they finished in."""

from collections.abc import Iterable, Mapping
from posixpath import normpath
from typing import Any

from agent_fabric.domain.evidence.proofs import UNPROVEN
from agent_fabric.domain.ids import LaneId, SpecialistId
from agent_fabric.domain.packs.contents import ARTIFACTS, DELIVERABLES, texts_under
from agent_fabric.domain.runs.finish import COLLISIONS, FAILED, PROPOSED, SPECIALISTS
from agent_fabric.domain.runs.state import RunState
from agent_fabric.domain.runs.task import TaskForceMode

FILE_LISTS = (ARTIFACTS, DELIVERABLES)
"""Keys in a payload that name the files a specialist has made."""


def merged_payload(state: RunState) -> Mapping[str, Any]:
    """Return the payload of a run: of its only specialist, or of all who finished.

    A task force's payload has each specialist's own under `specialists`. Beside it stands what one who does not know
    about task forces reads: of specialists in turn the last one's, of parallel ones the summaries in a row.
    """
    parts = {
        who: lane.payload
        for who in state.specialist_ids
        if (lane := state.lanes.get(LaneId(who))) is not None and lane.payload is not None
    }
    if not state.is_task_force:
        return next(iter(parts.values()), {})
    merged: dict[str, Any] = {}
    if state.task_force_mode is TaskForceMode.SEQUENTIAL and parts:
        merged |= list(parts.values())[-1]
    else:
        merged["summary"] = "\n\n".join(f"{who}: {part['summary']}" for who, part in parts.items() if "summary" in part)
    for key in (*FILE_LISTS, PROPOSED):
        items = _union(part.get(key) for part in parts.values())
        if items:
            merged[key] = items
    unproven = "; ".join(f"{who}: {part[UNPROVEN]}" for who, part in parts.items() if UNPROVEN in part)
    if unproven:
        merged[UNPROVEN] = unproven
    collisions = _collisions(state, parts)
    if collisions:
        merged[COLLISIONS] = collisions
    merged[SPECIALISTS] = parts
    if state.failed:
        merged[FAILED] = {
            who: {"code": state.failed[who].code, "message": state.failed[who].message, "hint": state.failed[who].hint}
            for who in state.specialist_ids
            if who in state.failed
        }
    return merged


def _union(lists: Iterable[object]) -> list[Any]:
    """Return what any of the lists has, once each, in order."""
    union: list[Any] = []
    for items in lists:
        for item in items if isinstance(items, list) else ():
            if item not in union:
                union.append(item)
    return union


def _collisions(state: RunState, parts: Mapping[SpecialistId, Mapping[str, Any]]) -> list[dict[str, Any]]:
    makers: dict[str, list[SpecialistId]] = {}
    for who in state.specialist_ids:
        lane = state.lanes.get(LaneId(who))
        files = set() if lane is None else {normpath(path) for path in lane.wrote}
        for key in FILE_LISTS:
            files |= {normpath(path) for path in texts_under(parts.get(who, {}), key)}
        for path in files:
            makers.setdefault(path, []).append(who)
    return [{"file": path, "specialists": who} for path, who in sorted(makers.items()) if len(who) > 1]
