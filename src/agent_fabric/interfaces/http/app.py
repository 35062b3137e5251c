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
from agent_fabric.interfaces.http.tools.mcp import McpEndpoint, add_mcp
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
    mcp, sockets, memory = McpEndpoint(own_url), Sockets(), LazyMemory(fabric)
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
            Middleware(Idempotency, store=fabric.repeats, hashed=fabric.identity.authenticate.hasher.hash),
            *middleware,
        ],
        lifespan=lambda _: _lifespan(fabric, live, mcp, sockets, memory),
        # Traces are made from the events of runs; FastAPI's own would cost every request.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    errors.install(app)
    routes = Routes(app.router.routes)  # one list: finding a route through routers costs as much as most answers
    add_health(routes.with_tag("health"), fabric)
    add_search(routes.with_tag("runs"), fabric)
    add_runs(routes.with_tag("runs"), fabric, live)
    add_model_server(routes.with_tag("models"), fabric)
    add_models(routes.with_tag("models"), fabric)
    add_agents(routes.with_tag("agents"), fabric)
    add_workflows(routes.with_tag("workflows"), fabric)
    add_evals(routes.with_tag("evals"), fabric)
    add_schedules(routes.with_tag("schedules"), fabric)
    add_dead_letters(routes.with_tag("dead letters"), fabric)
    add_sensors(routes.with_tag("sensors"), fabric)
    add_subscriptions(routes.with_tag("subscriptions"), fabric)
    add_webhooks(routes.with_tag("webhooks"), fabric)
    add_channels(routes.with_tag("channels"), fabric)
    add_sessions(routes.with_tag("sessions"), fabric)
    add_turns(routes.with_tag("sessions"), fabric)
    add_memory(routes.with_tag("memory"), fabric, memory)
    add_approvals(routes.with_tag("approvals"), fabric)
    add_changes(routes.with_tag("runs"), fabric)
    add_files(routes.with_tag("runs"), fabric)
    add_verification(routes.with_tag("runs"), fabric)
    add_operations(routes.with_tag("operations"), fabric, live)
    add_audit(routes.with_tag("operations"), fabric)
    add_policy(routes.with_tag("policy"), fabric)
    add_doctor(routes.with_tag("operations"), fabric)
    add_cluster(routes.with_tag("operations"), fabric)
    add_tool_servers(routes.with_tag("tool servers"), fabric)
    add_identity(routes.with_tag("identity"), fabric.identity)
    add_openai(routes.with_tag("openai"), fabric, live)
    add_a2a(routes.with_tag("a2a"), fabric, live)
    add_secrets(routes.with_tag("secrets"), fabric)
    add_settings(routes.with_tag("settings"), fabric)
    add_nodes(routes.with_tag("nodes"), fabric, own_url=own_url)
    add_node_execution(routes.with_tag("nodes"), fabric)
    add_node_commands(routes.with_tag("nodes"), fabric)
    add_node_socket(routes, fabric.fleet)
    add_fleet_plans(routes.with_tag("fleet"), fabric)
    add_mcp(routes, mcp)
    add_page(
        routes.with_tag("page"), fabric, live, sockets=sockets, addresses=addresses, port=urlsplit(own_url).port or 0
    )
    add_documentation(
        routes, lambda: describe(app.title, app.version, app.description, (row.described for row in routes))
    )
    return app


@asynccontextmanager
async def _lifespan(
    fabric: ServerFabric, live: LiveRuns, mcp: McpEndpoint, sockets: Sockets, memory: LazyMemory
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
