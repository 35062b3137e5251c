"""Takes what others send: checks whose it is, tells whoever listens, and starts what is to be started."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from agent_fabric.application.ports.automation import DeadLetter, DeadLetters, LetterKind
from agent_fabric.application.ports.bus import Bus
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.limits import Limiter, Rate
from agent_fabric.application.ports.webhooks import Delivery, DeliveryStore, WebhookReceiver
from agent_fabric.domain.errors import (
    ConfigError,
    DefinitionNotFound,
    FabricError,
    InvalidDefinition,
    InvalidInputs,
    RecruitError,
    TooManyRequests,
    Unauthenticated,
)
from agent_fabric.domain.identity import Principal
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.json_schema import too_deep
from agent_fabric.domain.secret_strength import weakness
from agent_fabric.domain.secrets import defused
from agent_fabric.domain.webhooks import (
    Scheme,
    Signing,
    delivery_id,
    event_of,
    greeting_in,
    is_signed,
    run_of,
    shown_headers,
)

SUBJECT = "agent33.webhook"
"""Beginning of the subject under which deliveries are told; the source follows."""
MAX_FIELDS = 1_000
_NOBODY = Signing(scheme=Scheme.GITHUB)
_NEVER = (ConfigError, DefinitionNotFound, InvalidDefinition, InvalidInputs, RecruitError)
"""Why a workflow cannot be started, however often it is tried."""

Start = Callable[[str, str, Mapping[str, Any], RunId], Awaitable[None]]
"""Starts a workflow for a source, with these of its inputs, as this run; one that exists already stays as it is."""


SHORTEST_SECRET = 16
"""Bytes of a secret that a sender signs with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySource:
    """Somebody who sends us something."""

    signing: Signing
    secret: str
    """Where the secret is that they share with us."""
    workflow: str = ""
    """What their deliveries start; empty: nothing."""
    events: frozenset[str] = frozenset()
    """The events that start it; empty: all."""
    rate: Rate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """What became of a delivery."""

    delivery_id: str
    run_id: RunId | None = None
    """The run that it started."""
    is_repeated: bool = False
    """Whether it has come before; then nothing followed from it this time."""
    answer: Mapping[str, Any] | None = None
    """What the sender wants to hear, if it is something special."""


