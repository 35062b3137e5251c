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
from agent_fabric.interfaces.http.fleet.node_commands import add_node_commands
from agent_fabric.interfaces.http.fleet.node_execution import add_node_execution
from agent_fabric.interfaces.http.fleet.node_socket import add_node_socket
from agent_fabric.interfaces.http.fleet.nodes import add_nodes
from agent_fabric.interfaces.http.fleet.plans import add_fleet_plans
from agent_fabric.interfaces.http.gate import Gate
from agent_fabric.interfaces.http.idempotency import Idempotency
from agent_fabric.interfaces.http.identity.identity import add_identity
from agent_fabric.interfaces.http.limiting import FailureLimit, Limiting
from agent_fabric.interfaces.http.memory.memory import LazyMemory, add_memory
from agent_fabric.interfaces.http.models.models import add_model_server, add_models
from agent_fabric.interfaces.http.observability.operations import add_doctor, add_health, add_operations, add_settings
from agent_fabric.interfaces.http.openai.routes import add_openai
from agent_fabric.interfaces.http.openapi import describe
from agent_fabric.interfaces.http.page.news import tell_news
from agent_fabric.interfaces.http.page.routes import add_page
from agent_fabric.interfaces.http.page.sockets import Sockets
from agent_fabric.interfaces.http.policy.policy import add_policy
from agent_fabric.interfaces.http.reading_page import add_documentation
from agent_fabric.interfaces.http.routing import Routes
from agent_fabric.interfaces.http.runs.changes import add_changes, add_files, add_verification
from agent_fabric.interfaces.http.runs.live import LiveRuns
from agent_fabric.interfaces.http.runs.runs import add_runs
from agent_fabric.interfaces.http.runs.search import add_search
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
    app = FastAPI(
        title="agent-fabric",
        version=__version__,
        description=DESCRIPTION,
        redirect_slashes=False,
        openapi_url=None,  # ours is the last route: they are tried in their order
        middleware=[
            Middleware(FailureLimit, limits=fabric.limits, addresses=addresses),
            gate,
            Middleware(Limiting, limits=fabric.limits, addresses=addresses),
            Middleware(Idempotency, book=fabric.repeats, hashed=fabric.identity.authenticate.hasher.hashed),
            *middleware,
        ],
        lifespan=lambda _: _lifespan(fabric, live, mcp, sockets, memory),
        # Traces are made from the events of runs; FastAPI's own would cost every request.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    errors.install(app)
    routes = Routes(app.router.routes)  # one list: finding a route through routers costs as much as most answers
    add_health(routes.tagged("health"), fabric)
    add_search(routes.tagged("runs"), fabric)
    add_runs(routes.tagged("runs"), fabric, live)
    add_model_server(routes.tagged("models"), fabric)
    add_models(routes.tagged("models"), fabric)
    add_agents(routes.tagged("agents"), fabric)
    add_workflows(routes.tagged("workflows"), fabric)
    add_evals(routes.tagged("evals"), fabric)
    add_schedules(routes.tagged("schedules"), fabric)
    add_dead_letters(routes.tagged("dead letters"), fabric)
    add_sensors(routes.tagged("sensors"), fabric)
    add_subscriptions(routes.tagged("subscriptions"), fabric)
    add_webhooks(routes.tagged("webhooks"), fabric)
    add_channels(routes.tagged("channels"), fabric)
    add_sessions(routes.tagged("sessions"), fabric)
    add_turns(routes.tagged("sessions"), fabric)
    add_memory(routes.tagged("memory"), fabric, memory)
    add_approvals(routes.tagged("approvals"), fabric)
    add_changes(routes.tagged("runs"), fabric)
    add_files(routes.tagged("runs"), fabric)
    add_verification(routes.tagged("runs"), fabric)
    add_operations(routes.tagged("operations"), fabric, live)
    add_audit(routes.tagged("operations"), fabric)
    add_policy(routes.tagged("policy"), fabric)
    add_doctor(routes.tagged("operations"), fabric)
    add_cluster(routes.tagged("operations"), fabric)
    add_tool_servers(routes.tagged("tool servers"), fabric)
    add_identity(routes.tagged("identity"), fabric.identity)
    add_openai(routes.tagged("openai"), fabric, live)
    add_a2a(routes.tagged("a2a"), fabric, live)
    add_secrets(routes.tagged("secrets"), fabric)
    add_settings(routes.tagged("settings"), fabric)
    add_nodes(routes.tagged("nodes"), fabric, own_url=own_url)
    add_node_execution(routes.tagged("nodes"), fabric)
    add_node_commands(routes.tagged("nodes"), fabric)
    add_node_socket(routes, fabric.fleet)
    add_fleet_plans(routes.tagged("fleet"), fabric)
    add_mcp(routes, mcp)
    add_page(
        routes.tagged("page"), fabric, live, sockets=sockets, addresses=addresses, port=urlsplit(own_url).port or 0
    )
    add_documentation(
        routes, lambda: describe(app.title, app.version, app.description, (row.described for row in routes))
    )
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
