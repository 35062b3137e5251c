"""Discord over its gateway: no public address is needed."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import aiohttp

from agent_fabric.application.ports.channels import ChannelStatus, Take
from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.channels.deliveries import Accepted, AnswerLost, NotReached, Part, PartKind, SendOutcome
from agent_fabric.domain.channels.files import FileProblem
from agent_fabric.domain.channels.inbound import ButtonPress, InboundFile
from agent_fabric.domain.channels.pacing import DISCORD_PACES
from agent_fabric.domain.channels.rendering import DISCORD
from agent_fabric.domain.errors import ConfigError, FabricError
from agent_fabric.infrastructure.channels import discord_wire as wire
from agent_fabric.infrastructure.channels.calls import (
    BACK_OFF_S,
    FAILURES,
    REQUEST_TIMEOUT_S,
    PlatformAnswer,
    PlatformLink,
    Unavailable,
    is_host_of,
    retry_after_s,
)

API_BASE: Final = "https://discord.com/api/v10"
HELLO_TIMEOUT_S: Final = 20.0
NONCE_KNOWN_S: Final = 120.0
"""How long a nonce is trusted to be known; Discord says only that it is a few minutes."""
CLOCKS_DIFFER_S: Final = 300.0
"""How far Discord's clock and ours may be apart."""
CATCH_UP: Final = 100
"""Messages of a chat that are read at once, when a session could not be resumed or something is in doubt."""
MAX_MESSAGE: Final = 4 * 1024 * 1024
_HINT: Final = (
    "Get the token from discord.com/developers (Bot, Reset Token), set it as `channels.discord.token`, restart."
)

Known = Callable[[], Awaitable[Mapping[str, str]]]
"""Returns, for each direct chat that is known, the key of the newest message that came. A group cannot be read back:
its messages would look like direct ones."""


