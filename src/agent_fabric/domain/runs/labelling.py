"""Keeps the two labels of a run up to date, event by event; see `labels`."""

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from agent_fabric.domain.events import RunCreated, ToolErred, ToolReturned
from agent_fabric.domain.labels import DESCRIPTIONS, MAX_ADDRESSES, WORKSPACE_FILES, Flow, address_key, addresses_in
from agent_fabric.domain.policy.rule_names import ADDRESS_READ, SEARCHED
from agent_fabric.domain.runs.state import RunState
from agent_fabric.domain.tools import ToolSpec


def begin_labels(state: RunState, body: RunCreated) -> None:
    """Label a run with what it begins with."""
    parent, frozen = body.parent, body.workflow
    note_exposed(state, body.untrusted)
    if body.project:
        note_private(state, (WORKSPACE_FILES,))
    if body.started_by:  # what that run had read may stand in the task
        note_exposed(state, (f"run {body.started_by}",))
        note_private(state, (f"run {body.started_by}",))
        _note_addresses(state, body.prompt)
    if parent is not None:
        note_exposed(state, parent.untrusted)
        note_private(state, parent.private)
        if parent.untrusted:  # so its task may quote strangers
            _note_addresses(state, body.prompt)
    if frozen is not None:
        note_exposed(state, frozen.untrusted)
        note_private(state, frozen.private)
        if frozen.untrusted:
            _note_addresses(state, frozen.inputs)


def note_result(state: RunState, body: ToolReturned | ToolErred) -> None:
    """Label a run with what a call gave back."""
    if body.private:
        note_private(state, (body.private,))
    if not body.origin:
        return
    signals, text = (body.signals, body.result) if isinstance(body, ToolReturned) else ((), body.error_message)
    note_exposed(state, (f"{body.origin} (signs of instructions: {', '.join(signals)})" if signals else body.origin,))
    _note_addresses(state, text)


def note_tools(state: RunState, tools: Iterable[ToolSpec]) -> None:
    """Label a run with the descriptions of its tools: the model reads them before all else."""
    servers = (f"{DESCRIPTIONS}{tool.trust.value}: {tool.server}" for tool in tools if tool.described_elsewhere)
    note_exposed(state, servers)


def note_call(state: RunState, rule: str) -> None:
    """Count a call that went unasked because of an allowance."""
    state.fetches += rule == ADDRESS_READ
    state.searches += rule == SEARCHED


def note_exposed(state: RunState, sources: Iterable[str]) -> None:
    """Remember where text came from that nobody vouches for."""
    state.untrusted.extend(source for source in dict.fromkeys(sources) if source not in state.untrusted)


def note_private(state: RunState, sources: Iterable[str]) -> None:
    """Remember what was read that the world must not have."""
    state.private.extend(source for source in dict.fromkeys(sources) if source not in state.private)


def flow_of(state: RunState) -> Flow:
    """Return what a run has read and sent, for the judgement of a call."""
    if not (state.untrusted and state.private):
        return Flow(exposed=tuple(state.untrusted), private=tuple(state.private))
    return Flow(
        exposed=tuple(state.untrusted),
        private=tuple(state.private),
        task=_words_of_owner(state),
        addresses=state.addresses,
        fetched=frozenset(address_key(url) for source in state.sources for url in (source.url, source.final_url)),
        fetches=state.fetches,
        searches=state.searches,
    )


def _words_of_owner(state: RunState) -> str:
    task = state.task
    if task is None or task.started_by or (task.parent is not None and task.parent.untrusted):
        return ""
    if task.workflow is None:
        return task.prompt
    inputs = {} if task.workflow.untrusted else task.workflow.inputs
    return json.dumps([task.workflow.definition, inputs], ensure_ascii=False, default=str)


def _note_addresses(state: RunState, value: Any) -> None:
    waiting = [value]
    while waiting and len(state.addresses) < MAX_ADDRESSES:
        each = waiting.pop()
        if isinstance(each, str):
            state.addresses.update(islice(addresses_in(each), MAX_ADDRESSES - len(state.addresses)))
        elif isinstance(each, Mapping):
            waiting.extend(each.values())
        elif isinstance(each, list | tuple):
            waiting.extend(each)
