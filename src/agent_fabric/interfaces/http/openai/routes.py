"""The doors that OpenAI's clients know: each pack, agent and workflow is a model."""

from typing import Annotated

from fastapi import Path
from starlette.responses import Response

from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.openai.chat import add_chat
from agent_fabric.interfaces.http.openai.described import openai_errors
from agent_fabric.interfaces.http.openai.job import Jobs
from agent_fabric.interfaces.http.openai.models import Models
from agent_fabric.interfaces.http.openai.responses import add_responses
from agent_fabric.interfaces.http.openai.schemas import OpenAIModel, OpenAIModels
from agent_fabric.interfaces.http.routing import Routes
from agent_fabric.interfaces.http.runs.live import LiveRuns

ModelId = Annotated[str, Path(description="`pack/NAME` or just NAME, `agent/NAME`, `workflow/NAME`, or `fabric`.")]


def add_openai(routes: Routes, fabric: ServerFabric, live: LiveRuns) -> None:
    """Add the routes."""
    models, jobs = Models(fabric), Jobs(fabric)
    _add_models(routes, models)
    add_chat(routes, fabric, live, models, jobs)
    add_responses(routes, fabric, live, models, jobs)


def _add_models(routes: Routes, models: Models) -> None:
    @routes.get(
        "/v1/models", Scope.RUNS_READ, "List who does tasks, as models", OpenAIModels, also=openai_errors(), head=True
    )
    async def list_models() -> Response:
        """Packs, agents and workflows; `fabric` chooses a pack. Files that are wrong are left out."""
        return json_answer({"object": "list", "data": [models.shown(each) for each in await models.all()]})

    @routes.get("/v1/models/{model:path}", Scope.RUNS_READ, "Show one", OpenAIModel, also=openai_errors(404))
    async def show(model: ModelId) -> Response:
        """Return what it does."""
        return json_answer(models.shown(await models.find(model)))
