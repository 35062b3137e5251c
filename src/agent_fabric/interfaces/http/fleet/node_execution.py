"""Commands for machines: on one, or on many at once."""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import Response

from agent_fabric.application.fleet.dispatch_command import Wish, blocked_by
from agent_fabric.application.fleet.fan_out import MAX_ASKED, FanOutWish, JudgedWish
from agent_fabric.application.ports.workflows import SoundWorkflow
from agent_fabric.bootstrap.fleet import Fleet
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.bootstrap.workflows import open_workflows
from agent_fabric.domain.errors import FabricError, InvalidInputs
from agent_fabric.domain.fleet.binding import timeout_of
from agent_fabric.domain.fleet.commands import CommandStatus, NodeCommand
from agent_fabric.domain.fleet.nodes import NodeStatus
from agent_fabric.domain.fleet.served_tools import node_call
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.domain.policy.verdicts import Ruling, Verdict
from agent_fabric.domain.runs.task import RunResult
from agent_fabric.domain.tools.json_schema import too_deep
from agent_fabric.domain.workflows.definition import definition_from
from agent_fabric.infrastructure.json_codec import dump_json
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.bodies import body_of
from agent_fabric.interfaces.http.fleet.node_schemas import ExecuteRequest, FanOutRequest
from agent_fabric.interfaces.http.fleet.nodes import BASE, NodePath
from agent_fabric.interfaces.http.locks import who_asks
from agent_fabric.interfaces.http.openapi import gives, operation, takes
from agent_fabric.interfaces.http.runs.starting import begun
from agent_fabric.wire.nodes import (
    ASKED_COMMAND,
    COMMAND,
    NODE_OUTCOMES,
    AskedCommand,
    NodeOutcome,
    NodeProblem,
)

ANSWER_GRACE_S = 60.0
ASKED_TIMEOUT_S = 20.0
PAUSE_S = 0.02
MAX_RESULT_BYTES = 16 * 1024 * 1024
"""Of all results in one answer; those beyond it are fetched one by one."""
_STEP_INPUTS = ("node", "tool_name", "arguments", "execution_id")
_EXECUTE = {
    "name": "node-command",
    "description": "one command on a machine of the fleet",
    "inputs": {"call": {"type": "object", "required": True}},
    "steps": [
        {
            "id": "execute",
            "action": "node-command",
            "inputs": {name: f"{{{{ inputs.call.{name} }}}}" for name in _STEP_INPUTS},
            "idempotent": True,
        }
    ],
}
"""The run of a command that a person has to approve. Its execution id makes it carry out the command at most once."""


def add_node_execution(app: FastAPI, fabric: ServerFabric) -> None:
    """Add the routes."""
    ask = AskAboutCommand(fabric)
    _add_fan_out(app, fabric.fleet, ask)
    _add_execute(app, fabric.fleet, ask)


def _add_fan_out(app: FastAPI, fleet: Fleet, ask: "AskAboutCommand") -> None:

    @app.post(
        f"{BASE}/execute",
        **operation(
            "nodes",
            Scope.NODES,
            "Run a tool on many nodes",
            NODE_OUTCOMES,
            body=takes(FanOutRequest),
            fails=[404, 409, 503, 507],
        ),
    )
    async def fan_out(request: Request) -> Response:
        """Answers when all machines have, or their time is over. Where a person has to agree, nothing is sent yet."""
        wish, by = await body_of(request, FanOutRequest), who_asks(request)
        if too_deep(wish.arguments, await request.body()):
            raise InvalidInputs("The arguments are nested too deep")
        tool_name, arguments = node_call("", wish.tool_name, wish.arguments)
        judged = await fleet.fan_out.judge(
            FanOutWish(
                selector=wish.selector,
                tool_name=tool_name,
                arguments=arguments,
                by=by.name,
                lifetime_s=wish.expires_in_s,
                queue=wish.queue,
            )
        )
        told = _Told(judged)
        if wish.dry_run:
            for each in judged:
                if each.ruling is not None:
                    command = fleet.dispatch.command(each.wish, each.ruling, CommandStatus.WAITING)
                    told.asked(each.wish, _asked(command, each.ruling, each.ruling.verdict.value))
            return json_answer(NODE_OUTCOMES.dump(told.outcomes))
        asking = [each for each in judged if each.problem is None and each.ruling is not None and _asks(each.ruling)]
        if len(asking) > MAX_ASKED:
            raise InvalidInputs(
                f"A person would have to agree {len(asking):,} times",
                hint="Freeze one plan for all of them: fabric fleet plan SELECTOR -- COMMAND",
            )

        async def ask_one(number: int, each: JudgedWish) -> None:
            assert each.ruling is not None
            try:
                told.asked(each.wish, await ask(request, each.wish, each.ruling, attempt=number))
            except FabricError as problem:
                told.failed(each.wish, problem)

        await asyncio.gather(*(ask_one(number, each) for number, each in enumerate(asking)))
        patience_s = timeout_of(wish.arguments) + ANSWER_GRACE_S
        async with aclosing(fleet.fan_out.send(judged, timeout_s=patience_s)) as sent:
            async for command in sent:
                told.settled(command)
        return json_answer(NODE_OUTCOMES.dump(told.outcomes))


