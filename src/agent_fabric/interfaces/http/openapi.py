"""What `/openapi.json` says beyond what FastAPI finds out by itself."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Literal

from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from agent_fabric.interfaces.http.errors import PROBLEM_TYPE
from agent_fabric.interfaces.http.gate import CANONICAL_PREFIX, SEEDS
from agent_fabric.interfaces.http.schemas import Problem
from agent_fabric.wire.description import REFERENCE, reference, schemas_of
from agent_fabric.wire.shape import Listing, Shape

Described = type[BaseModel] | Shape[Any] | Listing[Any]
"""What the schema of a body is derived from."""
Responses = Mapping[int | str, dict[str, Any]]
"""Descriptions of answers by their status."""
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
    """A reference to the schema of a body, which is derived when the description is asked for."""

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


def describe(title: str, version: str, text: str, routes: Iterable[APIRoute]) -> dict[str, Any]:
    """Return the description of routes: what FastAPI finds out, and the schemas of bodies."""
    described = [route for route in routes if route.include_in_schema]
    schema = get_openapi(title=title, version=version, description=text, routes=described)
    components = schema.setdefault("components", {})
    components.setdefault("schemas", {}).update(_schemas(described))
    components["securitySchemes"] = _CREDENTIALS
    schema["paths"] |= _below_prefix(schema["paths"])
    return schema


def _schemas(routes: Sequence[APIRoute]) -> dict[str, Any]:
    """Derive the schemas of all bodies that routes refer to."""
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
