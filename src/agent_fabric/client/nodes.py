"""Machines of the fleet, at a server."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent_fabric.client.transport import Named, Query, Resource, segment
from agent_fabric.client.wire import items_from, json_from
from agent_fabric.domain.errors import NodeNotFound
from agent_fabric.wire.shape import Json

BASE = "/api/v1/nodes"
EXECUTE_GRACE_S = 120.0
PLANS = "/api/v1/fleet/plans"
_NODE = json_from("id", "name", "status")
_COMMAND = json_from("execution_id", "status")
_PLAN = json_from("id", "status")
_path = Named(BASE, NodeNotFound, "There is no node {!r}", "See them with: fabric nodes list")
_plan = Named(PLANS, NodeNotFound, "There is no plan {!r}", "See them with: fabric fleet list")


def _command(node: str, execution_id: str, what: str = "") -> str:
    missing = NodeNotFound(f"There is no command {execution_id!r}", hint="See them with: fabric nodes queue")
    return _path(node, f"/commands/{segment(execution_id, missing)}{what}")


class Nodes(Resource):
    """Machines that have joined a server."""

    async def list(self, selector: str = "all", *, revoked: bool = False) -> list[Json]:
        """Return the machines that a selector means, by name."""
        return await self._list("nodes", BASE, {"selector": selector, "revoked": revoked})

    async def show(self, node: str) -> Json:
        """Return what is known about a machine.

        Raises:
            NodeNotFound: there is none.
        """
        return await self._get(_NODE, _path(node))

    async def invite(self, wish: Mapping[str, Any]) -> Json:
        """Make an invitation; `token` and `command` of the answer are shown this once."""
        expected = json_from("token", "command", "hub_key", "sha256", "url")
        return await self._post(expected, f"{BASE}/invites", dict(wish))

    async def execute(self, node: str, wish: Mapping[str, Any], *, timeout_s: float) -> Json:
        """Run a tool on a machine; without `result` the answer tells what it waits for.

        Raises:
            NodeNotFound, NodeUnavailable, NodeBlocked: it cannot run there.
        """
        limit_s = timeout_s + EXECUTE_GRACE_S
        return await self._post(_COMMAND, _path(node, "/execute"), dict(wish), timeout_s=limit_s)

    async def execute_on(self, selector: str, wish: Mapping[str, Any], *, timeout_s: float) -> Sequence[Json]:
        """Run a tool on all machines that a selector means; return what came of it on each.

        Raises:
            NodeNotFound: it means none.
        """
        body, limit_s = {"selector": selector, **wish}, timeout_s + EXECUTE_GRACE_S
        return await self._post(items_from("outcomes"), f"{BASE}/execute", body, timeout_s=limit_s)

    async def tools(self, node: str) -> Json:
        """Return the tools of MCP servers on a machine, and why those of a server are not known.

        Raises:
            NodeNotFound, NodeUnavailable: it cannot be asked.
        """
        return await self._get(json_from("tools", "problems"), _path(node, "/tools"))

    async def commands(self, node: str, *, open_only: bool = False, limit: int = 100) -> Sequence[Json]:
        """Return commands of a machine, the newest first."""
        return await self._list("commands", _path(node, "/commands"), {"open_only": open_only, "limit": limit})

    async def command(self, node: str, execution_id: str) -> Json:
        """Return one command."""
        return await self._get(_COMMAND, _command(node, execution_id))

    async def output(self, node: str, execution_id: str, *, stream: str = "stdout", offset: int = 0) -> Json:
        """Return a part of a long output, in base64."""
        query: Query = {"stream": stream, "offset": offset}
        return await self._get(json_from("offset", "size", "data"), _command(node, execution_id, "/output"), query)

    async def read_file(self, node: str, execution_id: str, *, offset: int = 0) -> Json:
        """Return a part of a file that a call of `file_get` has opened, in base64."""
        path = _command(node, execution_id, "/file")
        return await self._get(json_from("offset", "size", "data"), path, {"offset": offset})

    async def write_file(self, node: str, execution_id: str, *, offset: int, data: str) -> Json:
        """Send a part of a file that a call of `file_put` has opened, in base64."""
        path = _command(node, execution_id, "/file")
        return await self._post(json_from("offset", "done"), path, {"offset": offset, "data": data})

    async def read_terminal(self, node: str, execution_id: str, *, offset: int = 0) -> Json:
        """Return what a shell has printed since, in base64; waits for something for a while."""
        path = _command(node, execution_id, "/terminal")
        return await self._get(json_from("status", "data", "exit_code", "error"), path, {"offset": offset})

    async def type_into(self, node: str, execution_id: str, wish: Mapping[str, Any]) -> Json:
        """Type into a shell, change the size of its terminal, or end it."""
        return await self._post(json_from("status"), _command(node, execution_id, "/terminal"), dict(wish))

    async def cancel(self, node: str, execution_id: str) -> Json:
        """Cancel a command."""
        return await self._post(_COMMAND, _command(node, execution_id), method="DELETE")

    async def sign(self, node: str, execution_id: str, *, approver: str, signature: str) -> Json:
        """Add an approver's signature to a command."""
        body = {"approver": approver, "signature": signature}
        return await self._post(json_from("execution_id"), _command(node, execution_id, "/signatures"), body)

    async def prepare(self, node: str, approval_id: str) -> Json:
        """Let the hub keep the command that a run asks about, so that it can be signed."""
        return await self._post(json_from("execution_id"), _path(node, "/commands"), {"approval_id": approval_id})

    async def sign_plan(self, plan_id: str, *, approver: str, signature: str) -> Json:
        """Add an approver's signature to a plan."""
        body = {"approver": approver, "signature": signature}
        return await self._post(_PLAN, _plan(plan_id, "/signatures"), body)

    async def change(self, node: str, changes: Mapping[str, Any]) -> Json:
        """Rename or label a machine."""
        return await self._post(_NODE, _path(node), dict(changes), method="PATCH")

    async def policy(self, node: str) -> Json:
        """Return what is in force on a machine."""
        return await self._get(json_from("version", "floor", "hub", "rules"), _path(node, "/policy"))

    async def check(self, node: str, tool_name: str, arguments: Mapping[str, Any]) -> Json:
        """Return what would become of a call on a machine, and who says so."""
        body = {"tool_name": tool_name, "arguments": dict(arguments)}
        return await self._post(json_from("verdict", "reason", "said"), _path(node, "/policy/check"), body)

    async def set_policy(self, node: str, document: Mapping[str, Any]) -> Json:
        """Set the hub's policy for a machine."""
        return await self._post(_NODE, _path(node, "/policy"), dict(document), method="PUT")

    async def rotate(self, node: str) -> Json:
        """Give a machine a new key."""
        return await self._post(_NODE, _path(node, "/rotate"))

    async def revoke(self, node: str) -> Json:
        """Revoke a machine for good."""
        return await self._post(_NODE, _path(node), method="DELETE")

    async def resolve(self, node: str, *, keep: bool) -> Json:
        """Settle a conflict, or confirm a machine."""
        return await self._post(_NODE, _path(node, "/resolve"), {"keep": keep})

    async def freeze_plan(self, wish: Mapping[str, Any]) -> Json:
        """Freeze a plan for many machines."""
        return await self._post(json_from("id", "status", "calls"), PLANS, dict(wish))

    async def plans(self) -> Sequence[Json]:
        """Return plans, the newest first."""
        return await self._list("plans", PLANS)

    async def plan(self, plan_id: str) -> Json:
        """Return a plan."""
        return await self._get(_PLAN, _plan(plan_id))

    async def change_plan(self, plan_id: str, word: str) -> Json:
        """Apply, halt, resume or abort a plan."""
        return await self._post(_PLAN, _plan(plan_id, f"/{word}"))

    async def audit(self, node: str) -> Json:
        """Compare the record of a machine with the server's."""
        return await self._get(json_from("node", "intact"), _path(node, "/audit"))
