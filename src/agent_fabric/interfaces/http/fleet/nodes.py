"""Nodes: machines of the fleet, and what is done on them."""

import hashlib
import logging
from collections.abc import Iterable
from typing import Annotated

from fastapi import Path, Query, Request
from starlette.responses import Response

from agent_fabric.application.fleet.dispatch_command import CommandRequest
from agent_fabric.application.fleet.show_commands import ShowCommands
from agent_fabric.application.fleet.verify_node_audit import NodeAudit
from agent_fabric.application.runs.find_run import FindRun
from agent_fabric.bootstrap.fleet import Fleet
from agent_fabric.domain.errors import InvalidInputs, NodeNotFound
from agent_fabric.domain.fleet.commands import Invite, NodeCommand
from agent_fabric.domain.fleet.node_policy import proposed_call
from agent_fabric.domain.fleet.node_tools import NODE_TOOLS
from agent_fabric.domain.fleet.nodes import TRUSTED, Node, NodeStatus, select_nodes
from agent_fabric.domain.fleet.protocol import ARCHIVE_PATH, JOIN_PATH, join_message
from agent_fabric.domain.fleet.served_tools import node_call
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.domain.tools.json_schema import too_deep
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.fleet.node_schemas import (
    SELECTOR,
    CallToCheck,
    InviteRequest,
    JoinRequest,
    NodeUpdate,
    PolicyDocument,
    ResolveRequest,
)
from agent_fabric.interfaces.http.openapi import gives
from agent_fabric.interfaces.http.routing import Open, OptionalBody, Routes
from agent_fabric.wire import nodes as wire

BASE = "/api/v1/nodes"
ONE = f"{BASE}/{{node}}"

NodePath = Annotated[str, Path(description="The id or the name of a node.", max_length=64)]
ExecutionId = Annotated[str, Path(max_length=64)]

_log = logging.getLogger(__name__)


def add_nodes(routes: Routes, fleet: Fleet, find: FindRun, *, own_url: str) -> None:
    """Add the routes. Each calls one use case, the same that the command line calls."""
    _add_joining(routes, fleet, own_url)

    @routes.get(BASE, Scope.RUNS_READ, "List nodes", wire.NODES)
    async def nodes(
        selector: Annotated[
            str, Query(max_length=500, pattern=SELECTOR, description="A name, `role=web,env!=dev`, or `all`.")
        ] = "all",
        revoked: Annotated[bool, Query(description="Whether to list revoked ones, too.")] = False,
    ) -> Iterable[Node]:
        """Machines by name: status, when each was last seen, labels, tools and what is in force there."""
        return select_nodes(selector, await fleet.hub.nodes.list(revoked=revoked))

    one, shown = routes.below(ONE), ShowCommands(find)
    _add_looking(one, fleet, shown)
    _add_changing(one, fleet)
    _add_settling(one, fleet, shown)


def _add_joining(routes: Routes, fleet: Fleet, own_url: str) -> None:
    @routes.get(
        ARCHIVE_PATH,
        Open.PUBLIC,
        "Download the node's program",
        also={200: {"description": "A Python archive.", "content": {"application/zip": {}}}},
    )
    async def archive() -> Response:
        """It runs with Python 3.11 or newer and nothing else. `fabric nodes invite` tells its hash."""
        made = await fleet.archive()
        headers = {"etag": f'"{made.sha256}"', "cache-control": "no-cache"}
        return Response(made.data, media_type="application/zip", headers=headers)

    @routes.post(f"{BASE}/invites", Scope.ADMIN, "Invite machines", wire.CREATED_INVITE, status=201, fails=[503, 507])
    async def invite(wish: OptionalBody[InviteRequest], by: Principal, request: Request) -> Response:
        """Answers with a token, this once, and with one line for the machine."""
        made = await fleet.invite(
            by=by,
            name=wish.name,
            labels=wish.labels,
            uses=wish.uses,
            lifetime_s=wish.expires_in_s,
            confirm=wish.confirm,
        )
        url = _seen_as(request, own_url)
        program, key = await fleet.archive(), fleet.key.fingerprint
        line = (
            f"curl -fsSLo fabric-node.pyz {url}{ARCHIVE_PATH} && "
            f"echo '{program.sha256}  fabric-node.pyz' | sha256sum -c - && "
            f"python3 fabric-node.pyz join {url} --token {made.token} --hub-key {key}"
        )
        told = wire.CreatedInvite(made.token, key, program.sha256, url, line, made.invite.expires_at)
        return json_answer(wire.CREATED_INVITE.dump(told), 201, {"cache-control": "no-store"})

    @routes.get(f"{BASE}/invites", Scope.ADMIN, "List invitations", wire.INVITES)
    async def invites() -> Iterable[Invite]:
        """Those that can still be used, without their tokens."""
        return await fleet.invite.invites.list(at=fleet.invite.clock.now())

    @routes.post(
        JOIN_PATH,
        Open.PUBLIC,
        "Join as a machine",
        wire.JOINED,
        status=201,
        also=gives(wire.JOINED, status=202, text="A person has to confirm it first: ask again."),
        fails=[401, 503, 507],
    )
    async def join(wish: JoinRequest) -> Response:
        """The token of an invitation makes a node of a machine with a key. Used, expired and unknown ones are alike."""
        node = await fleet.hub.join(wish.token, wish.public_key, wish.name, wish.os_info)
        digest = hashlib.sha256(wish.token.encode()).hexdigest()
        pending = node.status is NodeStatus.PENDING
        told = wire.Joined(
            status="pending" if pending else "enrolled",
            agent_id="" if pending else node.id,
            name=node.name,
            hub_key=fleet.key.public,
            hub_signature=fleet.key.sign(join_message(digest, node.public_key)),
            code=node.note if pending else "",
        )
        _log.info("machine %s has joined as node %s (%s)", node.hostname, node.name, node.id)
        return json_answer(wire.JOINED.dump(told), 202 if pending else 201, {"cache-control": "no-store"})


