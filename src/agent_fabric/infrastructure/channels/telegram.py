"""Telegram over long polling, which needs no public address, or over a webhook.

The token is part of every address of the Bot API. So no address is ever logged or shown, and what an exception of the
HTTP client says is replaced by its kind.
"""

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

import aiohttp

from agent_fabric.application.channels.receive_webhook import MIN_SECRET_BYTES
from agent_fabric.application.ports.channels import ChannelState, ChannelStatus, Take
from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.channels.deliveries import AnswerLost, Part, Refused, SendOutcome
from agent_fabric.domain.channels.files import FileProblem
from agent_fabric.domain.channels.inbound import ButtonPress, InboundFile
from agent_fabric.domain.channels.pacing import TELEGRAM_PACES
from agent_fabric.domain.channels.rendering import TELEGRAM
from agent_fabric.domain.errors import ConfigError, FabricError, ServerBusy
from agent_fabric.domain.secrets.strength import weakness
from agent_fabric.infrastructure.channels import telegram_wire as wire
from agent_fabric.infrastructure.channels.calls import (
    BACK_OFF_S,
    FAILURES,
    REQUEST_TIMEOUT_S,
    PlatformCalls,
    PlatformLink,
    Unavailable,
    token_of,
)

API_BASE: Final = "https://api.telegram.org"
POLL_S: Final = 50
"""How long Telegram holds a poll open when there is nothing to tell."""
POLL_GRACE_S: Final = 15.0
CHECK_EVERY_S: Final = 60.0
"""How often is asked whether Telegram can deliver to the webhook: nothing else is heard when no one writes."""
_POLLS: Final = frozenset({"getMe", "deleteWebhook", "getUpdates"})
_REFUSED: Final = frozenset({401, 403, 404})
"""What Telegram answers to a token that it does not know (any more)."""


class TelegramWebhook(NamedTuple):
    """Where Telegram delivers, instead of being polled."""

    url: str
    secret: Callable[[], Awaitable[str]]
    """Finds what Telegram shows with every delivery."""


