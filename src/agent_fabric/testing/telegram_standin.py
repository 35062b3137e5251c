"""A stand-in for Telegram: real HTTP on loopback with the documented Bot API, but no one behind it.

It has the habits that a client must cope with: updates come again until they are acknowledged by an offset, a second
poll ends the first one with 409, HTML that is not well-formed is refused, texts are counted after parsing, answers are
lost before or after their effect.

In a test:

    async with TelegramStandIn() as telegram:
        telegram.write(7, "hello")            # the person 7 writes to the bot
        ...                                   # let the channel talk to telegram.api_base with telegram.token
        assert telegram.texts(7) == ["hi"]

As a process: `python -m agent_fabric.testing.telegram_standin --port N`; `POST /say` with `{"from": 7, "text": "…"}`
lets a person write, `POST /press` with `{"from": 7, "chat": 7, "message": 3, "label": "Approve"}` presses a button,
`GET /messages` shows what the bot has sent.
"""

import argparse
import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from html.parser import HTMLParser
from typing import Any, Final, Self

from aiohttp import web

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.testing.channel_faults import FaultScript
from agent_fabric.testing.channel_faults import cut as _cut

BOT_ID: Final = 4242
USERNAME: Final = "fabric_test_bot"
TOKEN: Final = f"{BOT_ID}:stand-in-token-of-no-worth"
MAX_TEXT: Final = 4_096
MAX_DOWNLOAD: Final = 20 * 1024 * 1024
_TAGS: Final = frozenset({"b", "i", "s", "u", "code", "pre", "a", "blockquote"})


class Fault(StrEnum):
    """What goes wrong with a request."""

    ERROR = "error"
    """500, and nothing has happened."""
    THROTTLE = "throttle"
    """429 with `retry_after: 1`."""
    CUT_BEFORE = "cut_before"
    """The connection ends, and nothing has happened."""
    CUT_AFTER = "cut_after"
    """The connection ends, and it has happened."""
    SLOW = "slow"
    """The answer takes a second."""
    BLOCKED = "blocked"
    """403: the person has blocked the bot."""


@dataclass(slots=True)
class SentMessage:
    """A message of the bot as the person sees it."""

    message_id: int
    chat: int
    text: str
    """After parsing."""
    buttons: dict[str, str] = field(default_factory=dict)
    """What each label carries."""
    edits: int = 0
    body: Mapping[str, Any] = field(default_factory=dict)
    document: bytes = b""
    file_name: str = ""


