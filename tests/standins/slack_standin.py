"""A stand-in for Slack: the Web API and Socket Mode on loopback with the documented format, but nobody behind it.

It has the habits that a client must cope with: an envelope comes again until it is acknowledged, a socket is refreshed,
answers are lost before or after their effect, and messages keep their metadata.

In a test:

    async with SlackStandIn() as slack:
        slack.write("U7", "hello")             # a person writes to the app
        ...                                    # let the channel talk to slack.api_base
        assert slack.texts("D7") == ["hi"]
"""

import asyncio
import hmac
import itertools
import json
import time
from typing import Any, Final, Self
from urllib.parse import urlencode

from aiohttp import WSMsgType, web

from agent_fabric.testing.channel_faults import FaultScript
from agent_fabric.testing.channel_faults import cut as _cut

TOKEN: Final = "xoxb-stand-in-of-no-worth"
APP_TOKEN: Final = "xapp-stand-in-of-no-worth"
SIGNING_SECRET: Final = "stand-in-signing-secret-of-no-worth"
TEAM, BOT = "T1", "U0BOT"
MAX_TEXT: Final = 40_000
MAX_SECTION: Final = 3_000
_ONLY_EVENTS: Final = frozenset({"channel", "channel_type", "event_ts"})
"""What an event of a message has, and the history does not."""


