"""What a conversation rests on, for a terminal: the sources of an answer, when what happened, what the model knew."""

from collections.abc import Iterable, Sequence

from agent_fabric.application.chat.verify_session import VerifiedSession
from agent_fabric.domain.chat.sessions import ChatMessage
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.plural import counted
from agent_fabric.domain.runs.evolve import run_as_of
from agent_fabric.domain.runs.timeline import Span, timeline_of
from agent_fabric.interfaces.cli.output import plain, plain_lines

LAST_SEQ = 2**63 - 1
"""An event behind all others."""


def source_lines(answer: ChatMessage) -> str:
    """Return the sentences of an answer that can be checked, each with the events that it rests on."""
    sentences = answer.metadata.get("sentences") or []
    run_id = str(answer.metadata.get("run_id", ""))
    lines = [_source(answer.content, each) for each in sentences]
    if not lines:
        return "The last answer says nothing that could be checked against its events.\n"
    return "\n".join([*lines, f"Show an event: fabric logs {run_id[:8]} --full"]) + "\n"


def unproven_count(answer: ChatMessage) -> int:
    """Return how many sentences of an answer rest on nothing in its record."""
    return sum(bool(each["missing"]) for each in answer.metadata.get("sentences") or ())


def _source(content: str, sentence: dict[str, object]) -> str:
    start, end = int(str(sentence["start"])), int(str(sentence["end"]))
    text = plain(" ".join(content[start:end].split()))
    events, missing = _list(sentence["events"]), _list(sentence["missing"])
    rests = f"event {', '.join(map(str, events))}" if events else "nothing"
    doubt = f"; nowhere: {', '.join(plain(str(each)) for each in missing)}" if missing else ""
    return f"[{rests}{doubt}] {text}"


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else []


def timeline_lines(run_id: RunId, events: Sequence[Event]) -> str:
    """Return what took time in a run: model calls, tools and waits of each lane."""
    found = timeline_of(events, run_as_of(run_id, events, LAST_SEQ).status)
    lines = [_span(span, found.started_at) for span in found.spans]
    total = f"{found.prompt_tokens:,} tokens in, {found.completion_tokens:,} out, {counted(found.events, 'event')}"
    return "\n".join([*lines, total]) + "\n"


def _span(span: Span, started_at: float) -> str:
    took = "goes on" if span.end is None else f"{span.end - span.start:.1f} s"
    tokens = f", {span.prompt_tokens:,} in, {span.completion_tokens:,} out" if span.completion_tokens else ""
    failed = ", failed" if span.failed else ""
    place = f"{span.first_seq:>5}  +{span.start - started_at:.1f} s"
    return f"{place}  {span.kind:<5}  {plain(span.lane or 'run')}: {plain(span.label)} ({took}{tokens}{failed})"


def context_lines(run_id: RunId, events: Iterable[Event], seq: int) -> str:
    """Return what the models of a run had been told by an event."""
    state = run_as_of(run_id, events, seq)
    lines: list[str] = []
    for lane in state.lanes.values():
        lines.append(f"{plain(lane.lane_id)}: {plain(lane.model.model)}, about {lane.context_tokens:,} tokens")
        for message in lane.messages:
            calls = [f"→ {call.tool} {call.arguments}" for call in message.tool_calls]
            text = "\n".join(part for part in (message.content, *calls) if part)
            lines.append(f"--- {message.role.value}\n{plain_lines(text)}")
    return "\n".join(lines or ["No model had been told anything by then."]) + "\n"


def record_lines(found: VerifiedSession) -> str:
    """Return whether the hash chain of a session holds."""
    if found.holds:
        events, turns = counted(found.events, "event"), counted(len(found.turns), "turn")
        return f"Verified: the hash chain of {events} in {turns} holds.\n"
    damage = [f"{turn.run_id}: {plain(each)}" for turn in found.turns for each in turn.damage]
    return "\n".join(["Not as recorded:", *damage]) + "\n"
