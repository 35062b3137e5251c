"""What `/openapi.json` says about routes that speak OpenAI's language."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Header

from agent_fabric.interfaces.http.openai.schemas import OpenAIError
from agent_fabric.interfaces.http.openapi import EVERYWHERE, STREAM, gives

STREAM_OR_ANSWER: dict[str, Any] = {
    "description": "The answer; with `stream`, Server-Sent Events",
    "content": STREAM["content"],
    "headers": {"X-Fabric-Run-Id": {"description": "The run.", "schema": {"type": "string"}}},
}

Progress = Annotated[
    bool,
    Header(description="The same as `stream_options.include_progress`, for programs that can only add headers."),
]


def openai_errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe errors of a route, with those that every route has."""
    found: dict[int | str, dict[str, Any]] = {}
    for status in sorted({*EVERYWHERE, 400, 401, 429, *statuses}):
        found |= gives(OpenAIError, status=status, text=HTTPStatus(status).phrase)
    return found
