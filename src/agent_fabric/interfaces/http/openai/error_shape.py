"""Errors as clients of OpenAI's API know them: one object, with a `code` for programs and words for people."""

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

PREFIX = "/v1/"
"""Below this, everything speaks OpenAI's language, also what goes wrong."""
RUN_ID_HEADER = "x-fabric-run-id"

_TYPES: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
}
_CODES: Mapping[str, str] = {
    "unauthenticated": "invalid_api_key",
    "too_many_requests": "rate_limit_exceeded",
}
"""What clients call errors that they look for; all others keep our name."""
_OF_PYDANTIC = "invalid_value"
_OURS = frozenset({"unsupported_parameter", "unsupported_content", "context_length_exceeded"})
"""Kinds of wrong fields that have a code of their own."""


def openai_error(problem: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """Return a problem as `{"error": {…}}`.

    What is wrong with a body is 400 to these clients. An error about a run that exists says that asking again makes
    another run: the official client would try any other error of a server three times.
    """
    status = 400 if problem["status"] == 422 else problem["status"]
    run_id = problem.get("run_id")
    more = {**(headers or {})}
    shown: dict[str, Any] = {"error": error_object(problem)}
    if run_id is not None:
        more |= {RUN_ID_HEADER: run_id, "x-should-retry": "false"}
        shown["fabric"] = {"run_id": run_id, "status": problem.get("run_status")}
    return Response(json.dumps(shown), status, more, media_type="application/json")


def error_object(problem: Mapping[str, Any]) -> dict[str, Any]:
    """Return what stands under `error`."""
    status, code = problem["status"], problem["code"]
    message, hint, param = sentences(problem["detail"], problem["hint"]), problem["hint"], None
    if code == "request_invalid" and problem.get("errors"):
        wrong = [(each["field"].removeprefix("body").strip("."), each) for each in problem["errors"]]
        hint, param = "", wrong[0][0] or None  # each field says what is wrong with it
        code = wrong[0][1]["type"] if wrong[0][1]["type"] in _OURS else _OF_PYDANTIC
        message = "; ".join(f"{field or 'the body'}: {each['message']}" for field, each in wrong[:3])
    return {
        "message": message,
        "type": _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error"),
        "param": param,
        "code": _CODES.get(code, code),
        "hint": hint,
    }


def sentences(detail: str, hint: str) -> str:
    """Put both into one text: most chat programs show nothing else."""
    if not hint:
        return detail
    return f"{detail} {hint}" if detail.endswith((".", "!", "?", ":")) else f"{detail}. {hint}"
