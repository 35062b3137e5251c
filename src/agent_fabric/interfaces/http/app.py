"""The HTTP API: the use cases of the command line, as routes."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from fastapi import FastAPI
from starlette.middleware import Middleware

from agent_fabric import __version__
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.interfaces.http import errors
from agent_fabric.interfaces.http.a2a.routes import add_a2a
from agent_fabric.interfaces.http.addresses import Addresses
from agent_fabric.interfaces.http.agents.agents import add_agents
from agent_fabric.interfaces.http.approvals.approvals import add_approvals
from agent_fabric.interfaces.http.audit.audit import add_audit
from agent_fabric.interfaces.http.automation.dead_letters import add_dead_letters
from agent_fabric.interfaces.http.automation.schedules import add_schedules
from agent_fabric.interfaces.http.automation.sensors import add_sensors
from agent_fabric.interfaces.http.automation.subscriptions import add_subscriptions
from agent_fabric.interfaces.http.automation.webhooks import add_webhooks
from agent_fabric.interfaces.http.channels.channels import add_channels
from agent_fabric.interfaces.http.chat.sessions import add_sessions
from agent_fabric.interfaces.http.chat.turns import add_turns
from agent_fabric.interfaces.http.cluster.cluster import add_cluster
from agent_fabric.interfaces.http.evals.evals import add_evals
from agent_fabric.interfaces.http.fleet.node_execution import add_node_execution
from agent_fabric.interfaces.http.fleet.node_files import add_node_files
from agent_fabric.interfaces.http.fleet.node_signatures import add_node_signatures
from agent_fabric.interfaces.http.fleet.node_socket import add_node_socket
from agent_fabric.interfaces.http.fleet.node_terminals import add_node_terminals
from agent_fabric.interfaces.http.fleet.nodes import add_nodes
from agent_fabric.interfaces.http.fleet.plans import add_fleet_plans
from agent_fabric.interfaces.http.gate import Gate
from agent_fabric.interfaces.http.idempotency import Idempotency
from agent_fabric.interfaces.http.identity.identity import add_identity
from agent_fabric.interfaces.http.limiting import FailureLimit, Limiting
from agent_fabric.interfaces.http.locks import LockedRoute
from agent_fabric.interfaces.http.memory.memory import LazyMemory, add_memory
from agent_fabric.interfaces.http.models.model_server import add_model_server
from agent_fabric.interfaces.http.models.models import add_models
from agent_fabric.interfaces.http.observability.doctor import add_doctor
from agent_fabric.interfaces.http.observability.health import add_health
from agent_fabric.interfaces.http.observability.operations import add_operations
from agent_fabric.interfaces.http.observability.settings import add_settings
from agent_fabric.interfaces.http.openai.routes import add_openai
from agent_fabric.interfaces.http.openapi import EVERYWHERE, DescribedApp, problems
from agent_fabric.interfaces.http.page.news import tell_news
from agent_fabric.interfaces.http.page.routes import add_page
from agent_fabric.interfaces.http.page.sockets import Sockets
from agent_fabric.interfaces.http.policy.policy import add_policy
from agent_fabric.interfaces.http.runs.changes import add_changes
from agent_fabric.interfaces.http.runs.files import add_files
from agent_fabric.interfaces.http.runs.live import LiveRuns
from agent_fabric.interfaces.http.runs.runs import add_runs
from agent_fabric.interfaces.http.runs.search import add_search
from agent_fabric.interfaces.http.runs.verification import add_verification
from agent_fabric.interfaces.http.runs.watch import watch
from agent_fabric.interfaces.http.secrets.secrets import add_secrets
from agent_fabric.interfaces.http.tools.mcp import McpDoor, add_mcp
from agent_fabric.interfaces.http.tools.tool_servers import add_tool_servers
from agent_fabric.interfaces.http.workflows.workflows import add_workflows

DESCRIPTION = """\
Every task is a run: durable, resumable, and readable while it happens. A run continues when its client leaves.

