"""The tools as an ASGI application, for the server to put behind its gate."""

import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from mcp.server.mcpserver import Context
from mcp.types import INVALID_REQUEST

from agent_fabric.bootstrap.this_machine import LOCAL_PREFIX, is_called_by_run
from agent_fabric.client.fabric_client import FabricClient
from agent_fabric.domain.errors import Forbidden, Unauthenticated
from agent_fabric.domain.identity.principals import UNKNOWN_RUN
from agent_fabric.interfaces.mcp.tools import announced_run, fabric_tools
from agent_fabric.wire.json_codec import dump_json, load_json

Application = Callable[[Any, Any, Any], Awaitable[None]]


def tools_over_http(own_url: str) -> tuple[Application, AbstractAsyncContextManager[None]]:
    """Return the application, and what must be open while it is used.

    Every call stands for itself: nothing is kept between two, so any of several servers can take it.
    """

    def connect(context: "Context[Any, Any]") -> FabricClient:
        token, key = credentials_in(context.headers or {})
        return FabricClient(own_url, token=token, key=key, trust=ourselves, run=announced_run(context))

    def connect_to_answer(context: "Context[Any, Any]") -> FabricClient:
        token, key = credentials_in(context.headers or {})
        if token.startswith(LOCAL_PREFIX) or key.startswith(LOCAL_PREFIX):
            raise Forbidden(
                "The token of the fabric folder answers nothing over MCP",
                hint="Give this client a key of its own: fabric keys create NAME --scope approvals",
            )
        return FabricClient(own_url, token=token, key=key, trust=ourselves, run=run_in(context))

    ourselves = _ourselves()
    tools = fabric_tools(connect, answering=connect_to_answer)
    # It makes the manager. Names and origins are the gate's business, so no host is told.
    tools.streamable_http_app(stateless_http=True, host="")
    manager = tools.session_manager
    return _with_usable_ids(manager.handle_request), manager.run()


def _with_usable_ids(application: Application) -> Application:
    """Refuse calls whose id is neither a text nor a whole number: the library takes them for notices, unanswered."""

    async def check(scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] != "POST":
            await application(scope, receive, send)
            return
        waiting = [await receive()]  # all of it: the gate has read it
        if not _is_id_usable(waiting[0].get("body", b"")):
            await _refuse_id(send)
            return

        async def again() -> Any:
            return waiting.pop() if waiting else await receive()

        await application(scope, again, send)

    return check


def _is_id_usable(body: bytes) -> bool:
    try:
        call = load_json(body)
    except ValueError:
        return True  # it is no call at all, which the library says
    if not isinstance(call, dict) or "method" not in call or "id" not in call:
        return True
    return isinstance(call["id"], str | int) and not isinstance(call["id"], bool)


async def _refuse_id(send: Any) -> None:
    error = {"code": INVALID_REQUEST, "message": "The id of a call must be a text or a whole number"}
    body = dump_json({"jsonrpc": "2.0", "id": None, "error": error})
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 400, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def run_in(context: "Context[Any, Any]") -> str:
    """Return the run that makes a call: announced, or known from the process at the other end; empty: none."""
    if announced := announced_run(context):
        return announced
    request = context.request_context.request
    found = request is not None and is_called_by_run(request.scope.get("client"), request.scope.get("server"))
    return UNKNOWN_RUN if found else ""


def credentials_in(headers: Mapping[str, str]) -> tuple[str, str]:
    """Return the token or the key of the caller; the other is empty.

    Raises:
        Unauthenticated: there is neither. A client without any would find the token of the folder by itself.
    """
    scheme, _, token = headers.get("authorization", "").partition(" ")
    found = token.strip() if scheme.lower() == "bearer" else "", headers.get("x-api-key", "").strip()
    if not any(found):
        raise Unauthenticated("Missing authentication credentials", hint="Send them with every call.")
    return found


def _ourselves() -> ssl.SSLContext:
    """Trust the server at our own address, which is this very process, whatever name its certificate has."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
