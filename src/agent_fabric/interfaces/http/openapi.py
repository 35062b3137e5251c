"""What `/openapi.json` says beyond what FastAPI finds out by itself."""

import json
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Literal

from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.responses import Response

from agent_fabric.domain.identity.principals import Scope
from agent_fabric.interfaces.http.errors import PROBLEM_TYPE
from agent_fabric.interfaces.http.gate import CANONICAL_PREFIX, SEEDS
from agent_fabric.interfaces.http.locks import PUBLIC, needs
from agent_fabric.interfaces.http.plain_route import PlainRoute
from agent_fabric.interfaces.http.reading_page import HEADERS, PAGE
from agent_fabric.interfaces.http.schemas import Problem
from agent_fabric.wire.description import REFERENCE, reference, schemas_of
from agent_fabric.wire.shape import Listing, Shape

Described = type[BaseModel] | Shape[Any] | Listing[Any]
"""What the schema of a body is derived from."""
JSON = "application/json"
UNREADABLE = (413, 415)
"""Statuses of every route that takes JSON."""
EVERYWHERE = (401, 403, 408, 421, 422, 429, 431, 500)
"""Statuses that every route may answer with."""
STREAM: dict[str, Any] = {
    "description": "Server-Sent Events",
    "content": {
        "text/event-stream": {
            "schema": {
                "type": "object",
                "properties": {"id": {"type": "string"}, "event": {"type": "string"}, "data": {"type": "string"}},
                "required": ["data"],
            }
        }
    },
}
"""Describes an answer that is a stream: the shape of each of its events."""


class Reference(dict[str, Any]):
    """A reference to the schema of a body, which is derived when somebody asks for the description."""

    def __init__(self, body: Described) -> None:
        super().__init__(reference(body.__name__ if isinstance(body, type) else body.name))
        self.body = body


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe errors of a route."""
    content = {PROBLEM_TYPE: {"schema": Reference(Problem)}}
    return {status: {"description": HTTPStatus(status).phrase, "content": content} for status in statuses}


def takes(body: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    """Describe the body of a route that reads it by itself."""
    return {"requestBody": {"required": required, "content": {JSON: {"schema": Reference(body)}}}}


def gives(*bodies: Described, status: int = 200, text: str = "Successful Response") -> dict[int | str, dict[str, Any]]:
    """Describe an answer, which has one of these bodies."""
    schemas = [Reference(body) for body in bodies]
    content = {JSON: {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}}
    return {status: {"description": text, "content": content}}


def operation(
    tag: str,
    right: Scope | str,
    summary: str,
    answer: Described | None = None,
    *,
    status: int = 200,
    body: dict[str, Any] | None = None,
    fails: Sequence[int] = (),
    also: Mapping[int | str, dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Describe a route, as arguments for FastAPI: who may use it, what it takes and gives, and how it fails.

    `body` comes from `takes`; answers with another status than the usual one are in `also`.
    """
    usual = {} if answer is None else gives(answer, status=status)
    if also and status in also and usual:  # the same status, with content of another type
        usual[status]["content"] |= also[status]["content"]
        usual[status]["description"] = also[status]["description"]
    takes_json = body is not None and isinstance(body["requestBody"]["content"].get(JSON, {}).get("schema"), Reference)
    return {
        "summary": summary,
        "tags": [tag],
        "status_code": status,
        "response_model": None,
        "responses": {
            **(also or {}),
            **usual,
            **problems(*fails, *(UNREADABLE if takes_json else ())),
        },
        "openapi_extra": needs(right, body),
    }


class DescribedApp(FastAPI):
    """FastAPI that knows the shape of our errors."""

    _described = b""

    def setup(self) -> None:
        """Leave out the pages that describe the API for now: routes are tried in their order, and these come last."""

    def add_documentation(self) -> None:
        """Add them; ours, which load nothing from elsewhere.

        The description is written once: it takes long, and anybody may ask for it.
        """

        async def description(_: Request) -> Response:
            if not self._described:
                self._described = json.dumps(self.openapi(), ensure_ascii=False, separators=(",", ":")).encode()
            return Response(self._described, media_type="application/json")

        async def page(_: Request) -> Response:
            return Response(PAGE, media_type="text/html", headers=HEADERS)

        for path, endpoint in {"/openapi.json": description, "/docs": page, "/redoc": page}.items():
            self.router.add_api_route(
                path,
                endpoint,
                methods=["GET", "HEAD"],
                route_class_override=PlainRoute,
                openapi_extra=needs(PUBLIC),
                response_model=None,
                include_in_schema=False,
            )

    def openapi(self) -> dict[str, Any]:
        schema = super().openapi()
        schema.setdefault("components", {}).setdefault("schemas", {}).update(self._schemas())
        schema["components"]["securitySchemes"] = _CREDENTIALS
        schema["paths"] |= _below_prefix(schema["paths"])
        return schema

    def _schemas(self) -> dict[str, Any]:
        """Derive the schemas of all bodies that routes refer to."""
        routes = [route for route in self.routes if isinstance(route, APIRoute) and route.include_in_schema]
        answers = set(_bodies([route.responses for route in routes]))
        taken = set(_bodies([(route.openapi_extra or {}).get("requestBody") for route in routes]))
        models: list[tuple[Any, Literal["validation", "serialization"]]] = [
            *((each, "serialization") for each in answers if isinstance(each, type)),
            *((each, "validation") for each in taken if isinstance(each, type)),
        ]
        _, known = models_json_schema(sorted(models, key=lambda each: each[0].__name__), ref_template=REFERENCE)
        derived = schemas_of([each for each in answers if not isinstance(each, type)])
        return {**known["$defs"], **derived}


def _bodies(described: Any) -> Iterator[Described]:
    """Find what a description refers to."""
    if isinstance(described, Reference):
        yield described.body
    elif isinstance(described, Mapping | list):
        for each in described.values() if isinstance(described, Mapping) else described:
            yield from _bodies(each)


_CREDENTIALS = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "The local token, a token from a login, or a key."},
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "An API key."},
}


def _below_prefix(paths: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Describe the paths that are older than the prefix below it as well; there, everything is found."""
    return {
        CANONICAL_PREFIX + path: {
            method: {**operation, "operationId": f"{operation['operationId']}_below_prefix"}
            for method, operation in methods.items()
        }
        for path, methods in paths.items()
        if path.split("/")[1] in SEEDS
    }