def _seen_as(request: Request, own_url: str) -> str:
    """Return the address by which the caller reaches us: its machines probably do so, too."""
    host = request.headers.get("host", "")
    forwarded = request.headers.get("x-forwarded-proto", "")
    scheme = "https" if own_url.startswith("https") or forwarded == "https" else "http"
    return f"{scheme}://{host}" if host else own_url


def _add_looking(routes: Routes, fleet: Fleet, shown: ShowCommands) -> None:
    @routes.get("", Scope.RUNS_READ, "Show a node", wire.NODE, fails=[404])
    async def show(node: NodePath) -> Node:
        """Everything that is known about a machine."""
        return await fleet.operate.find(node)

    @routes.get("/commands", Scope.RUNS_READ, "List commands", wire.COMMANDS, fails=[404])
    async def commands(
        node: NodePath,
        by: Principal,
        open_only: Annotated[bool, Query(description="Only those that are not settled.")] = False,
        limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    ) -> Iterable[NodeCommand]:
        """Commands of a machine, the newest first: what waits, what was sent, what came of it.

        Of those that a private run of another user asked for, arguments and result are `withheld`.
        """
        found = await fleet.operate.find(node)
        kept = await fleet.hub.commands.list(found.id, open_only=open_only, limit=limit)
        return await shown(kept, by=by)

    @routes.get("/commands/{execution_id}", Scope.RUNS_READ, "Show a command", wire.COMMAND, fails=[404])
    async def command(node: NodePath, execution_id: ExecutionId, by: Principal) -> NodeCommand:
        """What came of it, if it is settled."""
        _, found = await find_command(fleet, node, execution_id)
        [told] = await shown([found], by=by)
        return told

    @routes.get("/policy", Scope.RUNS_READ, "Show what is in force on a node", wire.NODE_RULINGS, fails=[404])
    async def policy(node: NodePath) -> wire.NodeRulings:
        """Each rule of the node's own file and of the hub, and whether something stricter decides."""
        found = await fleet.operate.find(node)
        why = fleet.explain(found)
        return wire.NodeRulings(
            why.in_force.version,
            *why.in_force.documents,
            why.otherwise,
            why.otherwise_by,
            why.rules,
            found.labels.get(TRUSTED, ""),
        )

    @routes.post(
        "/policy/check",
        Scope.RUNS_READ,
        "Explain what would become of a call on a node",
        wire.CHECKED_NODE_CALL,
        fails=[404],
    )
    async def check(wish: CallToCheck, node: NodePath, request: Request) -> wire.CheckedNodeCall:
        """What the node's own file, the hub's policy for it and the hub's rules for all say. Nothing is sent."""
        found = await fleet.operate.find(node)
        if too_deep(wish.arguments, await request.body()):
            raise InvalidInputs("The arguments are nested too deep")
        tool_name, arguments = node_call(found.name, wish.tool_name, wish.arguments)
        asked = CommandRequest(node=found, tool_name=tool_name, arguments=arguments, by="")
        decided, why = fleet.dispatch.judge(asked), fleet.explain(found)
        call = proposed_call(NODE_TOOLS[tool_name], arguments, found.name)
        return wire.CheckedNodeCall(
            decided.verdict, decided.reason, decided.rule, why.in_force.version, why.said_about(call, decided)
        )

    @routes.get("/tools", Scope.NODES, "List the tools of MCP servers on a node", wire.SERVED_TOOLS, fails=[404, 409])
    async def tools(node: NodePath) -> wire.ServedToolList:
        """Asks each server that the machine has reported. A call of one is `SERVER.tool` with its arguments."""
        found = await fleet.operate.find(node)
        fleet.dispatch.require_usable(found, queue=False)
        listing = await fleet.tools.catalogue.of(fleet.dispatch, found, "hub", fresh=True)
        return wire.ServedToolList(listing.tools, listing.problems)

    @routes.get("/audit", Scope.ADMIN, "Compare the record of a node with the hub's", wire.NODE_AUDIT, fails=[404, 409])
    async def audit(node: NodePath) -> NodeAudit:
        """Names calls that only the node, or only the hub, knows."""
        return await fleet.verify(node)


