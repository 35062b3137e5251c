"""A stand-in for WhatsApp's Cloud API: real HTTP on loopback with the documented format, but nobody behind it.

In a test:

    async with WhatsAppStandIn() as whatsapp:
        ...                                    # let the channel talk to whatsapp.api_base with whatsapp.token
        headers, body = whatsapp.said("4917", "hello")   # what Meta would deliver, signed
"""

import hmac
import itertools
import json
import time
from typing import Any, Final, Self

from aiohttp import web

from agent_fabric.testing.channel_faults import FaultScript

TOKEN: Final = "stand-in-token-of-no-worth"
APP_SECRET: Final = "stand-in-app-secret-of-no-worth"
NUMBER: Final = "105500"


class WhatsAppStandIn:
    """The Cloud API for one number."""

    def __init__(self) -> None:
        self.token, self.app_secret, self.number = TOKEN, APP_SECRET, NUMBER
        self.api_base = ""
        self.messages: list[dict[str, Any]] = []
        self.faults: list[str] = []
        """What happens to the next messages: `cut_before`, `cut_after`, or the code of an error."""
        self.script = FaultScript(_method_of, lambda: _problem(130_429, 429))
        """What goes wrong, for any method, in the words that all stand-ins share."""
        self.media: dict[str, tuple[str, bytes]] = {}
        """Files that were uploaded, by either side: name and content."""
        self.is_window_closed = False
        """Whether only templates get through."""
        self._ids = itertools.count(1)
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=110 * 1024 * 1024, middlewares=[self.script.middleware])
        app.router.add_post("/{number}/media", self._upload)
        app.router.add_get("/download/{media}", self._file)
        app.router.add_post("/{number}/messages", self._take)
        app.router.add_get("/{number}", self._describe)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.api_base = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def said(self, sender: str, text: str, **more: Any) -> tuple[dict[str, str], bytes]:
        """Return the delivery of a message that somebody wrote: headers and body."""
        message = {"from": sender, "id": f"wamid.in{next(self._ids)}", "timestamp": str(int(time.time()))}
        return self.delivery(messages=[{**message, "type": "text", "text": {"body": text}, **more}])

    def sent_file(self, sender: str, name: str, content: bytes, **more: Any) -> tuple[dict[str, str], bytes]:
        """Return the delivery of a document that somebody sent."""
        media = self._keep(name, content)
        document = {"id": media, "filename": name, "mime_type": "application/octet-stream", "sha256": "x"} | more
        message = {"from": sender, "id": f"wamid.in{next(self._ids)}", "timestamp": str(int(time.time()))}
        return self.delivery(messages=[{**message, "type": "document", "document": document}])

    def reported(self, message: dict[str, Any], status: str, code: int | None = None) -> tuple[dict[str, str], bytes]:
        """Return the delivery of a report about a message of ours."""
        told = {"id": message["id"], "status": status, "recipient_id": message["to"]}
        told |= {"biz_opaque_callback_data": message["biz_opaque_callback_data"], "timestamp": str(int(time.time()))}
        if code is not None:
            told["errors"] = [{"code": code, "title": "Re-engagement message"}]
        return self.delivery(statuses=[told])

    def _keep(self, name: str, content: bytes) -> str:
        media = f"9{next(self._ids):06}"
        self.media[media] = name, content
        return media

    def delivery(self, **value: Any) -> tuple[dict[str, str], bytes]:
        """Return a signed delivery."""
        inner = {"messaging_product": "whatsapp", "metadata": {"phone_number_id": self.number}, **value}
        change = {"field": "messages", "value": inner}
        body = json.dumps({"object": "whatsapp_business_account", "entry": [{"id": "1", "changes": [change]}]}).encode()
        signature = hmac.digest(self.app_secret.encode(), body, "sha256").hex()
        return {"content-type": "application/json", "x-hub-signature-256": f"sha256={signature}"}, body

    async def _upload(self, request: web.Request) -> web.Response:
        if not self._is_ours(request):
            return _problem(190, 401)
        form = await request.post()
        file = form.get("file")
        if form.get("messaging_product") != "whatsapp" or not form.get("type") or not isinstance(file, web.FileField):
            return _problem(100, 400)
        if form["type"] == "application/octet-stream":
            file.file.close()
            return _problem(131_053, 400)  # no such type is taken
        with file.file:
            return web.json_response({"id": self._keep(file.filename, file.file.read())})

    async def _file(self, request: web.Request) -> web.Response:
        found = self.media.get(request.match_info["media"])
        if found is None or request.headers.get("authorization") != f"Bearer {self.token}":
            return web.Response(status=404)
        return web.Response(body=found[1])

    async def _describe(self, request: web.Request) -> web.Response:
        media = request.match_info["number"]
        if media in self.media and request.headers.get("authorization") == f"Bearer {self.token}":
            url, size = f"{self.api_base}/download/{media}", len(self.media[media][1])
            found = {"messaging_product": "whatsapp", "id": media, "url": url, "file_size": size, "sha256": "x"}
            return web.json_response(found | {"mime_type": "application/octet-stream"})
        if not self._is_ours(request):
            return _problem(190, 401)
        return web.json_response({"id": self.number, "display_phone_number": "+49 17 0000000"})

    async def _take(self, request: web.Request) -> web.StreamResponse:
        if not self._is_ours(request):
            return _problem(190, 401)
        fault = self.faults.pop(0) if self.faults else ""
        if fault.isdigit():
            return _problem(int(fault), 400)
        if fault != "cut_before":
            body = await request.json()
            if len(str(body.get("text", {}).get("body", ""))) > 4_096:
                return _problem(100, 400)
            if self.is_window_closed and body.get("type") != "template":
                return _problem(131_047, 400)
            self.messages.append({**body, "id": f"wamid.out{next(self._ids)}"})
        if fault and request.transport is not None:
            request.transport.abort()
        sent = {"messaging_product": "whatsapp", "messages": [{"id": self.messages[-1]["id"]}]} if not fault else {}
        return web.json_response(sent)

    def _is_ours(self, request: web.Request) -> bool:
        right = request.headers.get("authorization") == f"Bearer {self.token}"
        return right and request.match_info["number"] == self.number


def _problem(code: int, status: int) -> web.Response:
    return web.json_response(
        {"error": {"code": code, "message": f"(#{code})", "type": "OAuthException"}}, status=status
    )


def _method_of(request: web.Request) -> str:
    """Return what a request is about, such as `POST messages`; `GET` is the number itself or a file's address."""
    last = request.path.rpartition("/")[2]
    known = "download" if request.path.startswith("/download/") else last if last in {"messages", "media"} else ""
    return f"{request.method} {known}".strip()
