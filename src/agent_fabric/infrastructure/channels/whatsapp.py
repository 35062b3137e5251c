"""WhatsApp over the Cloud API. What comes, comes to the server's webhook; here is what goes out."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import aiohttp

from agent_fabric.application.ports.channels import ChannelStatus, Take
from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.channels.deliveries import AnswerLost, NotReached, Part, PartKind, Refused, SendOutcome
from agent_fabric.domain.channels.files import FileProblem
from agent_fabric.domain.channels.inbound import ButtonPress, InboundFile
from agent_fabric.domain.channels.pacing import WHATSAPP_PACES
from agent_fabric.domain.channels.rendering import WHATSAPP
from agent_fabric.domain.errors import ConfigError, FabricError
from agent_fabric.infrastructure.channels import whatsapp_wire as wire
from agent_fabric.infrastructure.channels.calls import (
    FAILURES,
    REQUEST_TIMEOUT_S,
    PlatformAnswer,
    PlatformLink,
    is_host_of,
    token_of,
)

API_BASE: Final = "https://graph.facebook.com/v26.0"
MEDIA_HOST: Final = "lookaside.fbsbx.com"
CHECK_EVERY_S: Final = 60.0
"""How often is asked whether the number is still ours: nothing else is heard when no one writes."""
_HINT: Final = (
    "Make a token of a system user with `whatsapp_business_messaging`, set it as `channels.whatsapp.token`, restart."
)

_log = logging.getLogger(__name__)


class WhatsAppChannel:
    """Channel over the Cloud API, for one phone number."""

    rendering = WHATSAPP
    paces = WHATSAPP_PACES

    def __init__(
        self,
        token: Callable[[], Awaitable[str]],
        clock: Clock,
        *,
        phone_number_id: str,
        api_base: str = API_BASE,
        template: wire.Template | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        """Connect to nothing yet; the token is found before every request.

        Args:
            token: Finds the token.
            clock: The time.
            phone_number_id: The number that we are.
            api_base: Where the Graph API is.
            template: What someone is sent who has not written for a day; None: nothing gets through to them.
            timeout_s: How long a request may take.
        """
        self.status = ChannelStatus(wire.CHANNEL, account=phone_number_id)
        self._token = token
        self._clock = clock
        self._number = phone_number_id
        self._base = api_base.rstrip("/")
        self._template = template
        self._link = PlatformLink("WhatsApp", self.status, clock, timeout_s=timeout_s)

    async def receive(self, take: Take) -> None:  # noqa: ARG002 - the server's webhook takes what comes
        while True:
            try:
                status, _, answer = await self._call("GET", f"{self._number}?fields=display_phone_number")
            except FAILURES as problem:
                self._link.note_waiting(str(self._link.no_answer(problem)))
            else:
                if wire.is_refused_credential(status, answer):
                    raise ConfigError("WhatsApp refuses the token", hint=_HINT)
                if status == 200 and isinstance(answer, Mapping):
                    self._link.note_heard()
                    self.status.name = str(answer.get("display_phone_number", ""))
                else:
                    self._link.note_waiting(f"WhatsApp answered {status}")
            await self._clock.sleep(CHECK_EVERY_S)

    async def send(self, part: Part) -> SendOutcome:
        if part.is_knock and self._template is None:
            return Refused("they have not written for 24 hours, and `channels.whatsapp.template` is not set")
        try:
            if part.kind is PartKind.FILE:
                return await self._send_file(part)
            body = wire.knock_for(part, self._template) if part.is_knock and self._template else wire.message_for(part)
            status, _, answer = await self._call("POST", f"{self._number}/messages", json=body)
        except (*FAILURES, FabricError) as problem:
            outcome: SendOutcome = self._link.failure(problem)
        else:
            outcome = wire.read_outcome(status, answer)
        if part.kind is PartKind.EDIT and isinstance(outcome, AnswerLost):
            return Refused(outcome.problem)  # it is a message of its own there, so it is not repeated
        if isinstance(outcome, Refused):
            _log.warning("WhatsApp did not take a message: %s", outcome.problem)
        return outcome

    async def trace(self, part: Part) -> SendOutcome:  # noqa: ARG002 - whatever it is
        """WhatsApp reports it later, to the webhook."""
        return AnswerLost("WhatsApp reports later what has arrived")

    async def answer(self, press: ButtonPress, text: str) -> None:
        """Write to the one who pressed; there is nothing that only a button shows."""
        if not text:
            return
        part = Part(source=f"press:{press.key}", place=press.place, text=text, plain=text)
        outcome = await self.send(part)
        _log.debug("A press of a button was answered: %s", type(outcome).__name__)

    async def download(self, file: InboundFile, *, max_bytes: int) -> bytes | FileProblem:
        """Return a file: its address first, then its content; only from Meta, since the request carries the token."""
        if not file.file_id.isalnum():
            return FileProblem("it has no id of WhatsApp")
        token = await token_of(self._token)
        if isinstance(token, FileProblem):
            return token
        try:
            status, _, answer = await self._call("GET", file.file_id)
        except (*FAILURES, FabricError) as problem:
            return FileProblem(self._link.failure(problem).problem, may_pass=True)
        media = wire.read_media(answer) if status == 200 else None
        if media is None:
            return FileProblem(f"WhatsApp answered {status}", may_pass=answer is None or status == 429 or status >= 500)
        if media.size is not None and media.size > max_bytes:
            return FileProblem("it is too large")
        if not is_host_of(media.url, self._base, MEDIA_HOST):
            return FileProblem("it is not at WhatsApp")
        headers = {"authorization": f"Bearer {token}"}
        return await self._link.call.download(media.url, headers, max_bytes=max_bytes)

    async def aclose(self) -> None:
        await self._link.call.aclose()

    async def _send_file(self, part: Part) -> SendOutcome:
        """Upload a file, and then send the message that shows it: only the second can be in doubt."""
        document = part.document
        assert document is not None, "a file is sent with its content"
        fields = wire.file_fields(document)
        form = aiohttp.FormData({"messaging_product": "whatsapp", "type": fields.media_type})
        form.add_field("file", document.content, filename=fields.name, content_type=fields.media_type)
        try:
            status, _, answer = await self._call("POST", f"{self._number}/media", data=form)
        except FAILURES as problem:
            return NotReached(self._link.failure(problem).problem)
        media_id = answer.get("id") if status < 300 and isinstance(answer, Mapping) else None
        if not media_id:
            outcome = wire.read_outcome(status, answer)
            return NotReached(outcome.problem) if isinstance(outcome, AnswerLost) else outcome
        body = wire.document_for(part, str(media_id), fields.name)
        status, _, answer = await self._call("POST", f"{self._number}/messages", json=body)
        return wire.read_outcome(status, answer)

    async def _call(self, method: str, path: str, **what: Any) -> PlatformAnswer:
        headers = {"authorization": f"Bearer {await self._token()}"}
        return await self._link.call(method, f"{self._base}/{path}", headers, **what)
