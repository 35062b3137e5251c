"""The HTTP API: the use cases of the command line, as routes."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.middleware import Middleware

from agent_fabric import __version__
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.interfaces.http import errors
from agent_fabric.interfaces.http.gate import Gate
from agent_fabric.interfaces.http.live import LiveRuns
from agent_fabric.interfaces.http.openapi import EVERYWHERE, DescribedApp, problems
from agent_fabric.interfaces.http.routes.agents import add_agents
from agent_fabric.interfaces.http.routes.approvals import add_approvals
from agent_fabric.interfaces.http.routes.changes import add_changes
from agent_fabric.interfaces.http.routes.health import add_health
from agent_fabric.interfaces.http.routes.model_server import add_model_server
from agent_fabric.interfaces.http.routes.models import add_models
from agent_fabric.interfaces.http.routes.runs import add_runs
from agent_fabric.interfaces.http.routes.search import add_search
from agent_fabric.interfaces.http.routes.workflows import add_workflows
from agent_fabric.interfaces.http.watch import watch

DESCRIPTION = """\
Every task is a run: durable, resumable, and readable while it happens. A run goes on when its client leaves.

Errors are `application/problem+json`, with a `code` for programs and a `hint` for people.
"""


def create_app(fabric: ServerFabric, live: LiveRuns, *, port: int, middleware: Sequence[Middleware] = ()) -> FastAPI:
    """Return the app of a server that listens on `port`; `middleware` sees what the gate lets in."""
    gate = Middleware(Gate, port=port, max_body_bytes=fabric.settings.max_body_bytes)
    app = DescribedApp(
        title="agent-fabric",
        version=__version__,
        description=DESCRIPTION,
        redirect_slashes=False,
        middleware=[gate, *middleware],
        responses=problems(*EVERYWHERE),
        lifespan=lambda _: _lifespan(fabric, live),
        # Traces are made from the events of runs; FastAPI's own would cost every request.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    errors.install(app)
    # No routers: finding a route through them costs as much as most answers.
    add_health(app, fabric)
    add_search(app, fabric)
    add_runs(app, fabric, live)
    add_model_server(app, fabric)
    add_models(app, fabric)
    add_agents(app, fabric)
    add_workflows(app, fabric)
    add_approvals(app, fabric)
    add_changes(app, fabric)
    app.add_documentation()
    return app


@asynccontextmanager
async def _lifespan(fabric: ServerFabric, live: LiveRuns) -> AsyncIterator[None]:
    unfinished = await fabric.catalogue.unfinished()
    fabric.dispatch.expect(unfinished)
    tasks = [
        asyncio.create_task(watch(fabric, live)),
        asyncio.create_task(fabric.take_up(unfinished)),
        asyncio.create_task(fabric.wake_answered_runs()),
    ]
    try:
        yield
    finally:
        live.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await fabric.stop()
        await fabric.aclose()