class DiscordChannel:
    """Channel over the gateway and the REST API, for one bot.

    What is acknowledged there is a sequence number, and only when a session is resumed. So the number that is kept is
    that of the last event that is durable. When there is nothing to resume, the chats that are known are read.
    """

    rendering = DISCORD
    paces = DISCORD_PACES

    def __init__(
        self,
        token: Callable[[], Awaitable[str]],
        clock: Clock,
        known: Known,
        *,
        api_base: str = API_BASE,
        back_off_s: tuple[float, ...] = BACK_OFF_S,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        """Connect to nothing yet; the token is found before every request."""
        self.status = ChannelStatus(wire.CHANNEL)
        self._token = token
        self._clock = clock
        self._known = known
        self._base = api_base.rstrip("/")
        self._link = PlatformLink("Discord", self.status, clock, back_off_s=back_off_s, timeout_s=timeout_s)
        self._bot: wire.Bot | None = None
        self._session, self._resume_url, self._seq = "", "", 0
        self._answered = True

    async def receive(self, take: Take) -> None:
        await self._link.keep_on(lambda: self._listen(take))

    async def send(self, part: Part) -> SendOutcome:
        request = wire.request_for(part)
        what: dict[str, Any] = {"json": dict(request.body)}
        if part.kind is PartKind.FILE:
            form = aiohttp.FormData()
            form.add_field("payload_json", json.dumps(request.body), content_type="application/json")
            document = part.document
            assert document is not None, "a file is sent with its content"
            form.add_field("files[0]", document.content, filename=document.name, content_type=document.media_type)
            what = {"data": form}
        try:
            status, headers, answer = await self._call(request.method, request.path, **what)
        except (*FAILURES, FabricError) as problem:
            return self._link.failure(problem)
        return wire.read_outcome(status, headers, answer)

    async def trace(self, part: Part) -> SendOutcome:
        """Send it once more: its nonce is known, so Discord returns the message that is there already.

        It is known for a few minutes. After that, a second message would be made, so the chat is read instead.
        """
        if self._clock.now() - part.next_at <= NONCE_KNOWN_S:
            again = await self.send(part)
            # That Discord cannot be reached now says nothing about the first time.
            return AnswerLost(again.problem) if isinstance(again, NotReached) else again
        if self._bot is None:
            return AnswerLost("Discord has not said yet who we are")
        after = wire.id_at(part.next_at - CLOCKS_DIFFER_S)
        path = f"channels/{part.place.chat}/messages?after={after}&limit={CATCH_UP}"
        try:
            status, _, answer = await self._call("GET", path)
        except (*FAILURES, FabricError) as problem:
            return AnswerLost(self._link.failure(problem).problem)
        if status != 200 or not isinstance(answer, list):
            return AnswerLost("Discord does not show the messages of this chat")
        found = wire.part_in_history(answer, part, self._bot)
        if found is None and len(answer) >= CATCH_UP:
            return AnswerLost("too much was said in this chat since then")
        return NotReached("it is not among the messages of the chat") if found is None else Accepted(found)

    async def answer(self, press: ButtonPress, text: str) -> None:
        if not text or self._bot is None or not press.answer_id:
            return
        body = {"content": text[:2_000], "flags": wire.EPHEMERAL, "allowed_mentions": {"parse": []}}
        await self._link.answer_press(
            self._call("POST", f"webhooks/{self._bot.application}/{press.answer_id}", json=body)
        )

    async def download(self, file: InboundFile, *, max_bytes: int) -> bytes | FileProblem:
        """Return a file; only from Discord itself."""
        if not is_host_of(file.file_id, self._base, "cdn.discordapp.com", "media.discordapp.net"):
            return FileProblem("it is not at Discord")
        return await self._link.call.download(file.file_id, {}, max_bytes=max_bytes)

    async def aclose(self) -> None:
        await self._link.call.aclose()

    async def _gateway(self) -> str:
        """Return the address of the gateway.

        Raises:
            ConfigError: the token is refused.
            Unavailable: it could not be asked for.
        """
        try:
            status, headers, answer = await self._call("GET", "gateway/bot")
        except FAILURES as problem:
            raise self._link.no_answer(problem) from None
        if status == 401:
            raise ConfigError("Discord refuses the token", hint=_HINT)
        if status == 429:
            await self._clock.sleep(retry_after_s(headers))
        if status != 200 or not isinstance(answer, Mapping) or not answer.get("url"):
            raise Unavailable(f"Discord answered {status}")
        return str(answer["url"])

    async def _listen(self, take: Take) -> None:
        """Take what one connection brings, until it ends.

        Raises:
            ConfigError: the token or what we want to hear is refused.
            Unavailable: it broke.
        """
        url = (self._resume_url if self._session else "") or await self._gateway()
        token = await self._token()
        try:
            async with self._link.call.session.ws_connect(
                f"{url.rstrip('/')}/?v=10&encoding=json", max_msg_size=MAX_MESSAGE
            ) as socket:
                hello = await self._next(socket, HELLO_TIMEOUT_S)
                if hello.get("op") != wire.HELLO:
                    raise Unavailable("the gateway of Discord did not say hello")
                interval_s = float(hello["d"]["heartbeat_interval"]) / 1_000
                await socket.send_json(self._opening(token))
                self._answered = True
                beating = asyncio.ensure_future(self._beat(socket, interval_s))
                try:
                    while await self._handle(await self._next(socket, 2 * interval_s + HELLO_TIMEOUT_S), socket, take):
                        pass
                finally:
                    beating.cancel()
                    await asyncio.gather(beating, return_exceptions=True)
        except (*FAILURES, KeyError, TypeError) as problem:
            raise self._link.no_answer(problem) from None

    def _opening(self, token: str) -> dict[str, Any]:
        if self._session:
            return {"op": wire.RESUME, "d": {"token": token, "session_id": self._session, "seq": self._seq}}
        properties = {"os": "linux", "browser": "agent-fabric", "device": "agent-fabric"}
        return {"op": wire.IDENTIFY, "d": {"token": token, "intents": wire.INTENTS, "properties": properties}}

    async def _next(self, socket: aiohttp.ClientWebSocketResponse, timeout_s: float) -> dict[str, Any]:
        message = await socket.receive(timeout=timeout_s)
        if message.type is aiohttp.WSMsgType.TEXT:
            self._link.note_heard()
            found: dict[str, Any] = json.loads(message.data)
            return found
        code = socket.close_code or 0
        if code == wire.REFUSED_TOKEN:
            raise ConfigError("Discord refuses the token", hint=_HINT)
        if code in wire.REFUSED_INTENTS:
            raise ConfigError("Discord refuses what the bot wants to hear", hint=_HINT)
        if code in wire.UNRESUMABLE:
            self._session = ""
        raise Unavailable(f"Discord closed the connection ({code})")

    async def _handle(self, event: Mapping[str, Any], socket: aiohttp.ClientWebSocketResponse, take: Take) -> bool:
        """Do what an event of the gateway asks for; False: the connection is to be made again."""
        match event.get("op"):
            case wire.DISPATCH:
                await self._on_dispatch(str(event.get("t", "")), event.get("d"), take)
                self._seq = int(event.get("s") or self._seq)  # after it is durable
            case wire.HEARTBEAT:
                await socket.send_json({"op": wire.HEARTBEAT, "d": self._seq or None})
            case wire.HEARTBEAT_ACK:
                self._answered = True
            case wire.RECONNECT:
                return False
            case wire.INVALID_SESSION:
                if event.get("d") is not True:
                    self._session, self._seq = "", 0
                await self._clock.sleep(1.0)
                return False
            case _:
                pass
        return True

    async def _on_dispatch(self, kind: str, data: Any, take: Take) -> None:
        if not isinstance(data, Mapping):
            return
        if kind == "READY":
            user, application = data["user"], data.get("application") or {}
            self._bot = wire.Bot(str(user["id"]), str(application.get("id", "")))
            self.status.account, self.status.name = self._bot.user, str(user.get("username", ""))
            await self._catch_up(take, self._bot)
            # Only now: a session that is resumed reads no chats, so one that breaks before this is begun again.
            self._session, self._resume_url = str(data["session_id"]), str(data.get("resume_gateway_url") or "")
            return
        if self._bot is None:
            return
        inbound = wire.read_dispatch(kind, data, self._bot)
        if inbound is not None:
            await take([inbound])
        if isinstance(inbound, ButtonPress):  # within three seconds, or it looks broken to the person
            path = f"interactions/{data.get('id')}/{data.get('token')}/callback"
            await self._link.answer_press(self._call("POST", path, json={"type": 6}))

    async def _catch_up(self, take: Take, bot: wire.Bot) -> None:
        """Read what came to known chats while there was no session; what is known already changes nothing.

        Raises:
            Unavailable: it could not be read to the end.
        """
        for chat, newest in (await self._known()).items():
            after: str | None = newest
            while after is not None:
                page = await self._messages(chat, after)
                found = (wire.read_message(each, bot) for each in page)
                if missed := [each for each in found if each is not None]:
                    await take(missed)
                after = str(page[-1].get("id")) if len(page) >= CATCH_UP else None

    async def _messages(self, chat: str, after: str) -> list[Mapping[str, Any]]:
        """Return the messages that follow another one in a chat, the oldest first; none: such as a chat that is gone.

        Raises:
            Unavailable: Discord does not show them now.
        """
        status, headers, answer = await self._call("GET", f"channels/{chat}/messages?after={after}&limit={CATCH_UP}")
        if status == 200 and isinstance(answer, list):
            return [each for each in reversed(answer) if isinstance(each, Mapping)]
        if status == 429:
            await self._clock.sleep(retry_after_s(headers))
        if 400 <= status < 500 and status != 429:
            return []
        raise Unavailable(f"Discord does not show what was written meanwhile ({status})")

    async def _beat(self, socket: aiohttp.ClientWebSocketResponse, interval_s: float) -> None:
        """Show that we live, and close a connection on which Discord does not."""
        while True:
            await self._clock.sleep(interval_s * 0.9)
            if not self._answered:
                await socket.close(code=4_000)
                return
            self._answered = False
            await socket.send_json({"op": wire.HEARTBEAT, "d": self._seq or None})

    async def _call(self, method: str, path: str, **what: Any) -> PlatformAnswer:
        headers = {"authorization": f"Bot {await self._token()}"}
        return await self._link.call(method, f"{self._base}/{path}", headers, **what)
