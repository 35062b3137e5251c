"""The doors that OpenAI's clients know: each pack, agent and workflow is a model."""

from typing import Annotated

from fastapi import FastAPI, Path
from starlette.responses import Response

from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.locks import needs
from agent_fabric.interfaces.http.openai.chat import add_chat
from agent_fabric.interfaces.http.openai.described import openai_errors
from agent_fabric.interfaces.http.openai.job import Jobs
from agent_fabric.interfaces.http.openai.models import Models
from agent_fabric.interfaces.http.openai.responses import add_responses
from agent_fabric.interfaces.http.openai.schemas import OpenAIModel, OpenAIModels
from agent_fabric.interfaces.http.runs.live import LiveRuns

ModelId = Annotated[str, Path(description="`pack/NAME` or just NAME, `agent/NAME`, `workflow/NAME`, or `fabric`.")]


def add_openai(app: FastAPI, fabric: ServerFabric, live: LiveRuns) -> None:
    """Add the routes."""
    models, jobs = Models(fabric), Jobs(fabric)
    _add_models(app, models)
    add_chat(app, fabric, live, models, jobs)
    add_responses(app, fabric, live, models, jobs)


def _add_models(app: FastAPI, models: Models) -> None:
    @app.head("/v1/models", include_in_schema=False, openapi_extra=needs(Scope.RUNS_READ))
    @app.get(
        "/v1/models",
        summary="List who does tasks, as models",
        response_model=OpenAIModels,
        responses=openai_errors(),
        openapi_extra=needs(Scope.RUNS_READ),
        tags=["openai"],
    )
    async def list_models() -> Response:
        """Packs, agents and workflows; `fabric` chooses a pack. Files that are wrong are left out."""
        return json_answer({"object": "list", "data": [models.shown(each) for each in await models.all()]})

    @app.get(
        "/v1/models/{model:path}",
        summary="Show one",
        response_model=OpenAIModel,
        responses=openai_errors(404),
        openapi_extra=needs(Scope.RUNS_READ),
        tags=["openai"],
    )
    async def show(model: ModelId) -> Response:
        """Return what it does."""
        return json_answer(models.shown(await models.find(model)))
