"""Errors as JSON-RPC and the A2A protocol know them: a number for programs, words for people. Pure."""

import json
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from starlette.responses import Response

from agent_fabric.interfaces.http.openai.error_shape import sentences

PATH = "/a2a"
"""Here, everything speaks JSON-RPC, also what goes wrong."""


class Code(IntEnum):
    """Numbers of errors; their names are the protocol's reasons."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    TASK_NOT_FOUND = -32001
    TASK_NOT_CANCELABLE = -32002
    PUSH_NOTIFICATION_NOT_SUPPORTED = -32003
    UNSUPPORTED_OPERATION = -32004
    CONTENT_TYPE_NOT_SUPPORTED = -32005
    EXTENDED_AGENT_CARD_NOT_CONFIGURED = -32007
    VERSION_NOT_SUPPORTED = -32009
    REFUSED = -32000
    """Not now, or not for you: the HTTP status says which."""


_ABOUT_THE_PARAMS = frozenset({404, 422})
_ABOUT_THE_CALLER = frozenset({401, 403, 409, 429})

RpcId = str | int | None
"""What an answer repeats, so that the caller knows what it answers."""


class RpcError(Exception):
    """A call that cannot be answered, in the protocol's own terms."""

    def __init__(self, code: Code, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


def error_answer(rpc_id: RpcId, code: Code, message: str, more: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the answer to a call that failed; `more` is for programs."""
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": code.name,
        "domain": "a2a-protocol.org",
        "metadata": {name: value for name, value in (more or {}).items() if value},
    }
    return {"jsonrpc": "2.0", "id": rpc_id, "error": {"code": code.value, "message": message, "data": [info]}}


def refused_call(rpc_id: RpcId, error: RpcError) -> dict[str, Any]:
    """Return an error of the protocol as an answer."""
    return error_answer(rpc_id, error.code, sentences(error.message, error.hint), {"hint": error.hint})


def problem_answer(problem: Mapping[str, Any], rpc_id: RpcId = None) -> dict[str, Any]:
    """Return a problem of ours as an answer."""
    more = {"code": problem["code"], "hint": problem["hint"], "run_id": problem.get("run_id", "")}
    return error_answer(rpc_id, code_for(problem), sentences(problem["detail"], problem["hint"]), more)


def refused_request(problem: Mapping[str, Any], headers: Mapping[str, str] | None) -> Response:
    """Return why a request did not even reach a method; its id is not known."""
    # Not orjson: what a client sent comes back here, and may be no valid text.
    return Response(json.dumps(problem_answer(problem)), problem["status"], headers, media_type="application/json")


def code_for(problem: Mapping[str, Any]) -> Code:
    """Return the number of a problem of ours."""
    status = problem["status"]
    if problem["code"] == "run_not_found":
        return Code.TASK_NOT_FOUND
    if status >= 500:
        return Code.INTERNAL_ERROR
    if status in _ABOUT_THE_PARAMS:
        return Code.INVALID_PARAMS
    return Code.REFUSED if status in _ABOUT_THE_CALLER else Code.INVALID_REQUEST


def status_for(problem: Mapping[str, Any]) -> int:
    """Return the HTTP status of a call that reached a method.

    What is wrong with the call itself is JSON-RPC's business: 200. Whether a caller may, and may now, is HTTP's, so
    that proxies see it, and clients know when to ask again.
    """
    return int(problem["status"]) if code_for(problem) in (Code.REFUSED, Code.INTERNAL_ERROR) else 200