class TelegramStandIn:
    """The Bot API for one bot."""

    def __init__(self, *, port: int = 0) -> None:
        self.token = TOKEN
        self.port = port
        self.messages: list[SentMessage] = []
        self.history: list[str] = []
        """Every text that a message ever had, in the order in which they came."""
        self.files: dict[str, bytes] = {}
        """What people have sent, by its path."""
        self.script = FaultScript(_method_of, lambda: _problem(429, "Too Many Requests", {"retry_after": 3}))
        """What goes wrong, for any method, in the words that all stand-ins share."""
        self.answers: list[Mapping[str, Any]] = []
        """What presses were answered with."""
        self.calls: list[str] = []
        self.conflicts = 0
        self.webhook: dict[str, Any] = {}
        """Where the client wants updates to be delivered, as it said."""
        self.delivery_error = ""
        """Why nothing can be delivered there."""
        self.refuses_token = False
        self._faults: defaultdict[str, list[Fault]] = defaultdict(list)
        self._updates: list[dict[str, Any]] = []
        self._next_update = 1_000
        self._next_message = 1
        self._poll: asyncio.Event | None = None
        self._came = asyncio.Event()
        self._runner: web.AppRunner | None = None

    @property
    def api_base(self) -> str:
        """What to set as `channels.telegram.api_base`."""
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=60 * 1024 * 1024, middlewares=[self.script.middleware])
        app.router.add_post("/say", self._say)
        app.router.add_post("/press", self._press)
        app.router.add_get("/messages", self._show)
        app.router.add_get("/file/bot{token}/{path:.*}", self._file)
        app.router.add_route("*", "/bot{token}/{method}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._poll is not None:
            self._poll.set()
        if self._runner is not None:
            await self._runner.cleanup()

    def fail(self, method: str, *faults: Fault) -> None:
        """Let the next requests of a method go wrong, one after another."""
        self._faults[method] += faults

    def write(self, sender: int, text: str, *, chat: int | None = None, **more: Any) -> int:
        """Let a person write; return the number of the update. A negative chat is a group."""
        place = sender if chat is None else chat
        message: dict[str, Any] = {
            "message_id": self._number(),
            "date": int(time.time()),
            "chat": {"id": place, "type": "private" if place > 0 else "supergroup"},
            "from": {"id": sender, "is_bot": False, "first_name": "Person"},
            "text": text,
        }
        if text.startswith("/"):
            message["entities"] = [{"type": "bot_command", "offset": 0, "length": len(text.split(maxsplit=1)[0])}]
        return self.update({"message": message | more})

    def send_file(self, sender: int, name: str, content: bytes, caption: str = "", **more: Any) -> int:
        """Let a person send a document to the bot; return the number of the update."""
        path = f"documents/file_{len(self.files)}.bin"
        self.files[path] = content
        document = {"file_id": path, "file_unique_id": path, "file_name": name, "file_size": len(content)}
        said: dict[str, Any] = {"caption": caption} if caption else {}
        return self.write(sender, "", document=document | more.pop("document", {}), **said, **more)

    def press(self, sender: int, message: SentMessage, label: str, *, data: str | None = None) -> int:
        """Let a person press a button; with `data`, one that they have made up."""
        carried = message.buttons[label] if data is None else data
        shown: dict[str, Any] = {"message_id": message.message_id, "date": int(time.time())}
        shown |= {"chat": {"id": message.chat, "type": "private" if message.chat > 0 else "supergroup"}}
        author = {"id": sender, "is_bot": False, "first_name": "Person"}
        query = {"id": f"q{self._next_update}", "from": author, "message": shown, "chat_instance": "1"}
        return self.update({"callback_query": query | {"data": carried}})

    def update(self, update: Mapping[str, Any]) -> int:
        """Let something come; return its number."""
        number, self._next_update = self._next_update, self._next_update + 1
        self._updates.append({"update_id": number, **update})
        self._came.set()
        return number

    @property
    def waiting(self) -> list[int]:
        """Numbers of the updates that were not acknowledged."""
        return [each["update_id"] for each in self._updates]

    def texts(self, chat: int) -> list[str]:
        """Return what the bot has sent to a chat."""
        return [each.text for each in self.messages if each.chat == chat]

    def _number(self) -> int:
        number, self._next_message = self._next_message, self._next_message + 1
        return number

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        self.calls.append(method)
        if self.refuses_token or request.match_info["token"] != self.token:
            return _problem(401, "Unauthorized")
        fault = self._faults[method].pop(0) if self._faults[method] else None
        match fault:
            case Fault.ERROR:
                return _problem(500, "Internal Server Error")
            case Fault.THROTTLE:
                return _problem(429, "Too Many Requests: retry after 1", {"retry_after": 1})
            case Fault.BLOCKED:
                return _problem(403, "Forbidden: bot was blocked by the user")
            case Fault.CUT_BEFORE:
                return _cut(request)
            case Fault.SLOW:
                await asyncio.sleep(1.0)
            case _:
                pass
        answer = await self._answer(method, await _body(request))
        return _cut(request) if fault is Fault.CUT_AFTER else answer

    async def _answer(self, method: str, body: Mapping[str, Any]) -> web.Response:
        match method:
            case "getMe":
                return _result({"id": BOT_ID, "is_bot": True, "first_name": "Fabric", "username": USERNAME})
            case "setWebhook":
                if not str(body.get("url", "")).startswith("https://"):
                    return _problem(400, "Bad Request: bad webhook: An HTTPS URL must be provided for webhook")
                self.webhook = dict(body)
                return _result(True)
            case "getWebhookInfo":
                info = {"url": self.webhook.get("url", ""), "has_custom_certificate": False}
                info |= {"pending_update_count": len(self._updates)}
                if self.delivery_error:
                    info |= {"last_error_date": int(time.time()), "last_error_message": self.delivery_error}
                return _result(info)
            case "deleteWebhook":
                self.webhook = {}
                if body.get("drop_pending_updates"):
                    self._updates.clear()
                return _result(True)
            case "getUpdates":
                return await self._get_updates(body)
            case "sendMessage" | "sendDocument":
                return self._send(body)
            case "editMessageText":
                return self._edit(body)
            case "getFile":
                path = str(body.get("file_id", ""))
                if path not in self.files:
                    return _problem(400, "Bad Request: wrong file_id or the file is temporarily unavailable")
                if len(self.files[path]) > MAX_DOWNLOAD:
                    return _problem(400, "Bad Request: file is too big")
                return _result({"file_id": path, "file_unique_id": path, "file_path": path})
            case "answerCallbackQuery":
                self.answers.append(body)
                return _result(True)
            case _:
                return _problem(404, "Not Found: method not found")

    def deliveries(self) -> list[tuple[dict[str, str], bytes]]:
        """Return what would be delivered to the webhook now: headers and bodies. It is not waiting any more then."""
        updates, self._updates = self._updates, []
        headers = {"content-type": "application/json"}
        headers |= {"x-telegram-bot-api-secret-token": str(self.webhook.get("secret_token", ""))}
        return [(headers, json.dumps(each).encode()) for each in updates]

    async def _get_updates(self, body: Mapping[str, Any]) -> web.Response:
        offset = int(body.get("offset", 0))
        self._updates = [each for each in self._updates if each["update_id"] >= offset]
        if self._poll is not None:  # the newer poll ends the older one
            self._poll.set()
        ended = self._poll = asyncio.Event()
        deadline = time.monotonic() + float(body.get("timeout", 0))
        try:
            while not self._updates and not ended.is_set() and (left := deadline - time.monotonic()) > 0:
                self._came.clear()
                waits = [asyncio.ensure_future(self._came.wait()), asyncio.ensure_future(ended.wait())]
                await asyncio.wait(waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                for each in waits:
                    each.cancel()
            if ended.is_set():
                self.conflicts += 1
                return _problem(409, "Conflict: terminated by other getUpdates request")
            return _result(self._updates[: int(body.get("limit", 100))])
        finally:
            if self._poll is ended:
                self._poll = None

    def _send(self, body: Mapping[str, Any]) -> web.Response:
        text, problem = _parse(str(body.get("text", "")), str(body.get("parse_mode", "")))
        document, name = body.get("document", (b"", ""))
        if problem:
            return _problem(400, f"Bad Request: can't parse entities: {problem}")
        if not text.strip() and not name:
            return _problem(400, "Bad Request: message text is empty")
        if len(text.encode("utf-16-le")) // 2 > MAX_TEXT:
            return _problem(400, "Bad Request: message is too long")
        buttons = _buttons(body)
        if any(len(data.encode()) > 64 for data in buttons.values()):
            return _problem(400, "Bad Request: BUTTON_DATA_INVALID")
        chat = int(body["chat_id"])
        sent = SentMessage(self._number(), chat, text, buttons, body=body, document=document, file_name=name)
        self.messages.append(sent)
        self.history.append(text)
        return _result(_as_message(sent))

    def _edit(self, body: Mapping[str, Any]) -> web.Response:
        text, problem = _parse(str(body.get("text", "")), str(body.get("parse_mode", "")))
        if problem:
            return _problem(400, f"Bad Request: can't parse entities: {problem}")
        wanted = (int(body["chat_id"]), int(body["message_id"]))
        for each in self.messages:
            if (each.chat, each.message_id) == wanted:
                if (each.text, each.buttons) == (text, _buttons(body)):
                    return _problem(400, "Bad Request: message is not modified")
                each.text, each.buttons, each.edits = text, _buttons(body), each.edits + 1
                self.history.append(text)
                return _result(_as_message(each))
        return _problem(400, "Bad Request: message to edit not found")

    async def _file(self, request: web.Request) -> web.Response:
        path = request.match_info["path"]
        if request.match_info["token"] != self.token or path not in self.files:
            return web.Response(status=404)
        return web.Response(body=self.files[path])

    async def _say(self, request: web.Request) -> web.Response:
        body = await request.json()
        chat = int(body.get("chat", body["from"]))
        return web.json_response({"update_id": self.write(int(body["from"]), str(body["text"]), chat=chat)})

    async def _press(self, request: web.Request) -> web.Response:
        body = await request.json()
        wanted = (int(body["chat"]), int(body["message"]))
        message = next(each for each in self.messages if (each.chat, each.message_id) == wanted)
        number = self.press(int(body["from"]), message, str(body.get("label", "")), data=body.get("data"))
        return web.json_response({"update_id": number})

    async def _show(self, _: web.Request) -> web.Response:
        shown = [
            {"message_id": each.message_id, "chat": each.chat, "text": each.text, "buttons": each.buttons}
            for each in self.messages
        ]
        return web.json_response({"messages": shown, "answers": list(self.answers)})


class _Html(HTMLParser):
    """Reads HTML as strictly as Telegram does."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.open: list[str] = []
        self.problem = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - not checked
        if tag not in _TAGS:
            self.problem = self.problem or f'unsupported start tag "{tag}"'
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.problem = self.problem or f'unexpected end tag "{tag}"'

    def handle_data(self, data: str) -> None:
        self.text += data


def _parse(text: str, mode: str) -> tuple[str, str]:
    """Return a text after parsing, and what is wrong with it."""
    if mode != "HTML":
        return text, ""
    reader = _Html()
    reader.feed(text)
    reader.close()
    if reader.open:
        return reader.text, f'can\'t find end tag corresponding to start tag "{reader.open[-1]}"'
    return reader.text, reader.problem


def _buttons(body: Mapping[str, Any]) -> dict[str, str]:
    markup = body.get("reply_markup") or {}
    rows = markup.get("inline_keyboard", []) if isinstance(markup, Mapping) else []
    return {each["text"]: each["callback_data"] for row in rows for each in row}


async def _body(request: web.Request) -> Mapping[str, Any]:
    if request.content_type == "application/json":
        found = await request.json()
        return found if isinstance(found, Mapping) else {}
    fields: dict[str, Any] = {}
    for name, value in (await request.post()).items():
        fields[name] = (_content(value), value.filename) if isinstance(value, web.FileField) else _field(name, value)
    return fields


def _field(name: str, value: Any) -> Any:
    """Return a field of a form; what is no plain value in the Bot API is JSON there."""
    return json.loads(value) if name in {"reply_markup", "link_preview_options", "reply_parameters"} else value


def _content(field: web.FileField) -> bytes:
    with field.file:
        return field.file.read()


def _method_of(request: web.Request) -> str:
    """Return what a request is about; a file that is fetched is `file`."""
    return request.match_info.get("method") or ("file" if request.path.startswith("/file/") else "")


def _as_message(sent: SentMessage) -> dict[str, Any]:
    """Return a message of the bot as Telegram shows it."""
    chat: dict[str, Any] = {"id": sent.chat, "type": "private", "first_name": "Person"}
    if sent.chat < 0:
        chat = {"id": sent.chat, "type": "supergroup", "title": "Group"}
    shown: dict[str, Any] = {"message_id": sent.message_id, "date": int(time.time()), "chat": chat}
    shown["from"] = {"id": BOT_ID, "is_bot": True, "first_name": "Fabric", "username": USERNAME}
    if sent.file_name:
        file = f"sent_{sent.message_id}"
        return shown | {"document": {"file_id": file, "file_unique_id": file, "file_name": sent.file_name}}
    return shown | {"text": sent.text}


def _result(result: Any) -> web.Response:
    return web.json_response({"ok": True, "result": result})


def _problem(code: int, description: str, parameters: Mapping[str, Any] | None = None) -> web.Response:
    body: dict[str, Any] = {"ok": False, "error_code": code, "description": description}
    if parameters:
        body["parameters"] = parameters
    return web.json_response(body, status=code)


async def _serve(port: int) -> None:
    async with TelegramStandIn(port=port) as telegram:
        print(json.dumps({"api_base": telegram.api_base, "token": telegram.token}), flush=True)  # noqa: T201 - for the parent process
        await asyncio.Event().wait()


if __name__ == "__main__":
    options = argparse.ArgumentParser(description="A stand-in for Telegram's Bot API on loopback.")
    options.add_argument("--port", type=int, default=0)
    asyncio.run(_serve(options.parse_args().port))
