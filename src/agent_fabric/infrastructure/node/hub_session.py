"""The node's end of the connection to its hub: shows who it is, then answers; for ever, unless it is revoked."""

import asyncio
import logging
import random
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import field, replace
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from agent_fabric.application.fleet.json_rpc import Handle, LinkLost, RpcFailed, RpcPeer
from agent_fabric.application.node.serve_commands import CallRefused, ServeCommands
from agent_fabric.application.ports.node import NodeRevoked
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.fleet.chain import KEY
from agent_fabric.domain.fleet.node_policy import PolicyProblem, node_policy
from agent_fabric.domain.fleet.protocol import (
    HEARTBEAT_S,
    PROTOCOL,
    SOCKET_PATH,
    CloseCode,
    Method,
    RpcCode,
    hub_message,
    node_message,
    rotation_message,
)
from agent_fabric.domain.fleet.served_tools import MCP_PROXY
from agent_fabric.infrastructure.fleet.signing import SigningKey, is_signed
from agent_fabric.infrastructure.node.floor_file import Floor
from agent_fabric.infrastructure.node.machine_facts import os_info
from agent_fabric.infrastructure.node.node_folder import Enrolment, NodeFolder
from agent_fabric.infrastructure.node.spool import HUB_POLICY, Spool
from agent_fabric.infrastructure.node.terminals import TerminalProblem, Terminals
from agent_fabric.infrastructure.node.transfers import TransferProblem, Transfers
from agent_fabric.infrastructure.node.websocket import ConnectionEnded, ConnectionRefused, WebSocket

MIN_PAUSE_S: Final = 0.5
MAX_PAUSE_S: Final = 30.0
ANSWER_TIMEOUT_S: Final = 30.0
CLOSE_REASON_S: Final = 2.0
PROXY_ARGUMENTS: Final = ("target_server", "inner_request", "timeout_s")

_log = logging.getLogger("fabric-node")


class WrongHub(Exception):
    """The peer does not hold the key that was pinned."""


def socket_url(url: str) -> str:
    """Return the address of a hub's socket."""
    parts = urlsplit(url)
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    return urlunsplit((scheme, parts.netloc, f"{parts.path.rstrip('/')}{SOCKET_PATH}", "", ""))


