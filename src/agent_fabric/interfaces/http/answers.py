"""Answers that are JSON."""

from typing import Any

from starlette.responses import Response

from agent_fabric.wire.json_codec import dump_json


def json_answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a value as an answer."""
    return json_bytes(dump_json(value), status, headers)


def json_bytes(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return encoded JSON as an answer."""
    return Response(body, status, headers, media_type="application/json")
