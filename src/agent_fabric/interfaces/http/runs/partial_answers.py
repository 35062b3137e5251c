"""Answers that models are writing: all of their text so far, for readers who come late."""

from dataclasses import field
from typing import NamedTuple

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.events import Event, ModelAnswered, ModelCalled, ModelFailed
from agent_fabric.domain.ids import LaneId


class Piece(NamedTuple):
    """Some text of an answer, and where it belongs."""

    lane: LaneId
    offset: int
    """Characters (code points) before it; 0: it is all there is, and replaces what was shown."""
    text: str


@dataclass(slots=True)
class _Answer:
    asked_at: int
    """Sequence number of the request that it answers."""
    pieces: list[str] = field(default_factory=list)
    length: int = 0


@dataclass(slots=True)
class Heard:
    """How far one reader has got in the answers of a run."""

    asked_at: dict[LaneId, int] = field(default_factory=dict)
    pieces: dict[LaneId, int] = field(default_factory=dict)
    offset: dict[LaneId, int] = field(default_factory=dict)


class PartialAnswers:
    """The answers that are being written in a run, by lane.

    One counts only if its request was seen here: else its beginning is missing, and readers are shown nothing before
    the answer is complete. So what a reader has is always the beginning of the answer.
    """

    def __init__(self) -> None:
        self._answers: dict[LaneId, _Answer] = {}

    def see(self, event: Event) -> None:
        """Take in an event."""
        if event.lane is None:
            return
        if isinstance(event.body, ModelCalled) and event.body.purpose == "turn":
            self._answers[event.lane] = _Answer(event.seq)
        elif isinstance(event.body, ModelAnswered | ModelFailed):
            self._answers.pop(event.lane, None)

    def add(self, lane: LaneId, text: str) -> None:
        """Take in a piece of text."""
        answer = self._answers.get(lane)
        if answer is not None and text:
            answer.pieces.append(text)
            answer.length += len(text)

    def text(self) -> str:
        """Return the answer that was begun last, as far as it is written; empty: none is being written."""
        return "".join(next(reversed(self._answers.values())).pieces) if self._answers else ""

    def news(self, heard: Heard) -> list[Piece]:
        """Return what a reader has not heard yet."""
        found = []
        for lane, answer in self._answers.items():
            if heard.asked_at.get(lane) != answer.asked_at:
                heard.asked_at[lane], heard.pieces[lane], heard.offset[lane] = answer.asked_at, 0, 0
            if heard.pieces[lane] < len(answer.pieces):
                text = "".join(answer.pieces[heard.pieces[lane] :])
                found.append(Piece(lane, heard.offset[lane], text))
                heard.pieces[lane], heard.offset[lane] = len(answer.pieces), answer.length
        return found

    def has_news(self, heard: Heard) -> bool:
        """Tell whether a reader has not heard everything."""
        return any(
            answer.pieces and (heard.asked_at.get(lane) != answer.asked_at or heard.pieces[lane] < len(answer.pieces))
            for lane, answer in self._answers.items()
        )
