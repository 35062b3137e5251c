"""Slack over Socket Mode, which needs no public address, or over the Events API, which delivers to the server."""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import aiohttp

from agent_fabric.application.ports.channels import ChannelStatus, Take
from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.channels.deliveries import (
    Accepted,
    AnswerLost,
    NotReached,
    Part,
    PartKind,
    Refused,
    SendOutcome,
)
from agent_fabric.domain.channels.files import FileProblem
from agent_fabric.domain.channels.inbound import ButtonPress, Inbound, InboundFile
from agent_fabric.domain.channels.pacing import SLACK_PACES
from agent_fabric.domain.channels.rendering import SLACK
from agent_fabric.domain.errors import ConfigError, FabricError, ServerBusy
from agent_fabric.infrastructure.channels import slack_wire as wire
from agent_fabric.infrastructure.channels.calls import (
    BACK_OFF_S,
    FAILURES,
    REQUEST_TIMEOUT_S,
    PlatformLink,
    Unavailable,
    is_host_of,
    retry_after_s,
    token_of,
)

API_BASE: Final = "https://slack.com/api"
HEARTBEAT_S: Final = 15.0
"""How often the socket is asked whether it lives; one that fell silent is closed."""
TRACE_AFTER_S: Final = 2.0
"""How long a message may take to show up in the history of its chat."""
CHECK_EVERY_S: Final = 60.0
"""How often the token is checked where Slack delivers: nothing else is heard when no one writes."""
CLOCKS_DIFFER_S: Final = 300.0
"""How far Slack's clock and ours may be apart."""
MAX_MESSAGE: Final = 4 * 1024 * 1024
PAGE: Final = 200
"""Messages of a chat that are read at once."""

Known = Callable[[], Awaitable[Mapping[str, str]]]
"""Returns, for each direct chat that is known, the key of what came last."""

_log = logging.getLogger(__name__)