class TelegramChannel:
    """Channel over the Bot API. One process polls for a token; a second one would be answered 409.

    With a webhook, nothing is polled: the server's door takes what comes, and here Telegram is told where that is.
    """

    rendering = TELEGRAM
    paces = TELEGRAM_PACES

    def __init__(
        self,
        token: Callable[[], Awaitable[str]],
        clock: Clock,
        *,
        api_base: str = API_BASE,
        webhook: TelegramWebhook | None = None,
        poll_s: int = POLL_S,
        back_off_s: tuple[float, ...] = BACK_OFF_S,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        """Connect to nothing yet.

        Args:
            token: Finds the token, before every request: it may be changed while the server runs.
            clock: The time.
            api_base: Where the Bot API is.
            webhook: Where Telegram delivers; None: it is polled.
            poll_s: How long a poll may last.
            back_off_s: Pauses after failures; the last one is repeated.
            timeout_s: How long any other request may take.
        """
        self.status = ChannelStatus(wire.CHANNEL)
        self._token = token
        self._clock = clock
        self._base = api_base.rstrip("/")
        self._webhook = webhook
        self._poll_s = poll_s
        self._link = PlatformLink("Telegram", self.status, clock, back_off_s=back_off_s, timeout_s=timeout_s)
        self._polls = PlatformCalls(timeout_s, keeps=True)
        self._bot: wire.Bot | None = None

    async def receive(self, take: Take) -> None:
        if self._webhook is None:
            await self._poll_forever(take)
        else:
            await self._watch_webhook(self._webhook)

    async def identity(self) -> wire.Bot:
        """Return who we are there; Telegram is asked once.

        Raises:
            ServerBusy: it does not say so now.
        """
        try:
            return self._bot or await self._introduce()
        except (Unavailable, FabricError) as problem:
            raise ServerBusy(f"Not ready yet: {problem}", hint="Deliver it again.") from None

    async def _poll_forever(self, take: Take) -> None:
        offset, is_free = 0, False

        async def poll() -> None:
            nonlocal offset, is_free
            bot = self._bot or await self._introduce()
            if not is_free:  # a webhook would take the updates instead; it goes, and what waits stays
                await self._ask(wire.Method("deleteWebhook", {"drop_pending_updates": False}))
                is_free = True
            updates = await self._poll(offset)
            # Nothing is acknowledged before it is durable: the next poll, with the new offset, is what does it.
            if inbound := wire.read_updates(updates, bot):
                await take(inbound)
            offset = wire.next_offset(updates, offset)
            self._link.note_heard()

        # A connection that Telegram still holds open would get the next poll a 409.
        await self._link.keep_on(poll, self._polls.aclose)

    async def send(self, part: Part) -> SendOutcome:
        try:
            method = wire.method_for(part)
        except ValueError:
            return Refused("its address is none of Telegram's")
        try:
            status, answer = await self._call(method)
        except (*FAILURES, FabricError) as problem:
            return self._link.failure(problem)
        return wire.read_outcome(part, status, answer)

    async def trace(self, part: Part) -> SendOutcome:  # noqa: ARG002 - whatever it is
        """Telegram offers no way to find out."""
        return AnswerLost("Telegram does not tell what has arrived")

    async def answer(self, press: ButtonPress, text: str) -> None:
        if not press.answer_id:
            return
        body = {"callback_query_id": press.answer_id, "text": text[:200], "show_alert": bool(text)}
        await self._link.answer_press(self._call(wire.Method("answerCallbackQuery", body)))

    async def download(self, file: InboundFile, *, max_bytes: int) -> bytes | FileProblem:
        """Return a file: its path first, and then its content. The address contains the token, and is never shown."""
        token = await token_of(self._token)
        if isinstance(token, FileProblem):
            return token
        try:
            status, answer = await self._call(wire.Method("getFile", {"file_id": file.file_id}))
        except (*FAILURES, FabricError) as problem:
            return FileProblem(self._link.failure(problem).problem, may_pass=True)
        path = wire.read_file_path(answer)
        if path is None:
            said = answer.get("description", "") if isinstance(answer, Mapping) else ""
            return FileProblem(f"Telegram answered {status} {str(said)[:100]}", may_pass=status == 429 or status >= 500)
        return await self._link.call.download(f"{self._base}/file/bot{token}/{path}", {}, max_bytes=max_bytes)

    async def aclose(self) -> None:
        await self._polls.aclose()
        await self._link.call.aclose()

    async def _watch_webhook(self, webhook: TelegramWebhook) -> None:
        """Tell Telegram where to deliver, and look now and then whether it does."""
        is_set = False

        async def look() -> None:
            nonlocal is_set
            if self._bot is None:
                await self._introduce()
            if not is_set:
                wanted: dict[str, Any] = {"url": webhook.url, "secret_token": _check(await webhook.secret())}
                wanted |= {"allowed_updates": list(wire.ALLOWED_UPDATES), "drop_pending_updates": False}
                await self._ask(wire.Method("setWebhook", wanted))
            info = await self._ask(wire.Method("getWebhookInfo", {}))
            is_set = isinstance(info, Mapping) and info.get("url") == webhook.url
            problem = wire.delivery_problem(info, since=self._clock.now() - 2 * CHECK_EVERY_S)
            if not is_set:
                problem = "another program has taken the webhook of this token; only one may"
            if problem:
                self._link.note_waiting(problem)
            else:
                self._link.note_heard()
            await self._clock.sleep(CHECK_EVERY_S)

        await self._link.keep_on(look)

    async def _introduce(self) -> wire.Bot:
        result = await self._ask(wire.Method("getMe", {}))
        if not isinstance(result, Mapping) or not result.get("id"):
            raise Unavailable("Telegram does not say who we are")
        bot = self._bot = wire.Bot(str(result.get("id", "")), str(result.get("username", "")))
        self.status.account, self.status.name = bot.id, bot.username
        return bot

    async def _poll(self, offset: int) -> list[Any]:
        body: dict[str, Any] = {"timeout": self._poll_s, "allowed_updates": list(wire.ALLOWED_UPDATES), "limit": 100}
        if offset:
            body["offset"] = offset
        result = await self._ask(wire.Method("getUpdates", body), timeout_s=self._poll_s + POLL_GRACE_S)
        return result if isinstance(result, list) else []

    async def _ask(self, method: wire.Method, *, timeout_s: float | None = None) -> Any:
        """Return the result of a method.

        Raises:
            ConfigError: the token is refused.
            Unavailable: it could not be asked, or wants to be asked later.
        """
        try:
            status, answer = await self._call(method, timeout_s=timeout_s)
        except FAILURES as problem:
            raise self._link.no_answer(problem) from None
        if isinstance(answer, Mapping) and answer.get("ok") is True:
            return answer.get("result")
        if status in _REFUSED:
            raise self._refusal()
        if status == 429:
            await self._clock.sleep(wire.told_to_wait_s(answer))
        if status == 409:
            raise Unavailable("another program polls with this token (409); only one may")
        said = str(answer.get("description", ""))[:200] if isinstance(answer, Mapping) else ""
        raise Unavailable(f"Telegram answered {status} {said}".rstrip())

    async def _call(self, method: wire.Method, *, timeout_s: float | None = None) -> tuple[int, Any]:
        token = await self._token()
        arguments: dict[str, Any] = {"json": dict(method.body)}
        if method.file is not None:
            form = aiohttp.FormData()
            for name, value in method.body.items():
                form.add_field(name, value if isinstance(value, str) else json.dumps(value))
            document = method.file
            form.add_field("document", document.content, filename=document.name, content_type=document.media_type)
            arguments = {"data": form}
        # What is sent gets a connection of its own.
        calls = self._polls if method.name in _POLLS else self._link.call
        url = f"{self._base}/bot{token}/{method.name}"
        status, _, answer = await calls("POST", url, {}, timeout_s=timeout_s, **arguments)
        if answer is None:
            raise ValueError("the answer is not JSON")
        return status, answer

    def _refusal(self) -> ConfigError:
        hint = "Get a token from @BotFather (/mybots, API Token), set it as `channels.telegram.token`, restart."
        refused = ConfigError("Telegram refuses the token", hint=hint)
        self.status.state, self.status.problem, self.status.hint = ChannelState.REFUSED, refused.message, hint
        return refused


def _check(secret: str) -> str:
    """Return the secret of a webhook.

    Raises:
        ConfigError: Telegram would not take it, or it can be guessed.
    """
    is_taken = re.fullmatch(r"[A-Za-z0-9_-]{1,256}", secret) is not None
    problem = weakness(secret.encode(), shortest=MIN_SECRET_BYTES) if is_taken else "has characters that are not taken"
    if problem:
        hint = "Make one with `openssl rand -hex 32`, set it as `channels.telegram.webhook_secret`, restart."
        raise ConfigError(f"The secret of Telegram's webhook {problem}", hint=hint)
    return secret
