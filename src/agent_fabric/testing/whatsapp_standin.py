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

TOKEN: Final = "stand-in-token-of-no-worth"  # noqa: S105 - of no worth
APP_SECRET: Final = "stand-in-app-secret-of-no-worth"  # noqa: S105 - as above
NUMBER: Final = "105500"


class WhatsAppStandIn:
    """The Cloud API for one number."""

    def __init__(self) -> None:
        self.token, self.app_secret, self.number = TOKEN, APP_SECRET, NUMBER
        self.api_base = ""
        self.messages: list[dict[str, Any]] = []
        self.faults: list[str] = []
        """What happens to the next messages: `cut_before`, `cut_after`, or the code of an error."""
        self._ids = itertools.count(1)
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application()
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

    def delivery(self, **value: Any) -> tuple[dict[str, str], bytes]:
        """Return a signed delivery."""
        inner = {"messaging_product": "whatsapp", "metadata": {"phone_number_id": self.number}, **value}
        change = {"field": "messages", "value": inner}
        body = json.dumps({"object": "whatsapp_business_account", "entry": [{"id": "1", "changes": [change]}]}).encode()
        signature = hmac.digest(self.app_secret.encode(), body, "sha256").hex()
        return {"content-type": "application/json", "x-hub-signature-256": f"sha256={signature}"}, body

    async def _describe(self, request: web.Request) -> web.Response:
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
