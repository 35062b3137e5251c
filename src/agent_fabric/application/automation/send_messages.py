"""Sends messages to those who have subscribed to them, until they have them or are given up."""

import asyncio
import json
import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field, replace

from agent_fabric.application.attempts import attempt
from agent_fabric.application.ports.automation import (
    DeadLetter,
    DeadLetters,
    LetterKind,
    MessageSender,
    OutgoingQueue,
    SendOutcome,
    SubscriptionStore,
)
from agent_fabric.application.ports.bus import BusMessage
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.domain.automation.outgoing import (
    BOTH_SECRETS_S,
    DISABLED_AFTER_S,
    GONE,
    OutgoingMessage,
    Subscription,
    message_for,
    next_attempt_s,
    signed_headers,
)
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, InvalidInputs, ScheduleNotFound, StoreUnavailable
from agent_fabric.domain.identity.principals import Principal

LOOK_EVERY_S = 1.0
CLAIM_S = 60.0
"""How long a process has for one attempt, before another one may try."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class SendMessages:
    """Use case: keep messages for receivers, and send them. A slow receiver delays only itself."""

    store: SubscriptionStore
    queue: OutgoingQueue
    sender: MessageSender
    resolve: Resolve
    letters: DeadLetters
    clock: Clock
    fits: Callable[[str, str], bool]
    """Tells whether a subject fits a pattern."""
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Ends early when there is something to send."""
    changed: Callable[[], None] = lambda: None
    """Called after messages were kept or receivers changed."""
    _sending: "dict[str, asyncio.Task[None]]" = field(default_factory=dict)

    async def take(self, message: BusMessage) -> None:
        """Keep a message of the bus for everyone who has subscribed to it.

        Raises:
            StoreUnavailable: it could not be kept, and should come again.
        """
        now = self.clock.now()
        wanted = [
            message_for(each.name, message.message_id, message.subject, message.payload, now)
            for each in await self.store.list()
            if any(self.fits(pattern, message.subject) for pattern in each.subjects)
        ]
        if wanted:
            await self.queue.put(wanted)
            self.changed()

    async def __call__(self) -> None:
        """Send until cancelled: what there is for a receiver in a task of its own."""
        try:
            while True:
                try:
                    active = {each.name for each in await self.store.list() if each.is_active}
                except StoreUnavailable as problem:
                    _log.warning("Subscriptions could not be read: %s", problem.message)
                    active = set(self._sending)
                self._sending = {name: task for name, task in self._sending.items() if not task.done()}
                for name in self._sending.keys() - active:
                    self._sending.pop(name).cancel()
                for name in active - self._sending.keys():
                    work = attempt(self._send_all(name), f"Messages for {name} were not sent")
                    self._sending[name] = asyncio.create_task(work)
                await self.pause(LOOK_EVERY_S)
        finally:
            for task in self._sending.values():
                task.cancel()
            await asyncio.gather(*self._sending.values(), return_exceptions=True)
            self._sending.clear()

    async def _send_all(self, name: str) -> None:
        """Send what there is for a receiver now."""
        while await self.send_next(name):
            pass

    async def send_next(self, name: str) -> bool:
        """Send the next message for a receiver; False: there is none now."""
        now = self.clock.now()
        message = await self.queue.claim(name, now, until=now + CLAIM_S)
        if message is None:
            return False
        subscription = await self.find(name)
        outcome = await self._send(subscription, message)
        await self._settle(subscription, message, outcome)
        return True

    async def _settle(self, subscription: Subscription, message: OutgoingMessage, outcome: SendOutcome) -> None:
        now = self.clock.now()
        if outcome.is_taken:
            if subscription.failing_since is not None:
                await self.store.save(replace(subscription, failing_since=None))
            await self.queue.settle(message, next_at=None)
            return
        since = now if subscription.failing_since is None else subscription.failing_since
        failing = replace(subscription, failing_since=since)
        if outcome.status == GONE or now - since >= DISABLED_AFTER_S:
            why = "the receiver answered 410" if outcome.status == GONE else "it has failed for five days"
            failing = replace(failing, is_active=False, disabled_because=why)
            _log.warning("Subscription %s is disabled: %s", subscription.name, why)
        await self.store.save(failing)
        wait = next_attempt_s(message.attempts + 1)
        if wait is not None and outcome.status != GONE:
            await self.queue.settle(message, next_at=now + wait)
            return
        await self.letters.add(_letter(message, outcome, now))
        await self.queue.settle(message, next_at=None)

    async def _send(self, subscription: Subscription, message: OutgoingMessage) -> SendOutcome:
        at = int(self.clock.now())
        told = {"type": message.subject, "timestamp": message.created_at, "data": dict(message.payload)}
        body = json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()
        try:
            secrets = [await self.resolve(each) for each in subscription.secrets(at)]
        except FabricError as problem:
            return SendOutcome(0, problem.message)
        headers = {"content-type": "application/json", **signed_headers(secrets, message.message_id, at, body)}
        return await self.sender.send(subscription.url, headers, body)

    async def test(self, name: str) -> SendOutcome:
        """Send a message that only shows whether a receiver can be reached, and return what it answered.

        Raises:
            ScheduleNotFound: there is no such subscription.
        """
        subscription = await self.find(name)
        message_id, payload = f"test-{uuid.uuid4()}", {"subscription": name}
        return await self._send(subscription, message_for(name, message_id, "agent33.test", payload, self.clock.now()))

    async def add(self, name: str, subjects: Sequence[str], url: str, secret: str, *, by: Principal) -> Subscription:
        """Keep a new receiver.

        Raises:
            InvalidInputs: it cannot be one.
            NameTaken: there is one of this name.
        """
        if not name or not subjects or not url.startswith(("http://", "https://")):
            raise InvalidInputs("A subscription has a name, subjects and an http or https URL", hint="Give all three.")
        made = Subscription(
            name=name, subjects=tuple(subjects), url=url, secret=secret, owner=by.id, created_at=self.clock.now()
        )
        await self.store.save(made, new=True)
        self.changed()
        return made

    async def rotate(self, name: str, secret: str) -> Subscription:
        """Sign with another secret; for 24 hours with the old one as well.

        Raises:
            ScheduleNotFound: there is no such subscription.
            FabricError: the new secret cannot be found.
        """
        subscription = await self.find(name)
        await self.resolve(secret)
        until = self.clock.now() + BOTH_SECRETS_S
        changed = replace(subscription, secret=secret, old_secret=subscription.secret, old_until=until)
        changed = replace(changed, is_active=True, disabled_because="", failing_since=None)
        await self.store.save(changed)
        self.changed()
        return changed

    async def find(self, name: str) -> Subscription:
        """Return a subscription.

        Raises:
            ScheduleNotFound: there is none.
        """
        for each in await self.store.list():
            if each.name == name:
                return each
        raise ScheduleNotFound(f"There is no subscription {name!r}", hint="See them with `fabric webhooks list`.")

    async def replay(self, letter: DeadLetter, by: Principal, again: bool) -> str:  # noqa: ARG002 - see `Replay`
        """Send a message that was given up, under the id that it had or a new one."""
        kept, name = letter.payload, str(letter.payload["subscription"])
        message_id = f"again-{uuid.uuid4()}" if again else str(kept["message_id"])
        await self.find(name)
        now = self.clock.now()
        await self.queue.put([message_for(name, message_id, str(kept["subject"]), kept["payload"], now)])
        self.changed()
        return message_id


def _letter(message: OutgoingMessage, outcome: SendOutcome, now: float) -> DeadLetter:
    payload = {
        "subscription": message.subscription,
        "message_id": message.message_id,
        "subject": message.subject,
        "payload": dict(message.payload),
    }
    return DeadLetter(
        id=str(uuid.uuid5(uuid.NAMESPACE_URL, f"message:{message.id}")),
        kind=LetterKind.DELIVERY_OUT,
        source=message.subscription,
        reason=f"given up after {message.attempts + 1} attempts: {outcome.problem or f'answered {outcome.status}'}",
        payload=payload,
        created_at=now,
    )
