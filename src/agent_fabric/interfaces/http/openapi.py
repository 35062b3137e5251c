"""What `/openapi.json` says beyond what FastAPI finds out by itself."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.responses import Response

from agent_fabric.interfaces.http.agent_schemas import AgentInputs, AgentToCheck
from agent_fabric.interfaces.http.approval_schemas import ApprovalAnswer
from agent_fabric.interfaces.http.audit_schemas import GarbageRequest
from agent_fabric.interfaces.http.change_schemas import UndoRequest
from agent_fabric.interfaces.http.errors import PROBLEM_TYPE
from agent_fabric.interfaces.http.gate import CANONICAL_PREFIX, SEEDS
from agent_fabric.interfaces.http.identity_schemas import (
    LoginRequest,
    NewKeyRequest,
    NewPassword,
    NewUser,
    OwnPassword,
    TokenRequest,
    UserUpdate,
)
from agent_fabric.interfaces.http.locks import PUBLIC, needs
from agent_fabric.interfaces.http.model_schemas import ProbeRequest
from agent_fabric.interfaces.http.model_server_schemas import ModelServerChange
from agent_fabric.interfaces.http.openai.response_schemas import ResponseRequest
from agent_fabric.interfaces.http.openai.schemas import ChatRequest
from agent_fabric.interfaces.http.operation_schemas import BackupRequest
from agent_fabric.interfaces.http.plain_route import PlainRoute
from agent_fabric.interfaces.http.policy_schemas import CommandToCheck, RulesToTry
from agent_fabric.interfaces.http.reading_page import HEADERS, PAGE
from agent_fabric.interfaces.http.schemas import CancelRequest, Problem, ResumeRequest, RunRequest
from agent_fabric.interfaces.http.secret_schemas import SecretValue
from agent_fabric.interfaces.http.tool_server_schemas import ToolServerToInspect
from agent_fabric.interfaces.http.workflow_schemas import (
    SignalRequest,
    WorkflowInputs,
    WorkflowResumeRequest,
    WorkflowToCheck,
)

_REF = "#/components/schemas/{model}"
_TAKEN: tuple[type[BaseModel], ...] = (
    RunRequest,
    ResumeRequest,
    CancelRequest,
    ModelServerChange,
    ProbeRequest,
    UndoRequest,
    ApprovalAnswer,
    SecretValue,
    AgentInputs,
    AgentToCheck,
    WorkflowInputs,
    SignalRequest,
    WorkflowResumeRequest,
    WorkflowToCheck,
    BackupRequest,
    GarbageRequest,
    CommandToCheck,
    RulesToTry,
    ToolServerToInspect,
    LoginRequest,
    OwnPassword,
    NewUser,
    UserUpdate,
    NewPassword,
    TokenRequest,
    NewKeyRequest,
    ChatRequest,
    ResponseRequest,
)
"""Bodies of routes that read them by themselves."""
EVERYWHERE = (401, 403, 421, 422, 429, 500)
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


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe errors of a route."""
    content = {PROBLEM_TYPE: {"schema": _reference(Problem)}}
    return {status: {"description": HTTPStatus(status).phrase, "content": content} for status in statuses}


def takes(model: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    """Describe the body of a route that reads it by itself."""
    return {"requestBody": {"required": required, "content": {"application/json": {"schema": _reference(model)}}}}


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
        _, answers = models_json_schema([(Problem, "serialization")], ref_template=_REF)
        _, bodies = models_json_schema([(model, "validation") for model in _TAKEN], ref_template=_REF)
        schema["components"]["schemas"] |= answers["$defs"] | bodies["$defs"]
        schema["components"]["securitySchemes"] = _CREDENTIALS
        schema["paths"] |= _below_prefix(schema["paths"])
        return schema


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


def _reference(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _REF.format(model=model.__name__)}
