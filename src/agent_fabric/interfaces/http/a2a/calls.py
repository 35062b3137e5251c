"""Calls: what a body asks for, in which version of the protocol. Pure."""

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

VERSION_HEADER = "a2a-version"
MAX_ID_CHARS = 1_000
_LARGEST_ID = 2**53


class Version(StrEnum):
    """A version of the protocol. A call's method shows which one the caller speaks."""

    V1 = "1.0"
    V03 = "0.3"


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


METHODS: Mapping[str, tuple[Method, Version]] = {
    **{method.value: (method, Version.V1) for method in Method if method is not Method.PUSH},
    "CreateTaskPushNotificationConfig": (Method.PUSH, Version.V1),
    "GetTaskPushNotificationConfig": (Method.PUSH, Version.V1),
    "ListTaskPushNotificationConfigs": (Method.PUSH, Version.V1),
    "DeleteTaskPushNotificationConfig": (Method.PUSH, Version.V1),
    "message/send": (Method.SEND, Version.V03),
    "message/stream": (Method.STREAM, Version.V03),
    "tasks/get": (Method.GET, Version.V03),
    "tasks/list": (Method.LIST, Version.V03),
    "tasks/cancel": (Method.CANCEL, Version.V03),
    "tasks/resubscribe": (Method.SUBSCRIBE, Version.V03),
    "tasks/pushNotificationConfig/set": (Method.PUSH, Version.V03),
    "tasks/pushNotificationConfig/get": (Method.PUSH, Version.V03),
    "tasks/pushNotificationConfig/list": (Method.PUSH, Version.V03),
    "tasks/pushNotificationConfig/delete": (Method.PUSH, Version.V03),
    "agent/getAuthenticatedExtendedCard": (Method.CARD, Version.V03),
}


class Call(NamedTuple):
    """What is asked."""

    id: RpcId
    method: Method
    version: Version
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
        RpcError: it is none, or nobody here knows the method.
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
    if version.strip() and version.strip().partition(".")[0] not in ("0", "1"):
        shown = version.strip()[:20]
        raise RpcError(VERSION_NOT_SUPPORTED, f"Version {shown!r} of A2A is not supported", hint="1.0 and 0.3 are.")
    if name not in METHODS:
        raise RpcError(METHOD_NOT_FOUND, f"There is no method {name[:100]!r}", hint=f"There are: {', '.join(METHODS)}.")
    if not isinstance(params, dict):
        raise RpcError(INVALID_PARAMS, "params must be an object")
    return Call(rpc_id, *METHODS[name], params)
