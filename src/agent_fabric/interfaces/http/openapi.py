"""What `/openapi.json` says beyond what FastAPI finds out by itself."""

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from agent_fabric.interfaces.http.agent_schemas import AgentInputs
from agent_fabric.interfaces.http.approval_schemas import ApprovalAnswer
from agent_fabric.interfaces.http.change_schemas import UndoRequest
from agent_fabric.interfaces.http.errors import PROBLEM_TYPE
from agent_fabric.interfaces.http.model_server_schemas import ModelServerChange
from agent_fabric.interfaces.http.schemas import CancelRequest, Problem, ResumeRequest, RunRequest
from agent_fabric.interfaces.http.workflow_schemas import SignalRequest, WorkflowInputs, WorkflowResumeRequest

_REF = "#/components/schemas/{model}"
_TAKEN: tuple[type[BaseModel], ...] = (
    RunRequest,
    ResumeRequest,
    CancelRequest,
    ModelServerChange,
    UndoRequest,
    ApprovalAnswer,
    AgentInputs,
    WorkflowInputs,
    SignalRequest,
    WorkflowResumeRequest,
)
"""Bodies of routes that read them by themselves."""
EVERYWHERE = (403, 421, 422, 500)
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

    def setup(self) -> None:
        """Leave out the pages that describe the API for now: routes are tried in their order, and these come last."""

    def add_documentation(self) -> None:
        """Add them."""
        super().setup()

    def openapi(self) -> dict[str, Any]:
        schema = super().openapi()
        _, answers = models_json_schema([(Problem, "serialization")], ref_template=_REF)
        _, bodies = models_json_schema([(model, "validation") for model in _TAKEN], ref_template=_REF)
        schema["components"]["schemas"] |= answers["$defs"] | bodies["$defs"]
        return schema


def _reference(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _REF.format(model=model.__name__)}
