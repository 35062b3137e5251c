"""One line for each HTTP request, when it is over; and an id that ties together all that is logged about it."""

import random
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_fabric.application.ports.operations import OperationsLog
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.secrets.references import REDACTED
from agent_fabric.infrastructure.observability.operations_log import bind, operations_log, unbind

Count = Callable[[str, str, int, float], None]
"""Takes the method, the route, the status and the seconds of every answer."""

_HEADER: Final = b"x-request-id"
_CLIENT_LEFT: Final = 499
"""What is logged as status of a request whose caller left before the answer began."""
_TEMPORARY: Final = frozenset({503, 507})
"""Too much to do, stopping, or a full disk: to be known, but no fault of ours."""
_ACCEPTABLE: Final = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_QUIET: Final = frozenset({"/health", "/ready", "/metrics", "/api/v1/health", "/api/v1/ready", "/api/v1/metrics"})
"""Asked every few seconds by monitoring; only worth a line when it goes wrong."""


class AccessLog:
    """ASGI application around another one, which should be the whole of it: then errors are seen as they are answered.

    The id of a request is the caller's `X-Request-Id` if that is a plain one, and otherwise a new one. It is sent back,
    and it is on every line that is logged while the request is served, also on the server's own about an error.
    """

    def __init__(self, app: ASGIApp, log: OperationsLog | None = None, *, count: Count | None = None) -> None:
        self._app = app
        self._count = count
        self._log = log or operations_log("http")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        path = scope["path"]  # as it came: routing may change it
        answer = _Answer()
        bind(request_id=request_id)
        started = time.perf_counter()

        async def watched_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                headers = [each for each in message.get("headers", ()) if each[0].lower() != _HEADER]
                message = {**message, "headers": [*headers, (_HEADER, request_id.encode())]}
            await send(message)
            if message["type"] == "http.response.body":
                answer.bytes += len(message.get("body", b""))
                answer.whole = not message.get("more_body", False)

        try:
            await self._app(scope, receive, watched_send)
        except Exception:
            answer.failed = True
            raise
        finally:
            self._write(scope, path, answer, request_id=request_id, seconds=time.perf_counter() - started)
            if not answer.failed:  # otherwise the server logs the traceback next
                unbind("request_id", "run_id")

    def _write(self, scope: Scope, path: str, answer: "_Answer", *, request_id: str, seconds: float) -> None:
        status = answer.status or (500 if answer.failed else _CLIENT_LEFT)
        if self._count is not None:
            # An unknown path has no route, and a client could make up as many paths and methods as it likes.
            route = getattr(scope.get("route"), "path", None)
            method = scope["method"] if route else "-"
            self._count(method, route or "none", status, seconds)
        fields: dict[str, object] = {
            "method": scope["method"],
            "path": _template(path, scope.get("path_params") or {}),
            "status": status,
            "duration_ms": round(1000 * seconds, 1),
            "bytes": answer.bytes,
            "client": scope["client"][0] if scope.get("client") else None,
            "request_id": request_id,
        }
        if user := scope.get("state", {}).get("user"):  # the gate has found out who asks
            fields["user"] = user.id
        if query := _names_of(scope.get("query_string", b"")):
            fields["query"] = query
        if run_id := (scope.get("path_params") or {}).get("run_id"):
            fields["run_id"] = run_id
        if not answer.whole:
            fields["cut_off"] = True
        if status in _TEMPORARY and (path not in _QUIET or path.endswith("/ready")) and not answer.failed:
            self._log.warning("http_request", **fields)
        elif status >= 500 or answer.failed:
            self._log.error("http_request", **fields)
        elif path in _QUIET:
            self._log.debug("http_request", **fields)
        else:
            self._log.info("http_request", **fields)


@dataclass(slots=True)
class _Answer:
    status: int = 0
    bytes: int = 0
    whole: bool = False
    failed: bool = False


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == _HEADER:
            given: str = value.decode("latin-1")
            if _ACCEPTABLE.fullmatch(given):
                return given
            break
    return f"{random.getrandbits(128):032x}"  # guessing it gains nothing


def _template(path: str, params: Mapping[str, Any]) -> str:
    """Return a path with the names of its parameters in place of their values, as its route was written."""
    rest, done = path, ""
    for name, value in reversed(list(params.items())):
        # From the end: what a prefix happens to have in common with a value comes before it.
        found = re.fullmatch(rf"(.*/){re.escape(str(value))}(/.*)?", rest, re.DOTALL)
        if found is not None:
            rest, done = found[1], f"{{{name}}}{found[2] or ''}{done}"
    return rest + done


def _names_of(query: bytes) -> str:
    """Return a query without its values: they are the caller's business, and may be secrets."""
    parts = [part.partition("=") for part in query.decode("latin-1").split("&") if part]
    return "&".join(f"{name}={REDACTED}" if equals else REDACTED for name, equals, _ in parts[:20])
