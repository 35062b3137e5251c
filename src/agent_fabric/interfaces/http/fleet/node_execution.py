"""Commands for machines: on one, or on many at once."""

from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from fastapi import Request
from starlette.responses import Response

from agent_fabric.application.fleet.ask_with_run import Caller
from agent_fabric.application.fleet.run_on_nodes import NodeOrder, OrderOutcome
from agent_fabric.application.runs.start_run import StartRun
from agent_fabric.bootstrap.fleet import Fleet
from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.domain.fleet.commands import NodeCommand
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.domain.tools.json_schema import too_deep
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.fleet.node_schemas import ExecuteRequest, FanOutRequest
from agent_fabric.interfaces.http.fleet.nodes import BASE, NodePath
from agent_fabric.interfaces.http.locks import who_asks
from agent_fabric.interfaces.http.openapi import gives
from agent_fabric.interfaces.http.routing import Routes
from agent_fabric.interfaces.http.runs.starting import start_for
from agent_fabric.wire.json_codec import dump_json
from agent_fabric.wire.nodes import ASKED_COMMAND, COMMAND, NODE_OUTCOMES, AskedCommand, NodeOutcome, NodeProblem

MAX_RESULT_BYTES = 16 * 1024 * 1024
"""Of all results in one answer; those beyond it are fetched one by one."""
_FAILS = [404, 409, 503, 507]


def add_node_execution(routes: Routes, fleet: Fleet, start: StartRun) -> None:
    """Add the routes."""
    run = fleet.run_on_nodes

    @routes.post(f"{BASE}/execute", Scope.NODES, "Run a tool on many nodes", NODE_OUTCOMES, fails=_FAILS)
    async def fan_out(wanted: FanOutRequest, request: Request) -> Iterable[NodeOutcome]:
        """Answers when all machines have, or their time is over. Where a person has to agree, nothing is sent yet."""
        rows, left_bytes = dict[str, NodeOutcome](), MAX_RESULT_BYTES
        async with aclosing(run.on_many(wanted.selector, await order(wanted, request), caller(request))) as outcomes:
            async for each in outcomes:
                row = _row(each, dry_run=wanted.dry_run)
                if row.command is not None and row.command.result is not None:
                    left_bytes -= len(dump_json(row.command.result))
                    if left_bytes < 0:
                        row = row._replace(command=replace(row.command, result=None), omitted=True)
                rows[each.request.execution_id] = row
        return list(rows.values())

    @routes.post(
        f"{BASE}/{{node}}/execute",
        Scope.NODES,
        "Run a tool on a node",
        COMMAND,
        also=gives(ASKED_COMMAND, status=202, text="It waits for a person (`approval_id`), or for the node."),
        fails=_FAILS,
    )
    async def execute(wanted: ExecuteRequest, node: NodePath, request: Request) -> NodeCommand | Response:
        """Answers with the result; or 202 if a person has to approve it first. Blocked commands get 403.

        `SERVER.tool` is a tool of an MCP server on the machine.
        """
        outcome = await run.on_one(node, await order(wanted, request), caller(request))
        row = _row(outcome, dry_run=wanted.dry_run)
        if row.command is not None:
            return row.command
        assert row.asked is not None, "an order for one machine that is refused raises"
        return json_answer(ASKED_COMMAND.dump(row.asked), 202)

    async def order(wanted: ExecuteRequest, request: Request) -> NodeOrder:
        if too_deep(wanted.arguments, await request.body()):
            raise InvalidInputs("The arguments are nested too deep")
        return NodeOrder(
            tool_name=wanted.tool_name,
            arguments=wanted.arguments,
            by=who_asks(request).name,
            lifetime_s=wanted.expires_in_s,
            queue=wanted.queue,
            dry_run=wanted.dry_run,
        )

    def caller(request: Request) -> Caller:
        return Caller(who_asks(request), partial(start_for, start, request))


def _row(outcome: OrderOutcome, *, dry_run: bool) -> NodeOutcome:
    command, ruling, problem = outcome.command, outcome.ruling, outcome.problem
    asked = None
    if command is not None and ruling is not None and (dry_run or not command.status.settled):
        asked = AskedCommand(
            command.execution_id,
            ruling.verdict.value if dry_run else command.status.value,
            outcome.approval_id,
            command.run_id,
            ruling.reason,
            command.bound_hash,
        )
    return NodeOutcome(
        outcome.request.node.name,
        command if asked is None else None,
        asked,
        None if problem is None else NodeProblem(problem.code, problem.message, problem.hint),
        omitted=False,
    )