def _add_execute(app: FastAPI, fleet: Fleet, ask: "AskAboutCommand") -> None:
    @app.post(
        f"{BASE}/{{node}}/execute",
        **operation(
            "nodes",
            Scope.NODES,
            "Run a tool on a node",
            COMMAND,
            body=takes(ExecuteRequest),
            also=gives(ASKED_COMMAND, status=202, text="It waits for a person (`approval_id`), or for the node."),
            fails=[404, 409, 503, 507],
        ),
    )
    async def execute(node: NodePath, request: Request) -> Response:
        """Answers with the result; or 202 if a person has to approve it first. Blocked commands get 403.

        `SERVER.tool` is a tool of an MCP server on the machine.
        """
        wish, by = await body_of(request, ExecuteRequest), who_asks(request)
        if too_deep(wish.arguments, await request.body()):
            raise InvalidInputs("The arguments are nested too deep")
        found = await fleet.operate.find(node)
        tool_name, arguments = node_call(found.name, wish.tool_name, wish.arguments)
        asked = Wish(
            node=found,
            tool_name=tool_name,
            arguments=arguments,
            by=by.name,
            lifetime_s=wish.expires_in_s,
            queue=wish.queue,
        )
        ruling = fleet.dispatch.judge(asked)
        if wish.dry_run:
            command = fleet.dispatch.command(asked, ruling, CommandStatus.WAITING)
            return json_answer(ASKED_COMMAND.dump(_asked(command, ruling, ruling.verdict.value)), 202)
        if ruling.verdict is Verdict.BLOCK:
            await fleet.desk.commands.add(fleet.dispatch.command(asked, ruling, CommandStatus.BLOCKED))
            raise blocked_by(ruling)
        fleet.dispatch.require_usable(asked.node, queue=wish.queue)
        if ruling.verdict is Verdict.ASK:
            return json_answer(ASKED_COMMAND.dump(await ask(request, asked, ruling)), 202)
        command = fleet.dispatch.command(asked, ruling, fleet.dispatch.status_at_once(asked.node))
        if asked.node.status is not NodeStatus.ONLINE:
            await fleet.dispatch.send(command)
            return json_answer(ASKED_COMMAND.dump(_asked(command, ruling, "queued")), 202)
        patience_s = timeout_of(wish.arguments) + ANSWER_GRACE_S
        settled = await fleet.dispatch.run(command, timeout_s=patience_s)
        if not settled.status.settled:
            return json_answer(ASKED_COMMAND.dump(_asked(settled, ruling, settled.status.value)), 202)
        return json_answer(COMMAND.dump(settled))


class AskAboutCommand:
    """Lets a run ask a person, and carry out the command when they agree."""

    def __init__(self, fabric: ServerFabric) -> None:
        self._fabric = fabric
        self._workflows = open_workflows(fabric.records.layout.root, fabric.config)

    async def __call__(self, request: Request, asked: Wish, ruling: Ruling, *, attempt: int = 0) -> AskedCommand:
        """Return what is asked; `attempt` is the number of the question, if a request asks several."""
        call: Mapping[str, Any] = {
            "node": asked.node.name,
            "tool_name": asked.tool_name,
            "arguments": dict(asked.arguments),
            "execution_id": asked.execution_id,
        }
        fleet = self._fabric.fleet
        workflow = SoundWorkflow(plain=_EXECUTE, definition=definition_from(_EXECUTE), source="")
        task = self._workflows.task(workflow, {"call": call}).asked_by(who_asks(request))
        drive = await begun(self._fabric, request, task, attempt=attempt)
        run_id = drive.run_id
        command = fleet.dispatch.command(replace(asked, run_id=run_id), ruling, CommandStatus.WAITING)
        await fleet.desk.commands.add(command)
        told = _asked(command, ruling, "waiting")
        return told if isinstance(drive, RunResult) else told._replace(approval_id=await self._approval_of(run_id))

    async def _approval_of(self, run_id: str) -> str:
        """Wait until the run has asked."""
        approvals = self._fabric.records.approvals
        async with asyncio.timeout(ASKED_TIMEOUT_S):
            while True:
                cards = await approvals.list(run_id=run_id, pending_only=False)  # type: ignore[arg-type]  # it is a run's id
                if cards:
                    return cards[-1].approval_id
                await asyncio.sleep(PAUSE_S)


class _Told:
    """What is told about each machine, in their order."""

    def __init__(self, judged: list[JudgedWish]) -> None:
        self._left_bytes = MAX_RESULT_BYTES
        self._rulings = {each.wish.execution_id: each.ruling for each in judged}
        self._by_id = {
            each.wish.execution_id: NodeOutcome(
                each.wish.node.name,
                None,
                None,
                None if each.problem is None else _problem(each.problem),
                omitted=False,
            )
            for each in judged
        }

    @property
    def outcomes(self) -> list[NodeOutcome]:
        return list(self._by_id.values())

    def asked(self, wish: Wish, asked: AskedCommand) -> None:
        self._change(wish.execution_id, asked=asked, problem=None)

    def failed(self, wish: Wish, problem: FabricError) -> None:
        self._change(wish.execution_id, problem=_problem(problem))

    def settled(self, command: NodeCommand) -> None:
        ruling = self._rulings[command.execution_id]
        if not command.status.settled and ruling is not None:
            self._change(command.execution_id, asked=_asked(command, ruling, command.status.value))
            return
        self._left_bytes -= 0 if command.result is None else len(dump_json(command.result))
        omitted = self._left_bytes < 0 and command.result is not None
        shown = replace(command, result=None) if omitted else command
        self._change(command.execution_id, command=shown, omitted=omitted)

    def _change(self, execution_id: str, **changes: Any) -> None:
        self._by_id[execution_id] = self._by_id[execution_id]._replace(**changes)


def _problem(problem: FabricError) -> NodeProblem:
    return NodeProblem(problem.code, problem.message, problem.hint)


def _asks(ruling: Ruling) -> bool:
    return ruling.verdict is Verdict.ASK


def _asked(command: NodeCommand, ruling: Ruling, status: str) -> AskedCommand:
    return AskedCommand(command.execution_id, status, "", command.run_id, ruling.reason, command.bound_hash)
