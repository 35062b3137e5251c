"""Answers that are being written elsewhere, for readers here."""

import asyncio
from collections.abc import Callable, Container, Mapping
from functools import partial
from typing import Any, Final, Protocol

from agent_fabric.application.ports.llm import ProgressText
from agent_fabric.application.ports.wake_ups import FOLLOW, FOLLOWED_FOR_S, WakeUps, delta_topic
from agent_fabric.domain.ids import LaneId, RunId

ASK_EVERY_S: Final = FOLLOWED_FOR_S / 3
"""So that one question that gets lost costs nothing."""


class FollowedFeed(Protocol):
    """Where the pieces of one run go."""

    run_id: RunId

    def add_delta(self, lane: LaneId, text: str, *, after: int | None = None) -> None:
        """Take in a piece of an answer that belongs behind an event."""
        ...

    def add_notice(self, text: str, *, after: int | None = None) -> None:
        """Take in a sign of life."""
        ...


class RemoteDeltas:
    """Asks the process that drives a run for pieces of answers, as long as they are read here.

    An answer of which a piece is missing is not shown any further: it comes whole with the next event.
    """

    def __init__(self, wake_ups: WakeUps, driven_here: Container[RunId]) -> None:
        self._wake_ups = wake_ups
        self._driven_here = driven_here
        self._followed: dict[RunId, Callable[[], None]] = {}
        self._next: dict[tuple[RunId, LaneId], tuple[int, int]] = {}
        """Of each answer: behind which event it comes, and how many characters came so far; -1: some are missing."""
        self._asked_at = 0.0

    def follow(self, feed: FollowedFeed) -> None:
        """Have the pieces of a run from now on."""
        if feed.run_id not in self._followed:
            self._followed[feed.run_id] = self._wake_ups.listen(delta_topic(feed.run_id), partial(self._hear, feed))
            self._ask(feed.run_id)

    def leave(self, run_id: RunId) -> None:
        """Have no more pieces of a run."""
        if (end := self._followed.pop(run_id, None)) is not None:
            end()
        self._next = {key: value for key, value in self._next.items() if key[0] != run_id}

    def ask_again(self) -> None:
        """Say now and then that there are still readers."""
        now = asyncio.get_running_loop().time()
        if self._followed and now >= self._asked_at + ASK_EVERY_S:
            self._asked_at = now
            for run_id in self._followed:
                self._ask(run_id)

    def _ask(self, run_id: RunId) -> None:
        if run_id not in self._driven_here:
            self._wake_ups.poke(FOLLOW, {"run": run_id})

    def _hear(self, feed: FollowedFeed, piece: Mapping[str, Any]) -> None:
        if feed.run_id in self._driven_here:
            return  # its readers have heard it already
        after = piece.get("after")
        place = after if isinstance(after, int) and after >= 0 else None
        if "notice" in piece:
            text = str(piece["notice"])
            feed.add_notice(ProgressText(text) if piece.get("progress") else text, after=place)
        elif self._is_next(feed.run_id, piece, -1 if place is None else place):
            feed.add_delta(LaneId(str(piece["lane"])), str(piece["text"]), after=place)

    def _is_next(self, run_id: RunId, piece: Mapping[str, Any], place: int) -> bool:
        """Tell whether a piece follows the one before; the first that is heard may come from the middle."""
        lane, text, offset = piece.get("lane"), piece.get("text"), piece.get("offset")
        if not isinstance(lane, str) or not isinstance(text, str) or not isinstance(offset, int):
            return False
        key = run_id, LaneId(lane)
        known_place, expected = self._next.get(key, (place, offset))
        if known_place != place:
            expected = 0  # another answer, of which we have missed nothing yet
        fits = offset == expected
        if fits or offset > expected:
            self._next[key] = place, offset + len(text) if fits else -1
        return fits
