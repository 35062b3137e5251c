"""Carries out what could not be carried out before, or drops it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agent_fabric.application.ports.automation import DeadLetter, DeadLetters, LetterKind
from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.errors import ConfigError, DeadLetterSettled
from agent_fabric.domain.identity import Principal

Replay = Callable[[DeadLetter, Principal, bool], Awaitable[str]]
"""Carries a letter out, under its old id or as something new; returns the run or message that came of it."""
DEAD, REPLAYED, DROPPED = "dead", "replayed", "dropped"


@dataclass(frozen=True, slots=True)
class SettleLetters:
    """Use case: replay or drop dead letters. Nothing is deleted: what was decided stays with the letter."""

    letters: DeadLetters
    replays: dict[LetterKind, Replay]
    clock: Clock

    async def replay(self, letter: DeadLetter, *, by: Principal, again: bool = False) -> DeadLetter:
        """Carry a letter out, under the id that it had; `again`: as something new, however often.

        Raises:
            DeadLetterSettled: it was replayed or dropped before, and this is not `again`.
            FabricError: it cannot be carried out now either; it stays.
        """
        if letter.status != DEAD and not again:
            raise DeadLetterSettled(
                f"The dead letter {letter.id[:8]} was {letter.status} by {letter.settled_by}",
                hint="--again carries it out once more, as something new.",
            )
        replay = self.replays.get(letter.kind)
        if replay is None:
            raise ConfigError(
                f"A dead letter of the kind {letter.kind.value!r} cannot be carried out here",
                hint="Use the server that it came to: --server URL.",
            )
        outcome = await replay(letter, by, again)
        await self.letters.settle(letter, status=REPLAYED, by=by.name, outcome=outcome, now=self.clock.now())
        return await self.letters.find(letter.id)

    async def drop(self, letter: DeadLetter, *, by: Principal) -> DeadLetter:
        """Decide that a letter is not carried out.

        Raises:
            DeadLetterSettled: it was replayed or dropped before.
        """
        done = letter.status == DEAD and await self.letters.settle(
            letter, status=DROPPED, by=by.name, outcome="", now=self.clock.now()
        )
        if not done:
            raise DeadLetterSettled(
                f"The dead letter {letter.id[:8]} was settled before", hint="See it: fabric dead show."
            )
        return await self.letters.find(letter.id)
