"""A stand-in for Discord: REST and gateway on loopback with the documented format of version 10, but nobody behind it.

It has the habits that a client must cope with: a session is resumed from a sequence number or refused, connections are
closed, answers are lost before or after their effect, and a nonce that is known makes no second message.

In a test:

    async with DiscordStandIn() as discord:
        await discord.write("7", "hello")      # a person writes to the bot
        ...                                    # let the channel talk to discord.api_base with discord_standin.TOKEN
        assert discord.texts("7") == ["hi"]
"""

import asyncio
import itertools
import json
import time
from datetime import UTC, datetime
from typing import Any, Final, Self

from aiohttp import WSMsgType, web

from agent_fabric.testing.channel_faults import FaultScript
from agent_fabric.testing.channel_faults import cut as _cut

TOKEN: Final = "stand-in-token-of-no-worth"
BOT, APPLICATION = "4242", "777"
MAX_TEXT: Final = 2_000
_NOBODY: Final = {"discriminator": "0", "avatar": None, "global_name": None}
ME: Final = {"id": BOT, "username": "fabric", "bot": True, **_NOBODY}
_EPOCH_MS: Final = 1_420_070_400_000


class DiscordStandIn:
    """Discord for one bot."""

    def __init__(self, *, heartbeat_ms: int = 41_250) -> None:
        self.port = 0
        self.heartbeat_ms = heartbeat_ms
        self.messages: list[dict[str, Any]] = []
        self.whispers: list[dict[str, Any]] = []
        """What only the one who pressed a button sees."""
        self.deferred: list[str] = []
        """Presses that were acknowledged."""
        self.faults: list[str] = []
        """What happens to the next messages: `cut_before`, `cut_after`, `error`, `throttle`, `spent`, or a status."""
        self.script = FaultScript(_method_of, _throttled)
        """What goes wrong, for any method, in the words that all stand-ins share."""
        self.files: dict[str, bytes] = {}
        """What people have sent."""
        self.opened: list[str] = []
        """How each connection began: `identify` or `resume`."""
        self.keeps_sessions = True
        self.sockets: list[web.WebSocketResponse] = []
        self.inbox: list[dict[str, Any]] = []
        """Messages of people, which REST shows."""
        self._events: list[dict[str, Any]] = []
        self._sessions = itertools.count(1)
        self._ids = itertools.count(1)
        self._runner: web.AppRunner | None = None

    @property
    def api_base(self) -> str:
        """What to set as `channels.discord.api_base`."""
        return f"http://127.0.0.1:{self.port}/api/v10"

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=60 * 1024 * 1024, middlewares=[self.script.middleware])
        app.router.add_get("/attachments/{file}", self._file)
        app.router.add_get("/gateway/", self._link)
        app.router.add_get("/api/v10/gateway/bot", self._gateway)
        app.router.add_get("/api/v10/users/@me", self._me)
        app.router.add_get("/api/v10/oauth2/applications/@me", self._application)
        app.router.add_post("/api/v10/channels/{chat}/messages", self._post)
        app.router.add_get("/api/v10/channels/{chat}/messages", self._history)
        app.router.add_patch("/api/v10/channels/{chat}/messages/{message}", self._edit)
        app.router.add_post("/api/v10/interactions/{id}/{token}/callback", self._defer)
        app.router.add_post("/api/v10/webhooks/{application}/{token}", self._whisper)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.drop()
        if self._runner is not None:
            await self._runner.cleanup()

    def snowflake(self) -> str:
        """Return a new id, larger than those before."""
        return str(((int(time.time() * 1_000) - _EPOCH_MS) << 22) | (next(self._ids) & 0x3FFFFF))

    async def write(self, sender: str, text: str, *, chat: str = "", **more: Any) -> str:
        """Let a person write to the bot directly, or in a channel of a server; return the id of the message."""
        message: dict[str, Any] = {"id": self.snowflake(), "channel_id": chat or f"9{sender}", "content": text}
        message |= {"author": {"id": sender, "username": "person", **_NOBODY}}
        message |= {**_message_fields(), **more}
        self.inbox.append(message)
        await self.dispatch("MESSAGE_CREATE", message if not chat else {**message, "guild_id": "1"})
        return str(message["id"])

    async def share(self, sender: str, name: str, content: bytes, text: str = "", **more: Any) -> str:
        """Let a person send a file to the bot; return the id of the message."""
        file = self.snowflake()
        self.files[file] = content
        url = f"http://127.0.0.1:{self.port}/attachments/{file}"
        shared = {"id": file, "filename": name, "size": len(content), "url": url, "proxy_url": url}
        return await self.write(sender, text, attachments=[shared | more.pop("file", {})], **more)

    async def press(self, sender: str, message: dict[str, Any], label: str, *, data: str | None = None) -> None:
        """Let a person press a button; with `data`, one that they have made up."""
        custom_id = self.buttons(message)[label] if data is None else data
        interaction = {"id": self.snowflake(), "application_id": APPLICATION, "type": 3, "token": f"t{next(self._ids)}"}
        interaction |= {"channel_id": message["channel_id"], "user": {"id": sender}, "version": 1}
        interaction |= {"data": {"custom_id": custom_id, "component_type": 2}, "message": {"id": message["id"]}}
        await self.dispatch("INTERACTION_CREATE", interaction)

    async def dispatch(self, kind: str, data: dict[str, Any]) -> None:
        """Let the gateway tell something; it is kept for those who resume."""
        event = {"op": 0, "t": kind, "s": len(self._events) + 2, "d": data}
        self._events.append(event)
        for socket in self.sockets[-1:]:
            await socket.send_json(event)

    async def drop(self, code: int = 4_000) -> None:
        """Close all connections."""
        for socket in list(self.sockets):
            await socket.close(code=code)

    def texts(self, chat: str) -> list[str]:
        """Return what the bot has sent to a chat."""
        return [each["content"] for each in self.messages if each["channel_id"] == chat]

    def buttons(self, message: dict[str, Any]) -> dict[str, str]:
        """Return what each button of a message carries."""
        rows = message.get("components", [])
        return {each["label"]: each["custom_id"] for row in rows for each in row["components"]}

    async def _gateway(self, request: web.Request) -> web.Response:
        if not _is_ours(request):
            return _json({"message": "401: Unauthorized", "code": 0}, status=401)
        limit = {"total": 1000, "remaining": 999, "reset_after": 1, "max_concurrency": 1}
        url = f"ws://127.0.0.1:{self.port}/gateway"
        return _json({"url": url, "shards": 1, "session_start_limit": limit})

    async def _me(self, request: web.Request) -> web.Response:
        if not _is_ours(request):
            return _json({"message": "401: Unauthorized", "code": 0}, status=401)
        return _json(ME)

    async def _application(self, _: web.Request) -> web.Response:
        about = {"id": APPLICATION, "name": "fabric", "icon": None, "description": "", "verify_key": "", "flags": 0}
        return _json({**about, "bot_public": False, "bot_require_code_grant": False, "owner": ME})

    async def _link(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"op": 10, "d": {"heartbeat_interval": self.heartbeat_ms}})
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    await self._told(socket, message.json())
        finally:
            if socket in self.sockets:
                self.sockets.remove(socket)
        return socket

    async def _told(self, socket: web.WebSocketResponse, said: dict[str, Any]) -> None:
        match said["op"]:
            case 1:
                await socket.send_json({"op": 11})
            case 2 | 6 if said["d"]["token"] != TOKEN:
                await socket.close(code=4_004)
            case 2:
                self.opened.append("identify")
                self._events.clear()
                ready = {"v": 10, "user": ME, "guilds": []}
                ready |= {"session_id": f"s{next(self._sessions)}", "application": {"id": APPLICATION, "flags": 0}}
                ready |= {"resume_gateway_url": f"ws://127.0.0.1:{self.port}/gateway"}
                await socket.send_json({"op": 0, "t": "READY", "s": 1, "d": ready})
                self.sockets.append(socket)
            case 6 if not self.keeps_sessions:
                await socket.send_json({"op": 9, "d": False})
            case 6:
                self.opened.append("resume")
                for event in [each for each in self._events if each["s"] > said["d"]["seq"]]:
                    await socket.send_json(event)
                await socket.send_json({"op": 0, "t": "RESUMED", "s": len(self._events) + 1, "d": {}})
                self.sockets.append(socket)
            case _:
                pass

    async def _post(self, request: web.Request) -> web.StreamResponse:
        if not _is_ours(request):
            return _json({"message": "401: Unauthorized"}, status=401)
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "throttle":
            return _throttled(0.5)
        if fault == "cut_before":
            return _cut(request)
        if fault.isdigit():
            return _json({"message": "no", "code": 50_000}, status=int(fault))
        if fault == "error":
            return web.Response(status=502)
        document, name = b"", ""
        if request.content_type == "application/json":
            body = await request.json()
        else:
            form = await request.post()
            told: Any = form["payload_json"]
            body, file = json.loads(told), form["files[0]"]
            if isinstance(file, web.FileField):
                with file.file:
                    document, name = file.file.read(), file.filename
        if len(body.get("content", "")) > MAX_TEXT:
            return _json({"message": "Invalid Form Body", "code": 50_035}, status=400)
        known = [each for each in self.messages if body.get("enforce_nonce") and each.get("nonce") == body["nonce"]]
        message = known[0] if known else {**body, "id": self.snowflake(), "channel_id": request.match_info["chat"]}
        if not known:
            message |= {"document": document, "file_name": name} if name else {}
            self.messages.append(message)
        if fault == "cut_after":
            return _cut(request)
        headers = {"X-RateLimit-Remaining": "0" if fault == "spent" else "4", "X-RateLimit-Reset-After": "0.5"}
        return _json(_as_message(message), headers=headers)

    async def _history(self, request: web.Request) -> web.Response:
        after = int(request.query.get("after", "0"))
        chat = request.match_info["chat"]
        own = [{key: value for key, value in _as_message(each).items() if key != "nonce"} for each in self.messages]
        there = [each for each in (*self.inbox, *own) if each["channel_id"] == chat and int(each["id"]) > after]
        oldest = sorted(there, key=lambda each: int(each["id"]))[: int(request.query.get("limit", "50"))]
        return _json(oldest[::-1])

    async def _edit(self, request: web.Request) -> web.Response:
        body = await request.json()
        for each in self.messages:
            if each["id"] == request.match_info["message"]:
                each.update(body)
                return _json(_as_message(each))
        return _json({"message": "Unknown Message", "code": 10_008}, status=404)

    async def _file(self, request: web.Request) -> web.Response:
        found = self.files.get(request.match_info["file"])
        return web.Response(status=404) if found is None else web.Response(body=found)

    async def _defer(self, request: web.Request) -> web.Response:
        self.deferred.append(request.match_info["id"])
        return web.Response(status=204)

    async def _whisper(self, request: web.Request) -> web.Response:
        self.whispers.append(await request.json())
        return _json({"id": self.snowflake()})


