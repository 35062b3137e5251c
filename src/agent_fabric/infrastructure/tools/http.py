"""The tool that makes HTTP requests."""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlencode

from agent_fabric.application.ports.http import HttpAnswer, HttpError, HttpRequest, HttpSender
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.tools.json_schema import too_deep
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult, ToolSpec, Trust, object_schema
from agent_fabric.infrastructure.threads import on_own_thread
from agent_fabric.infrastructure.web.charsets import decode
from agent_fabric.infrastructure.web.url_syntax import MAX_URL_CHARS

USUAL_TIMEOUT_S: Final = 60.0
MAX_TIMEOUT_S: Final = 24 * 3600.0
USUAL_BYTES: Final = 5_000_000
MAX_BYTES: Final = 100_000_000
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_QUOTED_CHARS: Final = 500
"""How much of a refusal is told."""
_QUICK_BYTES: Final = 100_000
"""More is read on a thread: it would block the event loop."""
_CLASS: Final = re.compile(r"([1-5])xx", re.IGNORECASE)
_PLAIN: Final = ["string", "number", "boolean", "null"]
_PAIRS: Final = {"type": "object", "additionalProperties": {"anyOf": [{"type": _PLAIN}, {"type": "array"}]}}

HTTP_REQUEST = ToolSpec(
    name="http_request",
    description="Make an HTTP request. A status of 400 or more is an error unless accept_status names it.",
    parameters=object_schema(
        {
            "url": {"type": "string", "minLength": 1, "maxLength": MAX_URL_CHARS},
            "method": {"type": "string", "enum": [*METHODS, *(method.lower() for method in METHODS)]},
            "headers": {"type": "object", "additionalProperties": {"type": ["string", "number"]}},
            "query": {**_PAIRS, "description": "Added to the address"},
            "json": {"description": "Sent as JSON"},
            "body": {"type": "string", "description": "Sent as text"},
            "form": {**_PAIRS, "description": "Sent as a form"},
            "timeout": {"type": "number", "minimum": 0.001, "maximum": MAX_TIMEOUT_S, "description": "In seconds"},
            "accept_status": {
                "anyOf": [{"type": ["integer", "string"]}, {"type": "array", "items": {"type": ["integer", "string"]}}],
                "description": "Statuses that are no error, and redirects that are not followed: 404, or '4xx'",
            },
            "max_bytes": {"type": "integer", "minimum": 1, "maximum": MAX_BYTES},
        },
        ["url"],
    ),
    effect=Effect.LEAVES_SANDBOX,
    timeout_s=MAX_TIMEOUT_S,
    url_argument="url",
    method_argument="method",
    trust=Trust.WEB,
    local_arguments=("method", "query", "timeout", "accept_status", "max_bytes"),  # the query is part of the address
)


class NetworkDisabled(Exception):
    """The run may not use the network."""


@dataclass(frozen=True, slots=True)
class MakeRequest:
    """Tool: make a request that has already been allowed, and return what was answered."""

    sender: HttpSender

    async def __call__(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Make the request within `timeout`, or else within the context's time."""
        if not context.network_allowed:
            raise NetworkDisabled("this run may not use the network")
        given = args.get("accept_status")
        accepted = frozenset(
            each for entry in (given if isinstance(given, list) else [given]) for each in _statuses(entry)
        )
        request = replace(_request(args, accepted), limits=context.limits)
        answer = await self.sender.send(request, timeout_s=_time(args, context))
        text = _text(answer) if len(answer.body) <= _QUICK_BYTES else await on_own_thread(lambda: _text(answer))
        if answer.status >= 400 and answer.status not in accepted:
            said = " ".join(text[: 4 * _QUOTED_CHARS].split())[:_QUOTED_CHARS] if answer.is_text else ""
            reason = f" {answer.reason}" if answer.reason else ""
            raise HttpError(
                f"{request.method} {answer.url[:200]} answered {answer.status}{reason}" + (f": {said}" if said else "")
            )
        return ToolResult(output=_output(answer, text), origin=answer.url[:200])


def _statuses(entry: Any) -> range:
    if entry is None:
        return range(0)
    found = _CLASS.fullmatch(str(entry).strip())
    if found:
        first = 100 * int(found[1])
        return range(first, first + 100)
    try:
        number = int(entry)
    except ValueError:
        number = 0
    if not 100 <= number <= 599:
        raise ValueError(f"'accept_status' has {entry!r}; give statuses such as 404, or '4xx'")
    return range(number, number + 1)


def _request(args: Mapping[str, Any], accepted: frozenset[int]) -> HttpRequest:
    headers = {str(name): _plain(value) for name, value in (args.get("headers") or {}).items()}
    body, content_type = _body(args)
    if body is not None and not any(name.lower() == "content-type" for name in headers):
        headers["Content-Type"] = content_type
    method = str(args.get("method") or ("GET" if body is None else "POST")).upper()
    return HttpRequest(
        url=_with_query(str(args["url"]), args.get("query") or {}),
        method=method,
        headers=headers,
        body=body,
        max_bytes=int(args.get("max_bytes") or USUAL_BYTES),
        stays_at=accepted,
    )


def _body(args: Mapping[str, Any]) -> tuple[bytes | None, str]:
    given = [name for name in ("json", "body", "form") if name in args and (name == "json" or args[name] is not None)]
    if len(given) > 1:
        raise ValueError(f"give one of 'json', 'body' and 'form', not {' and '.join(map(repr, given))}")
    match given:
        case ["json"]:
            return json.dumps(args["json"], ensure_ascii=False).encode(errors="replace"), "application/json"
        case ["form"]:
            return urlencode(_pairs(args["form"]), errors="replace").encode(), "application/x-www-form-urlencoded"
        case ["body"]:
            return str(args["body"]).encode(errors="surrogateescape"), "text/plain; charset=utf-8"
        case _:
            return None, ""


def _with_query(url: str, query: Mapping[str, Any]) -> str:
    added = urlencode(_pairs(query), errors="replace")
    if not added:
        return url
    before, _, _ = url.partition("#")  # what follows is not for the server
    return f"{before}{'&' if '?' in before else '?'}{added}"


def _pairs(given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return names and values as they are sent; a list is sent as one pair for each item, null not at all."""
    return [
        (str(name), _plain(item))
        for name, value in given.items()
        for item in (value if isinstance(value, list) else [value])
        if item is not None
    ]


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _time(args: Mapping[str, Any], context: ToolContext) -> float:
    given = args.get("timeout")
    if given is None:
        # As long as the step may take, if that was said.
        return context.timeout_s if context.timeout_s < MAX_TIMEOUT_S else USUAL_TIMEOUT_S
    return min(float(given), context.timeout_s)


def _text(answer: HttpAnswer) -> str:
    return decode(answer.body, answer.charset) if answer.is_text else base64.b64encode(answer.body).decode()


def _output(answer: HttpAnswer, text: str) -> dict[str, Any]:
    output: dict[str, Any] = {
        "status": answer.status,
        "reason": answer.reason,
        "headers": answer.headers,
        "url": answer.url,
        "body": text,
        "truncated": answer.cut,
    }
    if not answer.is_text:
        output["encoding"] = "base64"
    if answer.is_text and (answer.content_type == "application/json" or answer.content_type.endswith("+json")):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return output  # an expression that needs `json` fails and says so
        if not too_deep(value, text):
            output["json"] = value
    return output