def tool_call(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return `mcp.proxy` (FC-012) as the call of a tool: judged, remembered and recorded like every other."""
    rest = {name: value for name, value in params.items() if name not in PROXY_ARGUMENTS}
    arguments = {name: params[name] for name in PROXY_ARGUMENTS if name in params}
    return {**rest, "tool_name": MCP_PROXY, "arguments": arguments}


async def _not_now(method: str, params: Mapping[str, Any]) -> Any:  # noqa: ARG001 - as every handler
    raise RpcFailed(RpcCode.UNPROVEN, "the node is about to restart: send it again")


def _heartbeat_from(told: Any, before: float) -> float:
    """Return how often the hub wants to hear of the node: the more nodes it has, the less often."""
    wanted = told.get("heartbeat_s") if isinstance(told, Mapping) else None
    return float(wanted) if isinstance(wanted, int | float) and wanted > 0 else before


@dataclass(slots=True)
class HubSession:
    """Connects and stays."""

    folder: NodeFolder
    floor: Floor
    spool: Spool
    serve: ServeCommands
    transfers: Transfers
    terminals: Terminals
    version: str
    program: str = ""
    """The hash of the archive that the node runs from; empty: it runs from none."""
    mcp_servers: list[dict[str, Any]] = field(default_factory=list)
    heartbeat_s: float = HEARTBEAT_S
    _proven: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Connect, serve, and connect again.

        Raises:
            NodeRevoked: the hub has revoked the node.
        """
        attempt = 0
        while True:
            self._proven.clear()
            reason = ""
            try:
                await self._connect()
            except ConnectionEnded as problem:
                reason = str(problem)
                if problem.code == CloseCode.REVOKED:
                    self._tell("revoked", problem.reason)
                    raise NodeRevoked(problem.reason) from None
            except (ConnectionRefused, LinkLost, RpcFailed, WrongHub, OSError, TimeoutError) as problem:
                reason = str(problem) or type(problem).__name__
            attempt = 0 if self._proven.is_set() else attempt + 1
            pause = max(MIN_PAUSE_S, random.uniform(0, min(MAX_PAUSE_S, MIN_PAUSE_S * 2 ** min(attempt, 10))))  # noqa: S311
            self._tell("offline", reason)
            _log.warning("not connected: %s; again in %.1f s", reason, pause)
            await asyncio.sleep(pause)

    async def prove_once(self) -> None:
        """Connect, show who it is, and leave: so that a new program proves that it works.

        Raises:
            ConnectionEnded, ConnectionRefused, LinkLost, RpcFailed, WrongHub, OSError, TimeoutError: it does not.
        """
        async with self._open_connection(_not_now) as (peer, reading, _):
            await self._until(reading, peer.call(Method.HEARTBEAT, {"busy": 0}, timeout_s=ANSWER_TIMEOUT_S))

    async def _connect(self) -> None:
        async with self._open_connection(self._handle) as (peer, reading, enrolment):
            try:
                self._proven.set()
                self._tell("online", "")
                _log.info("connected to %s as %s", enrolment.url, enrolment.name)
                await self._until(reading, self._live(peer))
            finally:
                self.terminals.end_all("the connection to the hub has ended")

    @asynccontextmanager
    async def _open_connection(self, handle: Handle) -> "AsyncIterator[tuple[RpcPeer, asyncio.Task[None], Enrolment]]":
        """Lend a connection on which both ends have shown who they are."""
        enrolment = self.folder.enrolment()
        socket = await WebSocket.connect(socket_url(enrolment.url))
        peer = RpcPeer(socket.send, handle)
        reading = asyncio.create_task(self._read(socket, peer))
        try:
            await self._until(reading, self._introduce(peer, enrolment))
            yield peer, reading, enrolment
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await socket.close()

    async def _until(self, reading: "asyncio.Task[None]", work: Any) -> None:
        """Do something for as long as the connection lasts; why it ended is raised."""
        task = asyncio.ensure_future(work)
        await asyncio.wait((reading, task), return_when=asyncio.FIRST_COMPLETED)
        if task.done() and task.exception() is not None:
            await asyncio.wait((reading,), timeout=CLOSE_REASON_S)  # the code of the close says more than the error
        if not task.done() or reading.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if reading.done():
            await reading
        await task

    async def _read(self, socket: WebSocket, peer: RpcPeer) -> None:
        try:
            while True:
                await peer.receive(await socket.receive())
        except Exception as problem:
            peer.close(problem)
            raise

    async def _introduce(self, peer: RpcPeer, enrolment: Enrolment) -> None:
        key, pending = self.folder.key(), self.folder.pending_key()
        nonce = secrets.token_hex(32)
        told = await peer.call(
            Method.IDENTIFY, self._identity(enrolment, key, pending, nonce), timeout_s=ANSWER_TIMEOUT_S
        )
        challenge = str(told["challenge"])
        proof = hub_message(enrolment.agent_id, nonce, challenge)
        if not is_signed(enrolment.hub_key, proof, str(told["hub_signature"])):
            raise WrongHub("the server there does not hold the key of the hub that this node has joined")
        if pending is not None:
            key = self._settle_key(key, pending, str(told.get("key", "")))
        message = node_message(enrolment.agent_id, enrolment.hub_key, challenge, enrolment.state)
        proven = await peer.call(
            Method.PROVE, {"signature": key.sign(message), "state": enrolment.state}, timeout_s=ANSWER_TIMEOUT_S
        )
        self.folder.write_state(str(proven["state"]))
        self.heartbeat_s = float(proven.get("heartbeat_s", HEARTBEAT_S))
        self._use_policy(proven.get("policy") or {})
        self._use_key(key)

    def _settle_key(self, key: SigningKey, pending: SigningKey, wanted: str) -> SigningKey:
        """Finish a change of keys that was cut off: the hub says which one it knows."""
        if wanted == pending.public:
            return self._adopt_key()
        self.folder.drop_new_key()
        return key

    def _identity(
        self, enrolment: Enrolment, key: SigningKey, pending: SigningKey | None, nonce: str
    ) -> dict[str, Any]:
        document = self.floor.document
        return {
            "agent_id": enrolment.agent_id,
            "token": "",
            "os_info": os_info(),
            "capabilities": {
                "native_tools": list(self.serve.toolbox.names()),
                "file_transfer": self.floor.file_transfer,
                "pty_support": self.floor.pty_support,
            },
            "mcp_servers": self.mcp_servers,
            "security_policy": {
                "hitl_enabled": document.get("hitl_enabled", False),
                "blocked_commands": list(document.get("blocked_commands", [])),
                "requires_approval_for": list(document.get("requires_approval_for", [])),
            },
            "node": {
                "protocol": PROTOCOL,
                "version": self.version,
                "program": self.program,
                "public_key": key.public,
                "new_public_key": pending.public if pending is not None else "",
                "nonce": nonce,
                "uid": self.serve.node.uid,
                "floor": dict(document),
                "approvals": "signed" if self.floor.signed else "hub",
                "approvers": sorted(self.floor.approvers),
                "quorum": self.floor.quorum,
                "roots": list(self.floor.roots),
            },
        }

    async def _live(self, peer: RpcPeer) -> None:
        """Deliver what is left from before, then say every now and then that this node is there."""
        for call in self.serve.list_unreported():
            await peer.call(
                Method.RESULT, {"execution_id": call.execution_id, "result": call.result}, timeout_s=ANSWER_TIMEOUT_S
            )
            self.spool.report(call.execution_id)
        share = random.uniform(0.0, 1.0)  # noqa: S311 - a thousand that were cut off at once are not heard of at once
        while True:
            told = await peer.call(Method.HEARTBEAT, {"busy": self.serve.busy}, timeout_s=ANSWER_TIMEOUT_S)
            self.heartbeat_s = _heartbeat_from(told, self.heartbeat_s)
            await asyncio.sleep(share * self.heartbeat_s)
            share = 1.0

    async def _handle(self, method: str, params: Mapping[str, Any]) -> Any:
        if not self._proven.is_set():  # the answer to our proof, and what follows it, may come at once
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT_S):
                    await self._proven.wait()
            except TimeoutError:
                raise RpcFailed(RpcCode.UNPROVEN, "the hub has not shown who it is yet") from None
        match method:
            case Method.EXECUTE | Method.MCP_PROXY:
                try:
                    return await self.serve(params if method == Method.EXECUTE else tool_call(params))
                except CallRefused as refused:
                    raise RpcFailed(refused.code, refused.message, refused.data) from None
            case Method.ACK:
                self.spool.report(str(params.get("execution_id", "")))
                return {}
            case Method.CANCEL:
                return {"cancelled": self.serve.cancel(str(params.get("execution_id", "")))}
            case Method.PING:
                return {"at": time.time()}
            case Method.POLICY_SYNC:
                return {"version": self._sync_policy(params)}
            case Method.ROTATE:
                return self._rotate()
            case Method.ROTATED:
                return self._rotate_key(params)
            case Method.FETCH | Method.FILE_READ | Method.FILE_WRITE:
                return await self._transfer(method, params)
            case Method.PTY_READ | Method.PTY_WRITE:
                return await self._terminal(method, params)
            case Method.AUDIT:
                after, limit = int(params.get("after", 0)), min(int(params.get("limit", 500)), 1_000)
                return {"entries": [each.plain() for each in self.spool.entries(after, limit)]}
            case _:
                raise RpcFailed(RpcCode.UNKNOWN, f"this node does not know {method[:100]!r}")

    async def _transfer(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        try:
            if method == Method.FETCH:
                return self.transfers.output(params)
            if not self.floor.file_transfer:
                raise RpcFailed(RpcCode.DISABLED, "the node's own file does not turn file_transfer on")
            if method == Method.FILE_READ:
                return await self.transfers.read(params)
            return await self.transfers.write(params)
        except (TransferProblem, OSError) as problem:
            raise RpcFailed(RpcCode.PARAMS, str(problem)) from None

    async def _terminal(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if not self.floor.pty_support:
            raise RpcFailed(RpcCode.DISABLED, "the node's own file does not turn pty_support on")
        try:
            if method == Method.PTY_READ:
                return await self.terminals.read(params)
            return await self.terminals.write(params)
        except (TerminalProblem, OSError) as problem:
            raise RpcFailed(RpcCode.PARAMS, str(problem)) from None

    def _sync_policy(self, params: Mapping[str, Any]) -> str:
        document = params.get("policy")
        if not isinstance(document, dict):
            raise RpcFailed(RpcCode.PARAMS, "policy is missing")
        try:
            self._use_policy(document)
        except PolicyProblem as problem:
            raise RpcFailed(RpcCode.PARAMS, str(problem)) from None
        return self.serve.policy.version

    def _use_policy(self, document: Mapping[str, Any]) -> None:
        policy = node_policy(self.floor.document, document, self.floor.roots)
        if policy.version != self.serve.policy.version:
            self.spool.keep(HUB_POLICY, dict(document))
            self.spool.note("policy", "", {"version": policy.version})
        self.serve.policy = policy

    def _use_key(self, key: SigningKey) -> None:
        self.serve.node = replace(self.serve.node, public_key=key.public)
        self.serve.sign = key.sign

    def _rotate(self) -> dict[str, Any]:
        old, new = self.folder.key(), self.folder.new_key()
        agent_id = self.serve.node.agent_id
        self.spool.note(KEY, "", {"new_public_key": new.public})
        return {
            "public_key": new.public,
            "signature": old.sign(rotation_message(agent_id, old.public, new.public)),
            "proof": new.sign(rotation_message(agent_id, old.public, new.public)),
        }

    def _rotate_key(self, params: Mapping[str, Any]) -> dict[str, Any]:
        pending = self.folder.pending_key()
        if pending is not None and params.get("public_key") == pending.public:
            self._use_key(self._adopt_key())
        return {}

    def _adopt_key(self) -> SigningKey:
        """Use the new key from now on; the record says since when."""
        key = self.folder.adopt_new_key()
        self.spool.note(KEY, "", {"public_key": key.public})
        return key

    def _tell(self, status: str, reason: str) -> None:
        with suppress(OSError):
            self.folder.write_status({"status": status, "reason": reason, "since": time.time()})