class SlackStandIn:
    """Slack for one app in one workspace."""

    def __init__(self) -> None:
        self.port = 0
        self.messages: list[dict[str, Any]] = []
        self.whispers: list[dict[str, Any]] = []
        """What only one person sees."""
        self.faults: dict[str, list[str]] = {}
        """What happens to the next requests of a method: `cut_before`, `cut_after`, `error`, `throttle`, or a name."""
        self.script = FaultScript(_method_of, _throttled)
        """What goes wrong, for any method, in the words that all stand-ins share."""
        self.uploads: dict[str, bytes] = {}
        self.names: dict[str, str] = {}
        """How files are called."""
        self.sockets: list[web.WebSocketResponse] = []
        self.unacknowledged: dict[str, dict[str, Any]] = {}
        self.inbox: list[dict[str, Any]] = []
        """Messages of people, which the history shows."""
        self._numbers = itertools.count(1)
        self._runner: web.AppRunner | None = None

    @property
    def api_base(self) -> str:
        """What to set as `channels.slack.api_base`."""
        return f"http://127.0.0.1:{self.port}/api"

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=60 * 1024 * 1024, middlewares=[self.script.middleware])
        app.router.add_get("/link", self._link)
        app.router.add_post("/api/{method}", self._handle)
        app.router.add_get("/api/{method}", self._handle)
        app.router.add_post("/upload/{file}", self._upload)
        app.router.add_get("/files/{file}", self._file)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        for socket in list(self.sockets):
            await socket.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def write(self, sender: str, text: str, *, chat: str = "", **more: Any) -> str:
        """Let a person write to the app directly, or mention it in a channel; return the `ts`."""
        chat, ts = chat or f"D{sender[1:]}", self._ts()
        direct = chat.startswith("D")
        event: dict[str, Any] = {"type": "message" if direct else "app_mention", "channel": chat, "user": sender}
        event |= {"text": text, "ts": ts, "event_ts": ts, **({"channel_type": "im"} if direct else {}), **more}
        payload: dict[str, Any] = {
            "token": "x",
            "team_id": TEAM,
            "api_app_id": "A1",
            "type": "event_callback",
            "event": event,
        }
        payload |= {"event_id": f"Ev{next(self._numbers)}", "event_time": int(float(ts))}
        self.inbox.append(event)
        await self.deliver("events_api", payload)
        return ts

    async def share(self, sender: str, name: str, content: bytes, text: str = "", **more: Any) -> str:
        """Let a person send a file to the app; return the `ts`."""
        file = f"F{next(self._numbers)}"
        self.uploads[file] = content
        url = f"http://127.0.0.1:{self.port}/files/{file}"
        shared = {"id": file, "name": name, "size": len(content), "mimetype": "application/octet-stream"}
        shared |= {"url_private": url, "url_private_download": url} | more.pop("file", {})
        return await self.write(sender, text, subtype="file_share", files=[shared], **more)

    async def press(self, sender: str, message: dict[str, Any], label: str, *, data: str | None = None) -> None:
        """Let a person press a button; with `data`, one that they have made up."""
        value = self.buttons(message)[label] if data is None else data
        action = {"type": "button", "action_id": "b0", "block_id": "x", "value": value, "action_ts": self._ts()}
        payload: dict[str, Any] = {"type": "block_actions", "user": {"id": sender}, "actions": [action]}
        payload |= {"channel": {"id": message["channel"]}, "trigger_id": f"t{next(self._numbers)}"}
        payload |= {"message": {"ts": message["ts"], "thread_ts": message.get("thread_ts")}}
        await self.deliver("interactive", payload)

    async def deliver(self, kind: str, payload: dict[str, Any]) -> None:
        """Send an envelope, now or when a socket is there; it comes again until it is acknowledged."""
        envelope_id = f"e{next(self._numbers)}"
        envelope = {"envelope_id": envelope_id, "type": kind, "payload": payload, "accepts_response_payload": False}
        self.unacknowledged[envelope_id] = envelope
        for socket in self.sockets[-1:]:
            await socket.send_json(envelope)

    def deliveries(self, *, at: float | None = None) -> list[tuple[dict[str, str], bytes]]:
        """Return what would be delivered to the Events API now, signed: headers and bodies. It waits no more then."""
        waiting, self.unacknowledged = list(self.unacknowledged.values()), {}
        return [self.delivery(each["type"], each["payload"], at=at) for each in waiting]

    def delivery(self, kind: str, payload: dict[str, Any], *, at: float | None = None) -> tuple[dict[str, str], bytes]:
        """Return a signed delivery; presses come as a form."""
        content = "application/json" if kind == "events_api" else "application/x-www-form-urlencoded"
        text = json.dumps(payload)
        body = (text if kind == "events_api" else urlencode({"payload": text})).encode()
        moment = str(int(time.time() if at is None else at))
        signed = hmac.digest(SIGNING_SECRET.encode(), b"v0:%b:%b" % (moment.encode(), body), "sha256").hex()
        headers = {"x-slack-request-timestamp": moment, "x-slack-signature": f"v0={signed}"}
        return {"content-type": content, **headers}, body

    async def refresh(self) -> None:
        """Ask the client for another socket, as Slack does now and then."""
        for socket in list(self.sockets):
            await socket.send_json({"type": "disconnect", "reason": "refresh_requested", "debug_info": {}})

    def texts(self, chat: str) -> list[str]:
        """Return what the app has sent to a chat."""
        return [each["text"] for each in self.messages if each["channel"] == chat]

    def buttons(self, message: dict[str, Any]) -> dict[str, str]:
        """Return what each button of a message carries."""
        elements = [each for block in message.get("blocks", []) for each in block.get("elements", [])]
        return {each["text"]["text"]: each["value"] for each in elements}

    def _ts(self) -> str:
        return f"{time.time():.6f}"

    async def _link(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.sockets.append(socket)
        hello = {"type": "hello", "num_connections": len(self.sockets), "debug_info": {"host": "stand-in"}}
        await socket.send_json(hello | {"connection_info": {"app_id": "A1"}})
        for envelope in list(self.unacknowledged.values()):
            await socket.send_json(envelope)
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    self.unacknowledged.pop(message.json().get("envelope_id", ""), None)
        finally:
            self.sockets.remove(socket)
        return socket

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        wanted = APP_TOKEN if method == "apps.connections.open" else TOKEN
        if request.headers.get("authorization") != f"Bearer {wanted}":
            return web.json_response({"ok": False, "error": "invalid_auth"})
        waiting = self.faults.get(method, [])
        fault = waiting.pop(0) if waiting else ""
        body = await _body(request)
        match fault:
            case "throttle":
                return _throttled("1")
            case "error":
                return web.Response(status=500, text="oops")
            case "cut_before":
                return _cut(request)
            case "" | "cut_after":
                pass
            case named:
                return web.json_response({"ok": False, "error": named})
        answer = self._answer(method, body)
        return _cut(request) if fault else web.json_response(answer)

    def _answer(self, method: str, body: dict[str, Any]) -> dict[str, Any]:
        match method:
            case "auth.test":
                return {"ok": True, "team_id": TEAM, "user_id": BOT, "user": "fabric", "bot_id": "B1"}
            case "apps.connections.open":
                return {"ok": True, "url": f"ws://127.0.0.1:{self.port}/link?ticket=x"}
            case "chat.postMessage":
                return self._post(body)
            case "chat.update":
                for each in self.messages:
                    if (each["channel"], each["ts"]) == (body["channel"], body["ts"]):
                        each |= {"text": body["text"], "blocks": body.get("blocks", [])}
                        return {"ok": True, "ts": body["ts"], "channel": body["channel"]}
                return {"ok": False, "error": "message_not_found"}
            case "chat.postEphemeral":
                self.whispers.append(body)
                return {"ok": True, "message_ts": self._ts()}
            case "conversations.history" | "conversations.replies":
                return self._history(body)
            case "files.getUploadURLExternal":
                name = f"F{next(self._numbers)}"
                self.names[name] = str(body.get("filename", ""))
                return {"ok": True, "file_id": name, "upload_url": f"http://127.0.0.1:{self.port}/upload/{name}"}
            case "files.completeUploadExternal":
                for each in body["files"]:
                    said = {"channel": body["channel_id"], "text": each["title"], "file": each["id"], "ts": self._ts()}
                    self.messages.append(said)
                return {"ok": True, "files": body["files"]}
            case _:
                return {"ok": False, "error": "unknown_method"}

    def _history(self, body: dict[str, Any]) -> dict[str, Any]:
        """Show what was written in a chat, the newest first, in pages."""
        there = [each for each in (*self.inbox, *self.messages) if each["channel"] == body["channel"]]
        there = [each for each in there if float(each["ts"]) > float(body.get("oldest", 0))]
        there.sort(key=lambda each: float(each["ts"]), reverse=True)
        start, size = int(body.get("cursor") or 0), int(body.get("limit", 100))
        shown = [{key: each[key] for key in each if key not in _ONLY_EVENTS} for each in there[start : start + size]]
        more = {"next_cursor": str(start + size)} if start + size < len(there) else {}
        return {"ok": True, "messages": shown, "has_more": bool(more), "response_metadata": more}

    def _post(self, body: dict[str, Any]) -> dict[str, Any]:
        sections = [each["text"]["text"] for each in body.get("blocks", []) if each["type"] == "section"]
        if len(str(body.get("text", ""))) > MAX_TEXT or any(len(each) > MAX_SECTION for each in sections):
            return {"ok": False, "error": "msg_too_long"}
        message = {**body, "ts": self._ts()}
        self.messages.append(message)
        return {"ok": True, "ts": message["ts"], "channel": body["channel"], "message": message}

    async def _upload(self, request: web.Request) -> web.Response:
        content = await request.read()
        if request.content_type == "multipart/form-data":
            field = next(iter((await request.post()).values()))
            assert isinstance(field, web.FileField)
            with field.file:
                content = field.file.read()
        self.uploads[request.match_info["file"]] = content
        return web.Response(text="OK")

    async def _file(self, request: web.Request) -> web.Response:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return web.Response(status=403)
        return web.Response(body=self.uploads.get(request.match_info["file"], b""))


async def _body(request: web.Request) -> dict[str, Any]:
    """Return the arguments of a method: JSON, a form or a query; what is no plain value in those is JSON there."""
    if request.content_type == "application/json" and request.can_read_body:
        found: dict[str, Any] = await request.json()
        return found
    fields = {**request.query, **await request.post()}
    nested = {"files", "metadata", "blocks"} & set(fields)
    return {**fields, **{name: json.loads(str(fields[name])) for name in nested}}


def _throttled(seconds: str = "3") -> web.Response:
    return web.json_response({"ok": False, "error": "ratelimited"}, status=429, headers={"Retry-After": seconds})


def _method_of(request: web.Request) -> str:
    """Return what a request is about; `link` is the socket, `upload` and `files` are contents of files."""
    return request.match_info.get("method") or request.path.split("/")[1]


async def until_linked(slack: SlackStandIn) -> None:
    """Wait until a client has a socket."""
    while not slack.sockets:
        await asyncio.sleep(0.01)
