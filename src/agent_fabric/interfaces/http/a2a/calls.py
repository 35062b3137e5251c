"""Calls: what a body asks for. Pure."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from pydantic_core import from_json

from agent_fabric.interfaces.http.a2a.error_shape import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    VERSION_NOT_SUPPORTED,
    RpcError,
    RpcId,
)

VERSION = "1.0"
"""Of the protocol."""
VERSION_HEADER = "a2a-version"
MAX_ID_CHARS = 1_000
_LARGEST_ID = 2**53


class Method(StrEnum):
    """What can be asked."""

    SEND = "SendMessage"
    STREAM = "SendStreamingMessage"
    GET = "GetTask"
    LIST = "ListTasks"
    CANCEL = "CancelTask"
    SUBSCRIBE = "SubscribeToTask"
    PUSH = "push notifications"
    """All that has to do with them; we have none."""
    CARD = "GetExtendedAgentCard"


METHODS: Mapping[str, Method] = {
    **{method.value: method for method in Method if method is not Method.PUSH},
    "CreateTaskPushNotificationConfig": Method.PUSH,
    "GetTaskPushNotificationConfig": Method.PUSH,
    "ListTaskPushNotificationConfigs": Method.PUSH,
    "DeleteTaskPushNotificationConfig": Method.PUSH,
}


class Call(NamedTuple):
    """What is asked."""

    id: RpcId
    method: Method
    params: Mapping[str, Any]


def body_in(data: bytes) -> Any:
    """Return a body as a value.

    Raises:
        RpcError: it is no JSON.
    """
    try:
        return from_json(data, allow_inf_nan=False)
    except ValueError as problem:
        raise RpcError(PARSE_ERROR, f"The body is no JSON: {problem}") from None


def id_in(body: Any) -> RpcId:
    """Return what an answer to a body repeats; None if it has nothing that can be."""
    found = body.get("id") if isinstance(body, dict) else None
    if isinstance(found, str):
        return found if len(found) <= MAX_ID_CHARS else None
    return found if isinstance(found, int) and not isinstance(found, bool) and abs(found) <= _LARGEST_ID else None


def call_in(body: Any, version: str = "") -> Call:
    """Return the call that a body is; `version` is what the caller says to speak, if anything.

    Raises:
        RpcError: it is none, or there is no such method.
    """
    if isinstance(body, list):
        raise RpcError(INVALID_REQUEST, "Several calls in one request are not supported", hint="Send each alone.")
    if not isinstance(body, dict) or body.get("jsonrpc") != "2.0":
        hint = 'It is one object: {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {…}}'
        raise RpcError(INVALID_REQUEST, "This is no call in JSON-RPC 2.0", hint=hint)
    rpc_id, name, params = id_in(body), body.get("method"), body.get("params", {})
    if rpc_id is None:
        hint = "Choose a text or a whole number: every call is answered here."
        raise RpcError(INVALID_REQUEST, "The id of the call cannot be used, or is missing", hint=hint)
    if not isinstance(name, str):
        raise RpcError(INVALID_REQUEST, "The method of the call is missing, or no text")
    if version.strip() and version.strip().partition(".")[0] != "1":
        shown = version.strip()[:20]
        raise RpcError(VERSION_NOT_SUPPORTED, f"Version {shown!r} of A2A is not supported", hint=f"{VERSION} is.")
    if name not in METHODS:
        raise RpcError(
            METHOD_NOT_FOUND, f"There is no method {name[:100]!r}", hint=f"A2A {VERSION} has: {', '.join(METHODS)}."
        )
    if not isinstance(params, dict):
        raise RpcError(INVALID_PARAMS, "params must be an object")
    return Call(rpc_id, METHODS[name], params)
