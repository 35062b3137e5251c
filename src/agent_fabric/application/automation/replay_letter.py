"""Carries out what could not be carried out before, or drops it."""

import uuid
from collections.abc import Awaitable, Callable

from agent_fabric.application.automation.manage_schedules import ManageSchedules
from agent_fabric.application.automation.watch_sensors import WatchSensors
from agent_fabric.application.ports.automation import AutomationStore, DeadLetter, DeadLetters, LetterKind
from agent_fabric.application.ports.bus import BusMessage
from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError, DeadLetterSettled
from agent_fabric.domain.identity.principals import Principal
from agent_fabric.domain.ids import RunId

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


@dataclass(frozen=True, slots=True)
class ReplayTrigger:
    """Starts what a schedule, a sensor or a webhook could not start."""

    manage: ManageSchedules
    watch: WatchSensors
    store: AutomationStore

    async def __call__(self, letter: DeadLetter, by: Principal, again: bool) -> str:
        """Start it under the id that it would have had, or as a new run.

        Raises:
            FabricError: it cannot be started now either.
        """
        kept = letter.payload
        if "schedule" in kept:
            schedule = await self.store.schedules.find(str(kept["schedule"]))
            return await self.manage.fire(schedule, by=by, due_at=None if again else float(kept["due_at"]))
        source = f"sensor {kept['sensor']}" if "sensor" in kept else f"webhook {kept['source']}"
        task = await self.watch.task_for(source, str(kept["workflow"]), kept["inputs"])
        run_id = RunId(str(uuid.uuid4()) if again else str(kept["run_id"]))
        created = self.watch.first_event(run_id, task)
        if await self.store.letters.start(letter, run_id, created, by=by.name, now=self.watch.clock.now()):
            self.watch.begin([run_id])
        return run_id


@dataclass(frozen=True, slots=True)
class BusLetters:
    """Messages of the bus that someone in this process could not take, however often they came."""

    letters: DeadLetters
    deliver_to: Callable[[str, BusMessage], Awaitable[None]]
    clock: Clock

    async def keep(self, name: str, message: BusMessage, reason: str) -> None:
        payload = {
            "name": name,
            "message_id": message.message_id,
            "subject": message.subject,
            "payload": dict(message.payload),
        }
        letter = DeadLetter(
            id=str(uuid.uuid5(uuid.NAMESPACE_URL, f"bus:{name}:{message.message_id}")),
            kind=LetterKind.BUS,
            source=name,
            reason=reason,
            payload=payload,
            created_at=self.clock.now(),
        )
        await self.letters.add(letter)

    async def replay(self, letter: DeadLetter, by: Principal, again: bool) -> str:  # noqa: ARG002 - see `Replay`
        """Deliver a message once more, to the one who could not take it; it has the same id."""
        kept = letter.payload
        message = BusMessage(str(kept["message_id"]), str(kept["subject"]), kept["payload"])
        await self.deliver_to(str(kept["name"]), message)
        return message.message_id
