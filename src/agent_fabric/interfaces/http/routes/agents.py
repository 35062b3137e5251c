"""Agents: which there are, and what they take; and running one."""

import asyncio
from functools import partial
from typing import Annotated

from fastapi import FastAPI, Path, Request
from starlette.responses import Response

from agent_fabric.application.agents.brief_agent import brief_for
from agent_fabric.application.agents.run_agent import worth_another_attempt
from agent_fabric.application.runs.dispatch_runs import Drive
from agent_fabric.bootstrap.agents import task_for_agent
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.runs.task import Task
from agent_fabric.infrastructure.threads import on_own_thread
from agent_fabric.interfaces.agent_views import agent_line, agent_object
from agent_fabric.interfaces.http.agent_schemas import AgentDetails, AgentInputs, AgentList
from agent_fabric.interfaces.http.bodies import body_of
from agent_fabric.interfaces.http.openapi import problems, takes
from agent_fabric.interfaces.http.routes.runs import json_answer, outcome_of
from agent_fabric.interfaces.http.schemas import Result

NamePath = Annotated[str, Path(description="The name of an agent.")]


def add_agents(app: FastAPI, fabric: ServerFabric) -> None:
    """Add the routes. Files are looked at with every request, so that a change counts at once."""

    @app.get("/api/v1/agents", summary="List agents", response_model=AgentList, tags=["agents"])
    async def list_agents() -> Response:
        """Files that are wrong are among them, and say why."""
        found = await on_own_thread(fabric.agents.all)
        return json_answer({"agents": [agent_line(each) for each in found]})

    @app.get(
        "/api/v1/agents/{name}",
        summary="Show an agent",
        response_model=AgentDetails,
        responses=problems(404),
        tags=["agents"],
    )
    async def show(name: NamePath) -> Response:
        """Tell what it takes, what it gives, and what it may do."""
        return json_answer(agent_object(await on_own_thread(lambda: fabric.agents.find(name))))

    @app.post(
        "/api/v1/agents/{name}/run",
        summary="Run an agent and wait for its result",
        response_model=Result,
        responses={
            202: {"model": Result, "description": "The run has not ended: it waits for somebody."},
            **problems(404, 413, 415, 503, 507),
        },
        openapi_extra=takes(AgentInputs, required=False),
        tags=["agents"],
    )
    async def run(request: Request, name: NamePath) -> Response:
        """The body is the object of inputs. The run goes on when the client leaves, but is then not tried again."""
        inputs = await body_of(request, AgentInputs, absent=AgentInputs({}))
        agent = await on_own_thread(lambda: fabric.agents.get(name))
        brief = brief_for(agent, inputs.root)
        task = task_for_agent(fabric.config, brief)
        drive = await _begun(fabric, task)
        for _ in range(brief.retries):
            if not await _failed_for_now(drive):
                break
            drive = await _begun(fabric, task)
        return await outcome_of(fabric, drive)


async def _begun(fabric: ServerFabric, task: Task) -> Drive:
    fabric.require_store()
    drive = await fabric.dispatch(partial(fabric.local.execute_task.create, task))
    assert isinstance(drive, Drive)  # a new run has not settled
    return drive


async def _failed_for_now(drive: Drive) -> bool:
    """Wait for a run, and tell whether another attempt might help."""
    await asyncio.wait([drive.outcome])  # which goes on if we are told to stop waiting
    if drive.outcome.cancelled() or drive.outcome.exception() is not None:
        return False
    return worth_another_attempt(drive.outcome.result())
