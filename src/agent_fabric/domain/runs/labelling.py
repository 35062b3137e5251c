"""Keeps the two labels of a run up to date, event by event; see `labels`."""

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

from agent_fabric.domain.events import RunCreated, ToolCalled, ToolErred, ToolReturned
from agent_fabric.domain.fleet.chosen_node import NODE_PREFIX, sent_key
from agent_fabric.domain.policy.labels import (
    DESCRIPTIONS,
    MACHINES,
    MAX_ADDRESSES,
    NOTHING_READ,
    WORKSPACE_FILES,
    Flow,
    address_key,
    addresses_in,
    addresses_written,
)
from agent_fabric.domain.policy.verdicts import (
    ADDRESS_IN_TASK,
    ADDRESS_READ,
    ARGUMENTS_IN_TASK,
    ARGUMENTS_SENT_BEFORE,
    SEARCHED,
)
from agent_fabric.domain.runs.knowledge import PRIVATE, Knowledge
from agent_fabric.domain.runs.state import RunState
from agent_fabric.domain.runs.task import Quoted
from agent_fabric.domain.tools.specs import ToolSpec

MAX_SENT: Final = 200
"""Calls to machines that a run remembers; later ones count as composed by the model."""
_TASK_CALLS: Final = frozenset({ADDRESS_IN_TASK, ARGUMENTS_IN_TASK, ARGUMENTS_SENT_BEFORE})


def begin_labels(state: RunState, body: RunCreated) -> None:
    """Label a run with what it begins with."""
    parent, frozen, quotes = body.parent, body.workflow, body.quotes
    note_exposed(state, body.untrusted)
    if body.project:
        note_private(state, (WORKSPACE_FILES,))
    if body.started_by:  # what that run had read may stand in the task
        note_exposed(state, (f"run {body.started_by}",))
        note_private(state, (f"run {body.started_by}",))
    for handed_on in (parent, frozen, quotes):
        if handed_on is not None:
            note_exposed(state, handed_on.untrusted)
            note_private(state, handed_on.private)
            note_addresses(state, handed_on.addresses)
    if frozen is not None and frozen.untrusted and frozen.forked_from is None:  # from a webhook
        note_addresses(state, addresses_in(frozen.inputs))


def note_result(state: RunState, body: ToolReturned | ToolErred, args: Mapping[str, Any]) -> None:
    """Label a run with what a call with these arguments gave back."""
    if body.private:
        note_private(state, (body.private,))
    if not body.origin:
        return
    signals = body.signals if isinstance(body, ToolReturned) else ()
    note_exposed(state, (f"{body.origin} (signs of instructions: {', '.join(signals)})" if signals else body.origin,))
    if isinstance(body, ToolReturned) and body.from_outside:
        # A search tells its query, a form what was typed: an answer may repeat what the model wrote.
        written = set(addresses_written(json.dumps(args, ensure_ascii=False, default=str)))
        state.composed.update(written - state.addresses)
        note_addresses(state, addresses_in(body.result))


def note_tools(state: RunState, tools: Iterable[ToolSpec]) -> None:
    """Label a run with the descriptions of its tools: the model reads them before all else."""
    servers = (f"{DESCRIPTIONS}{tool.trust.value}: {tool.server}" for tool in tools if tool.described_elsewhere)
    note_exposed(state, servers)


def note_knowledge(state: RunState, known: Knowledge | None) -> None:
    """Label a run with what it was told from memory: a document may hold instructions."""
    if known is None:
        return
    note_exposed(state, known.untrusted)
    if known.is_private:
        note_private(state, (PRIVATE,))


def note_call(state: RunState, body: ToolCalled) -> None:
    """Count a call that went unasked because of an allowance, and remember one that cannot hold private data."""
    rule = body.rule
    state.fetches += rule == ADDRESS_READ
    state.searches += rule == SEARCHED
    state.task_calls += rule in _TASK_CALLS
    if not body.tool.startswith(NODE_PREFIX):
        return  # as most calls
    harmless = len(state.sent) < MAX_SENT and all(source == MACHINES for source in state.private)
    if harmless and (key := sent_key(body.tool, body.args)):
        state.sent.add(key)


def note_exposed(state: RunState, sources: Iterable[str]) -> None:
    """Remember where untrusted text came from."""
    state.untrusted.extend(source for source in dict.fromkeys(sources) if source not in state.untrusted)


def note_private(state: RunState, sources: Iterable[str]) -> None:
    """Remember what was read that the world must not have."""
    state.private.extend(source for source in dict.fromkeys(sources) if source not in state.private)


def note_addresses(state: RunState, addresses: Iterable[str]) -> None:
    """Remember addresses that stood in what came from outside, but for those that the model wrote itself."""
    new = (each for each in addresses if each not in state.composed and each not in state.addresses)
    state.addresses.update(islice(new, max(0, MAX_ADDRESSES - len(state.addresses))))


def addresses_handed_on(state: RunState, value: Any) -> tuple[str, ...]:
    """Return the addresses in what a run hands on that it has read, or that its owner wrote: no model composed them."""
    found = set(addresses_in(value))
    return tuple(sorted(found & {*state.addresses, *addresses_written(words_of_owner(state))})) if found else ()


def labels_handed_on(state: RunState) -> Quoted:
    """Return what whatever goes on from a run has to know of what the run has read, and who wrote its task."""
    prompt = "" if state.task is None else state.task.prompt
    return Quoted(
        own_words=words_of_owner(state),
        untrusted=tuple(state.untrusted),
        private=tuple(state.private),
        addresses=addresses_handed_on(state, (prompt, state.payload)),
    )


def flow_of(state: RunState) -> Flow:
    """Return what a run has read and sent, for the judgement of a call."""
    if not (state.untrusted or state.private):
        return NOTHING_READ
    if not (state.untrusted and state.private):
        return Flow(exposed=tuple(state.untrusted), private=tuple(state.private))
    return Flow(
        exposed=tuple(state.untrusted),
        private=tuple(state.private),
        task=words_of_owner(state),
        addresses=state.addresses,
        fetched=frozenset(address_key(url) for source in state.sources for url in (source.url, source.final_url)),
        fetches=state.fetches,
        searches=state.searches,
        task_calls=state.task_calls,
        sent=state.sent,
    )


def words_of_owner(state: RunState) -> str:
    """Return what the owner of a run wrote: no model composed it."""
    task = state.task
    if task is None or task.started_by:
        return ""
    quotes = task.parent is not None and bool(task.parent.untrusted)
    frozen = task.workflow
    if frozen is None:
        return "" if quotes else task.prompt if task.quotes is None else task.quotes.own_words
    inputs = {} if quotes or frozen.untrusted else frozen.inputs
    written = [frozen.definition, inputs, *frozen.workflows.values(), *frozen.agents.values()]
    return json.dumps(written, ensure_ascii=False, default=str)