def _is_ours(request: web.Request) -> bool:
    return request.headers.get("authorization") == f"Bot {TOKEN}"


def _json(body: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """Return an answer whose type is exactly what Discord says; its own clients compare it."""
    data = json.dumps(body).encode()
    return web.Response(body=data, status=status, headers={"Content-Type": "application/json", **(headers or {})})


def _message_fields() -> dict[str, Any]:
    """Return what every message of Discord has."""
    flags = {"tts": False, "mention_everyone": False, "pinned": False}
    lists: dict[str, Any] = {name: [] for name in ("mentions", "mention_roles", "attachments", "embeds")}
    return {"timestamp": datetime.now(UTC).isoformat(), "edited_timestamp": None, "type": 0, **flags, **lists}


def _as_message(sent: dict[str, Any]) -> dict[str, Any]:
    """Return a message of the bot as Discord shows it."""
    shown = {key: value for key, value in sent.items() if key not in {"document", "file_name", "allowed_mentions"}}
    attachments = []
    if name := sent.get("file_name"):
        url = f"https://cdn.discordapp.com/attachments/1/2/{name}"
        attachments.append({"id": "1", "filename": name, "size": len(sent["document"]), "url": url, "proxy_url": url})
    return {**_message_fields(), "author": ME, "components": [], **shown, "attachments": attachments}


def _throttled(seconds: float = 3.0) -> web.Response:
    body = {"message": "You are being rate limited.", "retry_after": seconds, "global": False}
    return _json(body, status=429, headers={"Retry-After": str(max(round(seconds), 1))})


def _method_of(request: web.Request) -> str:
    """Return what a request is about, such as `POST messages`; a file that is fetched is `GET attachments`."""
    known = ("messages", "callback", "webhooks", "attachments", "gateway/bot", "gateway")
    return f"{request.method} {next((name for name in known if name in request.path), '')}"


async def until_linked(discord: DiscordStandIn) -> None:
    """Wait until a client has a session."""
    while not discord.sockets:
        await asyncio.sleep(0.01)
