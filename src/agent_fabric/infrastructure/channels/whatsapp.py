"""WhatsApp over the Cloud API. What comes, comes to the server's webhook; here is what goes out."""

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import aiohttp

from agent_fabric.application.ports.channels import ChannelState, ChannelStatus, Take
from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.channels.deliveries import AnswerLost, NotReached, Part, PartKind, Refused, SendOutcome
from agent_fabric.domain.channels.inbound import ButtonPress
from agent_fabric.domain.channels.pacing import WHATSAPP_PACES
from agent_fabric.domain.channels.rendering import WHATSAPP
from agent_fabric.domain.errors import ConfigError, FabricError
from agent_fabric.infrastructure.channels.whatsapp_wire import (
    CHANNEL,
    is_refused_credential,
    message_for,
    read_outcome,
)
from agent_fabric.infrastructure.web.sessions import read_up_to

API_BASE: Final = "https://graph.facebook.com/v26.0"
REQUEST_TIMEOUT_S: Final = 30.0
CHECK_EVERY_S: Final = 60.0
"""How often is asked whether the number is still ours: nothing else is heard when nobody writes."""
MAX_ANSWER: Final = 1024 * 1024
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
    ) -> None:
        """Connect to nothing yet; the token is found before every request."""
        self.status = ChannelStatus(CHANNEL, account=phone_number_id)
        self._token = token
        self._clock = clock
        self._number = phone_number_id
        self._base = api_base.rstrip("/")
        self._session: aiohttp.ClientSession | None = None

    async def receive(self, take: Take) -> None:  # noqa: ARG002 - the server's webhook takes what comes
        while True:
            try:
                status, answer = await self._call("GET", f"{self._number}?fields=display_phone_number", None)
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as problem:
                self.status.state = ChannelState.WAITING
                self.status.problem = f"WhatsApp does not answer: {type(problem).__name__}"
            else:
                if is_refused_credential(status, answer):
                    raise ConfigError("WhatsApp refuses the token", hint=_HINT)
                self._heard(answer)
            await self._clock.sleep(CHECK_EVERY_S)

    async def send(self, part: Part) -> SendOutcome:
        try:
            status, answer = await self._call("POST", f"{self._number}/messages", message_for(part))
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as problem:
            return NotReached(f"WhatsApp cannot be reached: {type(problem).__name__}")
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as problem:
            if part.kind is PartKind.EDIT:  # it is a message of its own there, so it is not repeated
                return Refused(f"WhatsApp did not answer: {type(problem).__name__}")
            return AnswerLost(f"WhatsApp did not answer: {type(problem).__name__}")
        except FabricError as problem:  # the token cannot be had
            return NotReached(problem.message)
        outcome = read_outcome(status, answer)
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

    async def aclose(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _call(self, method: str, path: str, body: dict[str, Any] | None) -> tuple[int, Any]:
        headers = {"authorization": f"Bearer {await self._token()}"}
        self._session = self._session or aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True))
        timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S, sock_connect=10.0)
        url = f"{self._base}/{path}"
        async with self._session.request(
            method, url, json=body, headers=headers, timeout=timeout, allow_redirects=False
        ) as response:
            data, _ = await read_up_to(response, MAX_ANSWER)
            return response.status, json.loads(data)

    def _heard(self, answer: Any) -> None:
        self.status.state, self.status.problem, self.status.hint = ChannelState.CONNECTED, "", ""
        self.status.heard_at = self._clock.now()
        if isinstance(answer, dict):
            self.status.name = str(answer.get("display_phone_number", ""))