Errors are `application/problem+json`, with a `code` for programs and a `hint` for people.
"""


def create_app(
    fabric: ServerFabric, live: LiveRuns, *, hosts: Iterable[str], own_url: str, middleware: Sequence[Middleware] = ()
) -> FastAPI:
    """Return the app of a server that is called by `hosts`; `middleware` sees what the gate lets in.

    At `own_url` it can be reached from this machine: some doors ask the server in the name of who came through them.
    """
    mcp, sockets, memory = McpDoor(own_url), Sockets(), LazyMemory(fabric)
    addresses = Addresses(fabric.settings.trusted_proxies)
    gate = Middleware(
        Gate,
        hosts=hosts,
        addresses=addresses,
        authenticate=fabric.authenticate,
        authenticate_page=fabric.identity.page_logins.read,
        find=fabric.find,
        max_body_bytes=fabric.settings.max_body_bytes,
    )
    app = DescribedApp(
        title="agent-fabric",
        version=__version__,
        description=DESCRIPTION,
        redirect_slashes=False,
        middleware=[
            Middleware(FailureLimit, limits=fabric.limits, addresses=addresses),
            gate,
            Middleware(Limiting, limits=fabric.limits, addresses=addresses),
            Middleware(Idempotency, book=fabric.repeats, hashed=fabric.identity.authenticate.hasher.hashed),
            *middleware,
        ],
        responses=problems(*EVERYWHERE),
        lifespan=lambda _: _lifespan(fabric, live, mcp, sockets, memory),
        # Traces are made from the events of runs; FastAPI's own would cost every request.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    app.router.route_class = LockedRoute
    errors.install(app)
    # No routers: finding a route through them costs as much as most answers.
    add_health(app, fabric)
    add_search(app, fabric)
    add_runs(app, fabric, live)
    add_model_server(app, fabric)
    add_models(app, fabric)
    add_agents(app, fabric)
    add_workflows(app, fabric)
    add_evals(app, fabric)
    add_schedules(app, fabric)
    add_dead_letters(app, fabric)
    add_sensors(app, fabric)
    add_subscriptions(app, fabric)
    add_webhooks(app, fabric)
    add_channels(app, fabric)
    add_sessions(app, fabric)
    add_turns(app, fabric)
    add_memory(app, fabric, memory)
    add_approvals(app, fabric)
    add_changes(app, fabric)
    add_files(app, fabric)
    add_verification(app, fabric)
    add_operations(app, fabric, live)
    add_audit(app, fabric)
    add_policy(app, fabric)
    add_doctor(app, fabric)
    add_cluster(app, fabric)
    add_tool_servers(app, fabric)
    add_identity(app, fabric.identity)
    add_openai(app, fabric, live)
    add_a2a(app, fabric, live)
    add_secrets(app, fabric)
    add_settings(app, fabric)
    add_nodes(app, fabric, own_url=own_url)
    add_node_execution(app, fabric)
    add_node_files(app, fabric)
    add_node_terminals(app, fabric)
    add_node_signatures(app, fabric)
    add_node_socket(app, fabric.fleet)
    add_fleet_plans(app, fabric)
    add_mcp(app, mcp)
    add_page(app, fabric, live, sockets=sockets, addresses=addresses, port=urlsplit(own_url).port or 0)
    app.add_documentation()
    return app


@asynccontextmanager
async def _lifespan(
    fabric: ServerFabric, live: LiveRuns, mcp: McpDoor, sockets: Sockets, memory: LazyMemory
) -> AsyncIterator[None]:
    unfinished = await fabric.left_at_start()
    fabric.dispatch.expect(unfinished)
    fabric.listen_to_hints()
    fabric.channels.show_answers(live.answer_so_far)
    tasks = [
        asyncio.create_task(watch(fabric, live)),
        asyncio.create_task(tell_news(fabric, sockets)),
        asyncio.create_task(fabric.recover_runs(unfinished)),
        *(asyncio.create_task(duty) for duty in fabric.driving()),
        *(asyncio.create_task(duty) for duty in fabric.automation.duties()),
        asyncio.create_task(fabric.outgoing.relay()),
        asyncio.create_task(fabric.evals.jobs.resume_unfinished()),
        asyncio.create_task(fabric.log_missing_prerequisites()),
        asyncio.create_task(fabric.log_shared_runs()),
        asyncio.create_task(memory.find_missing_vectors()()),
        *(asyncio.create_task(duty) for duty in fabric.operations.duties()),
        *(asyncio.create_task(duty) for duty in fabric.fleet.duties()),
        *(asyncio.create_task(duty) for duty in fabric.channels.duties()),
    ]
    try:
        yield
    finally:
        live.close()
        fabric.fleet.close()
        await mcp.aclose()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await fabric.stop()
        await fabric.aclose()