@dataclass(frozen=True, slots=True)
class ReceiveDelivery:
    """Use case: take a delivery that anybody may have sent."""

    sources: Mapping[str, DeliverySource]
    resolve: Callable[[str], Awaitable[str]]
    """Finds a secret by its reference."""
    book: DeliveryStore
    bus: Bus
    limiter: Limiter
    start: Start
    clock: Clock
    letters: DeadLetters | None = None
    """Where a delivery is kept whose workflow could not be started."""
    armed: Callable[[str], Awaitable[Sequence[str]]] | None = None
    """Finds the workflows whose files name a source as their trigger."""
    receivers: dict[str, WebhookReceiver] = field(default_factory=dict)
    """Who else wants the deliveries of a source."""
    _turns: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    """One delivery of a source after another; only of sources that there are."""

    async def __call__(self, name: str, headers: Mapping[str, str], body: bytes) -> Received:
        """Take a delivery that somebody sent to `name`. It takes effect once, however often it comes.

        Raises:
            Unauthenticated: there is no such source, or it is not theirs; nobody learns which.
            InvalidInputs: it cannot be read, or the workflow cannot take it.
            TooManyRequests: the source has sent too many.
            FabricError: it could not be taken now, and should be delivered again.
        """
        source = await self._verified(name, headers, body)
        if source.rate is not None:
            standing = await self.limiter.hit(f"webhook {name}", source.rate)
            if not standing.allowed:
                raise TooManyRequests(
                    f"The webhook {name!r} has had too many deliveries for now",
                    hint=f"Deliver again later. The limit is `webhooks.{name}.rate`.",
                    retry_after_s=standing.reset_s,
                )
        found = delivery_id(source.signing, headers, body)
        payload = _payload(headers.get("content-type", ""), body)
        delivery = Delivery(
            delivery_id=found,
            event=event_of(source.signing.scheme, headers, payload),
            payload=payload,
            headers=shown_headers(source.signing, headers),
        )
        greeting = greeting_in(source.signing.scheme, payload)
        if greeting is not None:
            return Received(delivery_id=found, answer=greeting)
        async with self._turns[name]:  # the same one may come twice at the same time
            return await self._taken(name, source, delivery)

    async def require_strong_secrets(self) -> None:
        """Check the secrets that can be had now; a missing one is reported elsewhere, and lets no delivery in.

        Raises:
            ConfigError: one of them can be guessed.
        """
        for name, source in self.sources.items():
            try:
                secret = await self.resolve(source.secret)
            except FabricError:
                continue
            if weak := weakness(secret.encode(errors="surrogateescape"), shortest=SHORTEST_SECRET):
                raise ConfigError(
                    f"The secret of the webhook {name!r}, {source.secret}, {weak}",
                    hint="Use a random value, on both sides, such as that of: openssl rand -hex 32",
                )

    async def _taken(self, name: str, source: DeliverySource, delivery: Delivery) -> Received:
        found = delivery.delivery_id
        runs = {run_of(name, found): source.workflow} if source.workflow else {}
        if self.armed is not None:
            runs |= {run_of(f"{name} {each}", found): each for each in await self.armed(name)}
        if source.events and delivery.event not in source.events:
            runs = {}
        run_id = next(iter(runs), None)
        if await self.book.knows(name, found):
            return Received(delivery_id=found, run_id=run_id, is_repeated=True)
        # The run first: its first event has the whole body, and an id that repeats find.
        for each, workflow in runs.items():
            inputs = {"event": delivery.event, "payload": delivery.payload, "headers": dict(delivery.headers)}
            try:
                await self.start(name, workflow, inputs, each)
            except _NEVER as problem:
                await self._bury(name, workflow, inputs, each, problem)
                run_id = None if each == run_id else run_id
        answer = await self._hand_on(name, delivery, run_id)
        return Received(delivery_id=found, run_id=run_id, answer=answer)

    async def _bury(
        self, name: str, workflow: str, inputs: Mapping[str, Any], run_id: RunId, problem: FabricError
    ) -> None:
        """Keep a delivery whose workflow cannot be started: to deliver it again would not help, and it may matter.

        Raises:
            FabricError: there is nowhere to keep it, so that the sender is told.
        """
        if self.letters is None:
            raise problem
        letter = DeadLetter(
            id=run_id,
            kind=LetterKind.DELIVERY_IN,
            source=f"webhook {name}",
            reason=problem.message,
            payload={"source": name, "workflow": workflow, "inputs": dict(inputs), "run_id": run_id},
            created_at=self.clock.now(),
        )
        await self.letters.add(letter)

    async def replay(self, letter: DeadLetter, by: Principal, again: bool) -> str:  # noqa: ARG002 - see `Replay`
        """Start the workflow of a delivery that was kept, as the same run or as a new one.

        Raises:
            FabricError: it cannot be started now either.
        """
        kept = letter.payload
        run_id = run_of(f"{kept['source']} {self.clock.now()}", letter.id) if again else RunId(str(kept["run_id"]))
        await self.start(str(kept["source"]), str(kept["workflow"]), kept["inputs"], run_id)
        return run_id

    async def _verified(self, name: str, headers: Mapping[str, str], body: bytes) -> DeliverySource:
        source = self.sources.get(name)
        try:
            secret = await self.resolve(source.secret) if source is not None else ""
        except ConfigError:
            secret = ""  # said at the start, and in the doctor; a stranger does not learn of it
        if weakness(secret.encode(errors="surrogateescape"), shortest=SHORTEST_SECRET):
            secret = ""  # changed since the start
        signed = is_signed(source.signing if source else _NOBODY, secret, headers, body, now=self.clock.now())
        if source is None or not signed:
            raise Unauthenticated(
                "The signature, which is the credential here, is missing or wrong",
                hint="Check the webhook's name and secret, on both sides, and the clock.",
            )
        return source

    async def _hand_on(self, name: str, delivery: Delivery, run_id: RunId | None) -> Mapping[str, Any] | None:
        receiver, answer = self.receivers.get(name), None
        if receiver is not None:
            answer = await receiver.receive(name, delivery)
        if await self.book.note(name, delivery.delivery_id):
            message = {
                "source": name,
                "event": delivery.event,
                "delivery_id": delivery.delivery_id,
                "payload": delivery.payload,
                "headers": dict(delivery.headers),
                "run_id": run_id,
            }
            self.bus.publish(f"{SUBJECT}.{name}", message)
        return answer


def _payload(media_type: str, body: bytes) -> Any:
    """Return what a body holds. What stands there is somebody else's: it names no secret of ours.

    Raises:
        InvalidInputs: it is neither JSON nor a form.
    """
    essence = media_type.partition(";")[0].strip().lower()
    try:
        if essence == "application/x-www-form-urlencoded":
            fields: dict[str, Any] = dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS))
            inner = fields.get("payload")  # Slack and GitHub put JSON into a form
            payload = json.loads(inner) if set(fields) == {"payload"} and isinstance(inner, str) else fields
        else:
            payload = json.loads(body) if body else {}
    except (ValueError, RecursionError):
        raise InvalidInputs(
            "The delivery is neither JSON nor a form", hint="Have it sent as application/json."
        ) from None
    if too_deep(payload, body):
        raise InvalidInputs("The delivery is nested too deep", hint="Have less sent.")
    return defused(payload)