class SlackChannel:
    """Channel over Socket Mode and the Web API, for one workspace.

    Without an app-level token no socket is opened: Slack delivers to the server's door.
    """

    rendering = SLACK
    paces = SLACK_PACES

    def __init__(
        self,
        bot_token: Callable[[], Awaitable[str]],
        app_token: Callable[[], Awaitable[str]] | None,
        clock: Clock,
        known: Known,
        *,
        api_base: str = API_BASE,
        back_off_s: tuple[float, ...] = BACK_OFF_S,
        trace_after_s: float = TRACE_AFTER_S,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        """Connect to nothing yet; tokens are found before every request.

        Slack gives up on an event after a few minutes, so `known` says from where direct chats are read after that.
        """
        self.status = ChannelStatus(wire.CHANNEL)
        self._bot_token, self._app_token = bot_token, app_token
        self._clock = clock
        self._known = known
        self._is_behind = True
        self._base = api_base.rstrip("/")
        self._link = PlatformLink("Slack", self.status, clock, back_off_s=back_off_s, timeout_s=timeout_s)
        self._trace_after_s = trace_after_s
        self._bot: wire.Bot | None = None

    async def receive(self, take: Take) -> None:
        async def listen() -> None:
            if self._app_token is None:
                self._bot = await self._introduce()
                await self._catch_up(take, self._bot)
                self._link.note_heard()
                await self._clock.sleep(CHECK_EVERY_S)
            else:
                self._bot = self._bot or await self._introduce()
                await self._listen(take, self._bot, self._app_token)

        async def fall_behind() -> None:
            self._is_behind = True

        await self._link.keep_on(listen, fall_behind)

    async def identity(self) -> wire.Bot:
        """Return who we are there; Slack is asked once.

        Raises:
            ServerBusy: it does not say so now.
        """
        try:
            self._bot = self._bot or await self._introduce()
        except (Unavailable, FabricError) as problem:
            raise ServerBusy(f"Not ready yet: {problem}", hint="Deliver it again.") from None
        return self._bot

    async def send(self, part: Part) -> SendOutcome:
        try:
            if part.kind is PartKind.FILE:
                return await self._send_file(part)
            method = wire.method_for(part)
            status, headers, answer = await self._call(method.name, json=dict(method.body))
        except (*FAILURES, FabricError) as problem:
            return self._link.failure(problem)
        return wire.read_outcome(status, headers, answer)

    async def trace(self, part: Part) -> SendOutcome:
        await self._clock.sleep(self._trace_after_s)
        since = f"{max(part.next_at - CLOCKS_DIFFER_S, 0):.6f}"
        wanted: dict[str, Any] = {"channel": part.place.chat, "include_all_metadata": "true", "limit": "200"}
        wanted |= {"oldest": since}
        name = "conversations.history"
        if part.place.thread:
            name, wanted = "conversations.replies", {**wanted, "ts": part.place.thread}
        if part.kind is PartKind.FILE:
            return AnswerLost("a file has no mark")
        try:
            _, _, answer = await self._call(name, data=wanted)
        except (*FAILURES, FabricError) as problem:
            return AnswerLost(self._link.failure(problem).problem)
        if not isinstance(answer, Mapping) or answer.get("ok") is not True:
            return AnswerLost("Slack does not show the history of this chat")
        found = wire.part_in_history(answer, part)
        if found is None and answer.get("has_more") is True:
            return AnswerLost("too much was said in this chat since then")
        return NotReached("it is not in the history of the chat") if found is None else Accepted(found)

    async def answer(self, press: ButtonPress, text: str) -> None:
        if not text:
            return
        body = {"channel": press.place.chat, "user": press.sender.id, "text": text, "mrkdwn": False}
        if press.place.thread:
            body["thread_ts"] = press.place.thread
        await self._link.answer_press(self._call("chat.postEphemeral", json=body))

    async def download(self, file: InboundFile, *, max_bytes: int) -> bytes | FileProblem:
        """Return a file; only from Slack itself, since the request carries the token."""
        if not is_host_of(file.file_id, self._base, "files.slack.com"):
            return FileProblem("it is not at Slack")
        token = await token_of(self._bot_token)
        if isinstance(token, FileProblem):
            return token
        headers = {"authorization": f"Bearer {token}"}
        return await self._link.call.download(file.file_id, headers, max_bytes=max_bytes)

    async def aclose(self) -> None:
        await self._link.call.aclose()

    async def _introduce(self) -> wire.Bot:
        answer = await self._ask("auth.test", self._bot_token)
        bot = wire.Bot(str(answer.get("team_id", "")), str(answer.get("user_id", "")))
        self.status.account, self.status.name = bot.account, str(answer.get("user", ""))
        return bot

    async def _listen(self, take: Take, bot: wire.Bot, app_token: Callable[[], Awaitable[str]]) -> None:
        """Take what one socket brings, until Slack wants another one.

        Raises:
            ConfigError: a token is refused.
            Unavailable: there is no socket, or it broke.
        """
        opened = await self._ask("apps.connections.open", app_token)
        try:
            async with self._link.call.session.ws_connect(
                str(opened.get("url", "")), heartbeat=HEARTBEAT_S, max_msg_size=MAX_MESSAGE
            ) as socket:
                await self._catch_up(take, bot)  # before anything newer is taken
                while True:
                    try:
                        message = await socket.receive(timeout=HEARTBEAT_S)
                    except TimeoutError:
                        self._link.note_heard()  # or it would be closed: Slack has answered the last ping
                        continue
                    if message.type is not aiohttp.WSMsgType.TEXT:
                        raise Unavailable("the socket to Slack was closed")
                    envelope = json.loads(message.data)
                    self._link.note_heard()
                    if envelope.get("type") == "disconnect":
                        return
                    if inbound := wire.read_envelope(envelope, bot):
                        await take([inbound])
                    # Nothing is acknowledged before it is durable. Slack delivers it again otherwise.
                    if "envelope_id" in envelope:
                        await socket.send_str(json.dumps({"envelope_id": envelope["envelope_id"]}))
        except FAILURES as problem:
            raise self._link.no_answer(problem) from None

    async def _catch_up(self, take: Take, bot: wire.Bot) -> None:
        """Read what was written to known chats while no one listened; what is known already changes nothing.

        Raises:
            Unavailable: it could not be read to the end.
        """
        if not self._is_behind:
            return
        for chat, key in (await self._known()).items():
            if since := wire.moment_in(key):
                missed = list[Inbound]()
                cursor: str | None = ""
                while cursor is not None:
                    page = await self._history(chat, since, cursor)
                    missed += wire.read_history(page, chat, bot)
                    cursor = wire.next_page(page) or None
                if missed:
                    await take(missed[::-1])
        self._is_behind = False

    async def _history(self, chat: str, since: str, cursor: str) -> Mapping[str, Any]:
        """Return a page of what was written in a chat, the newest first; empty: such as a chat that is gone.

        Raises:
            Unavailable: Slack does not show it now.
        """
        wanted = {"channel": chat, "oldest": since, "limit": str(PAGE), **({"cursor": cursor} if cursor else {})}
        try:
            status, headers, answer = await self._call("conversations.history", data=wanted)
        except FAILURES as problem:
            raise self._link.no_answer(problem) from None
        if isinstance(answer, Mapping) and answer.get("ok") is True:
            return answer
        error = str(answer.get("error", "")) if isinstance(answer, Mapping) else ""
        if status == 429:
            await self._clock.sleep(retry_after_s(headers))
        if not error or error == "ratelimited" or error in wire.UNSURE:
            raise Unavailable(f"Slack does not show what was written meanwhile ({error or status})")
        _log.warning("Slack does not show what was written in %s meanwhile: %s", chat, error[:200])
        return {}

    async def _ask(self, name: str, token: Callable[[], Awaitable[str]]) -> Mapping[str, Any]:
        try:
            status, headers, answer = await self._call(name, token=token, json={})
        except FAILURES as problem:
            raise self._link.no_answer(problem) from None
        if isinstance(answer, Mapping) and answer.get("ok") is True:
            return answer
        error = str(answer.get("error", "")) if isinstance(answer, Mapping) else ""
        if error in wire.REFUSED_TOKENS:
            which = "app_token" if token is self._app_token else "token"
            raise ConfigError(
                f"Slack refuses the token ({error})",
                hint=f"Get it from api.slack.com/apps, set it as `channels.slack.{which}`, restart.",
            )
        if status == 429:
            await self._clock.sleep(retry_after_s(headers))
        raise Unavailable(f"Slack answered {error or status}")

    async def _call(
        self, name: str, *, token: Callable[[], Awaitable[str]] | None = None, **what: Any
    ) -> tuple[int, Mapping[str, str], Any]:
        headers = {"authorization": f"Bearer {await (token or self._bot_token)()}"}
        return await self._link.call("POST", f"{self._base}/{name}", headers, **what)

    async def _send_file(self, part: Part) -> SendOutcome:
        """Upload a file: an address for it, its content, and then the message, which is what may be in doubt."""
        document = part.document
        assert document is not None, "a file is sent with its content"
        wanted = {"filename": document.name, "length": str(len(document.content))}
        try:  # no one sees what was only prepared
            status, headers, place = await self._call("files.getUploadURLExternal", data=wanted)
            outcome = wire.read_outcome(status, headers, place)
            if not isinstance(outcome, Accepted):
                return NotReached(outcome.problem) if isinstance(outcome, AnswerLost) else outcome
            url = str(place.get("upload_url", ""))
            if not is_host_of(url, self._base, "files.slack.com"):
                return Refused("Slack gave no place for the file")
            status, _, _ = await self._link.call("POST", url, {}, data=document.content)
        except FAILURES as problem:
            return NotReached(self._link.failure(problem).problem)
        if status >= 300:
            return NotReached(f"Slack did not take the file: {status}")
        shared: dict[str, Any] = {
            "files": [{"id": str(place.get("file_id", "")), "title": part.plain}],
            "channel_id": part.place.chat,
        }
        if part.place.thread:
            shared["thread_ts"] = part.place.thread
        status, headers, answer = await self._call("files.completeUploadExternal", json=shared)
        return wire.read_outcome(status, headers, answer)
