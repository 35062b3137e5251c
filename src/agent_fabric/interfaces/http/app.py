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
from agent_fabric.interfaces.http.memory.memory import add_memory
from agent_fabric.interfaces.http.models.models import add_model_server, add_models
from agent_fabric.interfaces.http.observability.operations import add_doctor, add_health, add_operations, add_settings
from agent_fabric.interfaces.http.openai.models import Models
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
from agent_fabric.interfaces.http.tools.skills import add_tools
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
    mcp, sockets = McpEndpoint(own_url), Sockets()
    storage, runs = fabric.records.storage, fabric.runs
    addresses = Addresses(fabric.settings.trusted_proxies)
    gate = Middleware(
        Gate,
        hosts=hosts,
        addresses=addresses,
        authenticate=fabric.authenticate,
        authenticate_page=fabric.identity.page_logins.read,
        find=runs.find,
        max_body_bytes=fabric.settings.max_body_bytes,
    )
    app = FastAPI(
        title="agent-fabric",
        version=__version__,
        description=DESCRIPTION,
        redirect_slashes=False,
        openapi_url=None,  # ours is the last route: they are tried in their order
        middleware=[
            Middleware(FailureLimit, limits=runs.start.limits, addresses=addresses),
            gate,
            Middleware(Limiting, limits=runs.start.limits, addresses=addresses),
            Middleware(Idempotency, store=storage.idempotency, hashed=fabric.identity.authenticate.hasher.hash),
            *middleware,
        ],
        lifespan=lambda _: _lifespan(fabric, live, mcp, sockets),
        # Traces are made from the events of runs; FastAPI's own would cost every request.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    errors.install(app)
    routes = Routes(app.router.routes)  # one list: finding a route through routers costs as much as most answers
    add_health(routes.with_tag("health"), runs)
    add_search(routes.with_tag("runs").below("/runs"), runs)
    add_runs(routes.with_tag("runs"), runs, live)
    add_model_server(routes.with_tag("models"), fabric.config, fabric.local)
    add_models(routes.with_tag("models"), fabric.config, fabric.local)
    add_agents(routes.with_tag("agents"), runs, fabric.agents)
    add_workflows(routes.with_tag("workflows"), runs, fabric.workflows)
    add_evals(routes.with_tag("evals"), runs, fabric.evals)
    add_schedules(routes.with_tag("schedules"), fabric.automation, runs.start)
    add_dead_letters(routes.with_tag("dead letters"), fabric.automation)
    add_sensors(routes.with_tag("sensors"), fabric.automation)
    add_subscriptions(routes.with_tag("subscriptions"), fabric.automation.messages)
    add_webhooks(routes.with_tag("webhooks"), fabric.webhooks)
    add_channels(routes.with_tag("channels"), fabric.channels)
    add_sessions(routes.with_tag("sessions"), runs, fabric.chat)
    add_turns(routes.with_tag("sessions"), runs, fabric.chat.chat)
    add_memory(routes.with_tag("memory"), runs, fabric.memory)
    add_approvals(routes.with_tag("approvals"), runs)
    one_run = routes.with_tag("runs").below("/runs/{run_id}")
    add_changes(one_run, runs, fabric.chat.chat)
    add_files(one_run, runs)
    add_verification(one_run, runs)
    add_operations(routes.with_tag("operations"), fabric.operations, live)
    add_audit(routes.with_tag("operations"), fabric.records)
    add_policy(routes.with_tag("policy").below("/api/v1/policy"), runs)
    add_doctor(routes.with_tag("operations"), fabric)
    add_cluster(routes.with_tag("operations"), storage.cluster)
    add_tools(routes, fabric.config, fabric.local)
    add_identity(routes.with_tag("identity"), fabric.identity)
    models = Models(fabric.config, fabric.agents, fabric.workflows)
    add_openai(routes.with_tag("openai"), runs, live, models)
    add_a2a(routes.with_tag("a2a"), runs, live, models)
    add_secrets(routes.with_tag("secrets").below("/api/v1/secrets"), fabric.local)
    add_settings(routes.with_tag("settings"), fabric.operations.stored_settings)
    add_nodes(routes.with_tag("nodes"), fabric.fleet, runs.find, own_url=own_url)
    add_node_execution(routes.with_tag("nodes"), fabric.fleet, runs.start)
    add_node_commands(routes.with_tag("nodes"), fabric.fleet, runs)
    add_node_socket(routes, fabric.fleet)
    add_fleet_plans(routes.with_tag("fleet"), fabric.fleet, runs.start)
    add_mcp(routes, mcp)
    add_page(
        routes.with_tag("page"), fabric, live, sockets=sockets, addresses=addresses, port=urlsplit(own_url).port or 0
    )
    add_documentation(
        routes, lambda: describe(app.title, app.version, app.description, (row.described for row in routes))
    )
    return app


@asynccontextmanager
async def _lifespan(fabric: ServerFabric, live: LiveRuns, mcp: McpEndpoint, sockets: Sockets) -> AsyncIterator[None]:
    fabric.channels.show_answers(live.answer_so_far)
    duties = [
        *await fabric.duties(),
        watch(fabric.runs, live, fabric.wake_ups),
        tell_news(fabric.runs, fabric.chat.chat.sessions, sockets),
    ]
    tasks = [asyncio.create_task(duty) for duty in duties]
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
