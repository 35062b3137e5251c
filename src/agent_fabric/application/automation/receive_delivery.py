"""Takes what others send: checks whose it is, tells listeners, and starts what is to be started."""

import asyncio
import json
import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Any
from urllib.parse import parse_qsl

from agent_fabric.application.automation.watch_sensors import TaskFor
from agent_fabric.application.ports.automation import DeadLetter, FirstEvent, LetterKind
from agent_fabric.application.ports.bus import BusMessage
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.limits import Limiter, Rate
from agent_fabric.application.ports.webhooks import Delivery, DeliveryStore, NewDelivery, Received, WebhookReceiver
from agent_fabric.application.runs.start_run import Commit
from agent_fabric.domain.automation.webhooks import (
    Scheme,
    Signing,
    delivery_id,
    event_of,
    greeting_in,
    is_signed,
    run_of,
    shown_headers,
)
from agent_fabric.domain.dataclass import dataclass
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
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.secrets.references import defuse
from agent_fabric.domain.secrets.strength import weakness
from agent_fabric.domain.tools.json_schema import too_deep

SUBJECT = "agent33.webhook"
"""Beginning of the subject under which deliveries are told; the source follows."""
MAX_FIELDS = 1_000
_NO_SOURCE = Signing(scheme=Scheme.GITHUB)
_NEVER = (ConfigError, DefinitionNotFound, InvalidDefinition, InvalidInputs, RecruitError)
"""Why a workflow cannot be started, however often it is tried."""

Start = Callable[[str, Sequence[RunId], Commit], Awaitable[bool]]
"""Commits a delivery of a source, if its runs may be started now, and has them driven; False: it had come before."""


SHORTEST_SECRET = 16
"""Bytes of a secret that a sender signs with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySource:
    """Someone who sends us something."""

    signing: Signing
    secret: str
    """Where the secret is that they share with us."""
    workflow: str = ""
    """What their deliveries start; empty: nothing."""
    events: frozenset[str] = frozenset()
    """The events that start it; empty: all."""
    rate: Rate | None = None


@dataclass(frozen=True, slots=True)
class ReceiveDelivery:
    """Use case: take a delivery that anyone may have sent."""

    sources: Mapping[str, DeliverySource]
    resolve: Callable[[str], Awaitable[str]]
    """Finds a secret by its reference."""
    deliveries: DeliveryStore
    tell: Callable[[BusMessage], None]
    """Tells this process of a message that is in the outbox."""
    limiter: Limiter
    task_for: TaskFor
    first_event: FirstEvent
    start: Start
    clock: Clock
    find_armed: Callable[[str], Awaitable[Sequence[str]]] | None = None
    """Finds the workflows whose files name a source as their trigger."""
    receivers: dict[str, WebhookReceiver] = field(default_factory=dict)
    """Who else wants the deliveries of a source."""
    _turns: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    """One delivery of a source after another; only of sources that there are."""

    async def __call__(self, name: str, headers: Mapping[str, str], body: bytes) -> Received:
        """Take a delivery that someone sent to `name`. It takes effect once, however often it comes.

        Raises:
            Unauthenticated: there is no such source, or it is not theirs; no one learns which.
            InvalidInputs: it cannot be read, or the workflow cannot take it.
            TooManyRequests: the source has sent too many.
            FabricError: it could not be taken now, and should be delivered again.
        """
        source = await self._verify(name, headers, body)
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
            return await self._take(name, source, delivery)

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

    async def _take(self, name: str, source: DeliverySource, delivery: Delivery) -> Received:
        found = delivery.delivery_id
        runs = {run_of(name, found): source.workflow} if source.workflow else {}
        if self.find_armed is not None:
            armed = [each for each in await self.find_armed(name) if each != source.workflow]
            runs |= {run_of(f"{name} {each}", found): each for each in armed}
        if source.events and delivery.event not in source.events:
            runs = {}
        known = await self.deliveries.find(name, found, tuple(runs))
        if known is not None:
            return Received(delivery_id=found, run_id=next(iter(known), None), is_repeated=True)
        created, letters = await self._prepare(name, delivery, runs)
        # Before anything is durable: a receiver that cannot take it now gets it again.
        receiver = self.receivers.get(name)
        answer = None if receiver is None else await receiver.receive(name, delivery)
        run_id = next(iter(created), None)
        message = _message(name, delivery, run_id)
        new = NewDelivery(source=name, delivery_id=found, runs=created, letters=letters, message=message)
        if not await self.start(name, tuple(created), lambda: self.deliveries.take(new)):
            return Received(delivery_id=found, run_id=run_id, is_repeated=True)
        self.tell(message)
        return Received(delivery_id=found, run_id=run_id, answer=answer)

    async def _prepare(
        self, name: str, delivery: Delivery, runs: Mapping[RunId, str]
    ) -> tuple[dict[RunId, Event], list[DeadLetter]]:
        """Return the first events of the runs that a delivery starts, and dead letters for those that cannot be.

        To deliver such a one again would not help, and it may matter.
        """
        created: dict[RunId, Event] = {}
        letters: list[DeadLetter] = []
        inputs = {"event": delivery.event, "payload": delivery.payload, "headers": dict(delivery.headers)}
        for run_id, workflow in runs.items():
            try:
                created[run_id] = self.first_event(run_id, await self.task_for(f"webhook {name}", workflow, inputs))
            except _NEVER as problem:
                letters.append(_letter(name, workflow, inputs, run_id, problem, self.clock.now()))
        return created, letters

    async def _verify(self, name: str, headers: Mapping[str, str], body: bytes) -> DeliverySource:
        source = self.sources.get(name)
        try:
            secret = await self.resolve(source.secret) if source is not None else ""
        except ConfigError:
            secret = ""  # said at the start, and in the doctor; a stranger does not learn of it
        if weakness(secret.encode(errors="surrogateescape"), shortest=SHORTEST_SECRET):
            secret = ""  # changed since the start
        signed = is_signed(source.signing if source else _NO_SOURCE, secret, headers, body, now=self.clock.now())
        if source is None or not signed:
            raise Unauthenticated(
                "The signature, which is the credential here, is missing or wrong",
                hint="Check the webhook's name and secret, on both sides, and the clock.",
            )
        return source


def _message(name: str, delivery: Delivery, run_id: RunId | None) -> BusMessage:
    payload = {
        "source": name,
        "event": delivery.event,
        "delivery_id": delivery.delivery_id,
        "payload": delivery.payload,
        "headers": dict(delivery.headers),
        "run_id": run_id,
    }
    message_id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"webhook:{name}:{delivery.delivery_id}"))
    return BusMessage(message_id, f"{SUBJECT}.{name}", payload)


def _letter(
    name: str, workflow: str, inputs: Mapping[str, Any], run_id: RunId, problem: FabricError, now: float
) -> DeadLetter:
    return DeadLetter(
        id=run_id,
        kind=LetterKind.DELIVERY_IN,
        source=f"webhook {name}",
        reason=problem.message,
        payload={"source": name, "workflow": workflow, "inputs": dict(inputs), "run_id": run_id},
        created_at=now,
    )


def _payload(media_type: str, body: bytes) -> Any:
    """Return what a body holds. What stands there is someone else's: it names no secret of ours.

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
    return defuse(payload)
