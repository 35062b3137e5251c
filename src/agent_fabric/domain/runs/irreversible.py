"""What a run did that cannot be taken back: what was sent, pushed or executed elsewhere."""

from collections.abc import Iterable
from dataclasses import replace

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.events import Event, PackStarted, ToolCalled, ToolReturned
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.tools.specs import Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class SentAway:
    """A call that reached the world outside the box."""

    run_id: RunId
    seq: int
    tool: str
    what: str
    """The command, the address, or the arguments."""
    certain: bool
    """Whether it is known to have happened; a call that failed may have happened in part."""


def sent_away(run_id: RunId, events: Iterable[Event]) -> list[SentAway]:
    """Return the calls of a run that files alone do not undo."""
    leaving: set[str] = set()
    calls: dict[CallId, SentAway] = {}
    for event in events:
        match event.body:
            case PackStarted() as body:
                leaving.update(tool.name for tool in body.tools if tool.effect is Effect.LEAVES_SANDBOX)
            case ToolCalled() as body if body.outside is not None or body.tool in leaving:
                what = " ".join(body.outside.words) if body.outside is not None else _subject(body)
                calls[body.call_id] = SentAway(run_id=run_id, seq=event.seq, tool=body.tool, what=what, certain=False)
            case ToolReturned() as body if body.call_id in calls:
                calls[body.call_id] = replace(calls[body.call_id], certain=True)
            case _:
                pass
    return sorted(calls.values(), key=lambda each: each.seq)


def _subject(body: ToolCalled) -> str:
    named = [str(body.args[key]) for key in ("command", "url", "to", "subject") if key in body.args]
    return " ".join(named) or ", ".join(f"{key}={value}" for key, value in list(body.args.items())[:4])
