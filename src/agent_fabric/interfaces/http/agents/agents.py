"""Agents: which there are, and what they take; and running one."""

from dataclasses import replace
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import Path, Query, Request
from pydantic import ConfigDict, RootModel, StringConstraints
from starlette.responses import Response

from agent_fabric.application.agents.agent_task import task_for_agent
from agent_fabric.application.agents.brief_agent import brief_for
from agent_fabric.application.runs.new_task import on_terms
from agent_fabric.bootstrap.agents import ServedAgents
from agent_fabric.bootstrap.server import ServedRuns
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.bodies import RequestBody
from agent_fabric.interfaces.http.locks import who_asks
from agent_fabric.interfaces.http.openai.job import Job
from agent_fabric.interfaces.http.openapi import gives
from agent_fabric.interfaces.http.routing import OptionalBody, Routes
from agent_fabric.interfaces.http.runs.runs import Flag, MaxCost, Pool, ProofRequired, SeenBy, answer_of
from agent_fabric.interfaces.http.runs.starting import start_for
from agent_fabric.interfaces.views.agents import AGENT, AGENTS, CHECKED_AGENTS, AgentList, checked_object
from agent_fabric.wire.results import RESULT
from agent_fabric.wire.runs import STATUS


class AgentInputs(RootModel[dict[str, Any]]):
    """The inputs of an agent by name, as it declares them."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "Ada"}]})


class AgentToCheck(
    RequestBody, example={"file": "greeter.yaml", "text": "name: greeter\nprompts: {system: You greet people.}"}
):
    """A file that is meant to be an agent; without a text, all files that the server has are checked."""

    text: Annotated[str, StringConstraints(max_length=256 * 1024)] | None = None
    """What stands in it."""
    file: Annotated[str, StringConstraints(max_length=4096, pattern=r"^[^\x00]*[^\x00/.]\.(json|yaml|yml|md)$")] = (
        "agent.yaml"
    )
    """What it is called; nothing of this name is read."""


NamePath = Annotated[str, Path(description="The name of an agent.")]
Wait = Annotated[Flag, Query(description="Whether to wait for its result.")]
ModelKey = Annotated[str | None, Query(max_length=200, description="The configured model to use.")]
NetworkAllowed = Annotated[Flag, Query(description="Whether tools may use the network.")]
Encrypt = Annotated[Flag, Query(description="Whether nothing of the run is kept in the clear.")]


def add_agents(routes: Routes, runs: ServedRuns, agents: ServedAgents) -> None:
    """Add the routes."""

    @routes.get("/api/v1/agents", Scope.RUNS_READ, "List agents", AGENTS)
    async def list_agents() -> AgentList:
        """Files that are wrong are among them, and say why."""
        return AgentList(await agents.list(), agents.folders)

    @routes.post("/api/v1/agents/validate", Scope.RUNS_READ, "Check files of agents", CHECKED_AGENTS)
    async def validate(wish: OptionalBody[AgentToCheck]) -> Response:
        """The same as `fabric agents validate --json`: every problem with its line. Nothing is run or kept."""
        if wish.text is None:
            return json_answer(checked_object(await agents.list()))
        return json_answer(checked_object([await agents.check_text(FilePath(wish.file), wish.text)]))

    @routes.get("/api/v1/agents/{name}", Scope.RUNS_READ, "Show an agent", AGENT, fails=[404])
    async def show(name: NamePath) -> Response:
        """Return its inputs, its outputs and its capabilities."""
        return json_answer(AGENT.dump(await agents.find(name)))

    @routes.post(
        "/api/v1/agents/{name}/run",
        Scope.WORKFLOWS,
        "Run an agent and wait for its result",
        RESULT,
        fails=[404, 503, 507],
        also=gives(
            RESULT,
            STATUS,
            status=202,
            text="Not ended: it waits for an answer or a signal, or `wait` is false. This is its id.",
        ),
    )
    async def run(  # noqa: PLR0913, PLR0917 - as `POST /run` takes them
        inputs: OptionalBody[AgentInputs],
        request: Request,
        name: NamePath,
        wait: Wait = True,
        model_key: ModelKey = None,
        network_allowed: NetworkAllowed = True,
        encrypt: Encrypt = False,
        visibility: SeenBy = None,
        pool: Pool = None,
        require_proof: ProofRequired = False,
        max_cost: MaxCost = None,
    ) -> Response:
        """The body is the object of inputs. The run continues when the client leaves, but is then not tried again.

        With `wait=false` the answer comes at once, with `run_id`; nothing is tried again then either.
        """
        agent = await agents.get(name)
        brief = brief_for(agent, inputs.root)
        task = task_for_agent(runs.config, brief, model_key=model_key, network_allowed=network_allowed)
        task = replace(task, encrypted=task.encrypted or encrypt, visibility=visibility, pool=pool or "")
        task = on_terms(runs.config, task, require_proof=require_proof, max_cost=max_cost)
        task = task.asked_by(who_asks(request))
        started = await start_for(runs.start, request, task)
        if not wait:
            status = started.status if isinstance(started, RunResult) else RunStatus.RUNNING
            shown = {"run_id": started.run_id, "status": status}
            return json_answer(shown, 202, {"location": f"/runs/{started.run_id}"})
        return answer_of(runs, await Job(runs, request, name, task, started).result())