async def find_command(fleet: Fleet, node: str, execution_id: str) -> tuple[Node, NodeCommand]:
    """Return a machine and one of its commands.

    Raises:
        NodeNotFound: there is no such machine, or it has no such command.
    """
    found, kept = await fleet.operate.find(node), await fleet.hub.commands.find(execution_id)
    if kept is None or kept.agent_id != found.id:
        raise NodeNotFound(f"{found.name} has no command {execution_id!r}", hint="See them with: fabric nodes queue")
    return found, kept


def _add_changing(routes: Routes, fleet: Fleet) -> None:
    fails = [404, 409, 503, 507]

    @routes.patch("", Scope.NODES, "Rename or label a node", wire.NODE, fails=fails)
    async def change(wish: NodeUpdate, node: NodePath, by: Principal) -> Node:
        """Labels select nodes for commands and plans. What a node reports itself is `fact.…`, and stays its own.

        The label `trusted` is for admins: what a node says then counts as yours, or private data may go there unasked.
        """
        found = await fleet.operate.find(node)
        if wish.labels is not None:
            found = await fleet.operate.label(found.id, wish.labels, by=by)
        if wish.name is not None:
            found = await fleet.operate.rename(found.id, wish.name, by=by)
        return found

    @routes.put("/policy", Scope.ADMIN, "Set the hub's policy for a node", wire.NODE, fails=fails)
    async def set_policy(wish: PolicyDocument, node: NodePath, by: Principal, request: Request) -> Node:
        """It is synced at once. It can be stricter than the node's own floor, and never laxer."""
        if too_deep(wish.rules, await request.body()):
            raise InvalidInputs("The rules are nested too deep")
        return await fleet.operate.set_policy(node, wish.model_dump(exclude_none=True), by=by)

    @routes.post("/rotate", Scope.ADMIN, "Give a node a new key", wire.NODE, fails=fails)
    async def rotate(node: NodePath, by: Principal) -> Node:
        """The node makes it, and the old key signs it."""
        return await fleet.operate.rotate(node, by=by)

    @routes.post("/resolve", Scope.ADMIN, "Settle a conflict, or confirm a machine", wire.NODE, fails=fails)
    async def resolve(wish: ResolveRequest, node: NodePath, by: Principal) -> Node:
        """`keep` lets the next machine with the key connect; otherwise the node is revoked."""
        return await fleet.operate.resolve(node, keep=wish.keep, by=by)

    @routes.delete("", Scope.ADMIN, "Revoke a node", wire.NODE, fails=fails)
    async def revoke(node: NodePath, by: Principal) -> Node:
        """Its connection ends within a second, its queue is cancelled, and its id is never used again."""
        return await fleet.operate.revoke(node, by=by)


def _add_settling(routes: Routes, fleet: Fleet, shown: ShowCommands) -> None:
    @routes.delete(
        "/commands/{execution_id}", Scope.NODES, "Cancel a command", wire.COMMAND, fails=[404, 409, 503, 507]
    )
    async def cancel(node: NodePath, execution_id: ExecutionId, by: Principal) -> NodeCommand:
        """One that waits is not sent; one that is under way is ended on the node."""
        await find_command(fleet, node, execution_id)
        await fleet.operate.cancel(execution_id)
        _, found = await find_command(fleet, node, execution_id)
        [told] = await shown([found], by=by)
        return told
