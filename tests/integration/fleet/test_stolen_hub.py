"""A stolen hub: database, keys and tokens are known. It sends what it likes; the node does what its floor says."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.fleet.json_rpc import RpcFailed
from agent_fabric.application.node.serve_commands import NodeSelf, ServeCommands
from agent_fabric.domain.fleet.binding import BoundCall, approval_message
from agent_fabric.domain.fleet.chain import first_broken
from agent_fabric.domain.fleet.node_policy import node_policy
from agent_fabric.domain.fleet.protocol import Method
from agent_fabric.infrastructure.fleet.signing import SigningKey
from agent_fabric.infrastructure.node.file_tools import NodeFiles
from agent_fabric.infrastructure.node.floor_file import Floor, read_floor
from agent_fabric.infrastructure.node.hub_session import HubSession
from agent_fabric.infrastructure.node.node_folder import Enrolment, NodeFolder
from agent_fabric.infrastructure.node.processes import Commands, run_as
from agent_fabric.infrastructure.node.spool import Spool
from agent_fabric.infrastructure.node.terminals import Terminals
from agent_fabric.infrastructure.node.toolbox import Toolbox
from agent_fabric.infrastructure.node.transfers import Transfers

ADA, HUB, NODE, OTHER = (SigningKey.of(bytes([n]) * 32) for n in (1, 2, 3, 4))
UID = 4242


def floor_text(mode: str) -> str:
    return (
        f'approvals = "{mode}"\nblocked_commands = ["reboot"]\nallow_root = true\n[approvers]\nada = "{ADA.public}"\n'
    )


@pytest.fixture(params=["signed", "hub"])
def floor(request: pytest.FixtureRequest, tmp_path: Path) -> Floor:
    (tmp_path / "node.toml").write_text(floor_text(request.param))
    return read_floor(tmp_path / "node.toml")


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    made = Spool(tmp_path / "spool.db")
    yield made
    made.close()


@pytest.fixture
async def node(tmp_path: Path, floor: Floor, spool: Spool) -> HubSession:
    """The node's end, proven: the hub that talks to it has the right key."""
    folder = NodeFolder(tmp_path / "own")
    folder.make()
    folder.write_enrolment(Enrolment(agent_id="node-1", name="web", url="http://127.0.0.1:1", hub_key=HUB.public))
    user = run_as("nobody", allow_root=True)
    files = NodeFiles(("/",), folder.path, user)
    transfers = Transfers(files, spool, folder.path / "uploads", folder.path / "outputs")
    commands = Commands(user, "i", tmp_path)
    serve = ServeCommands(
        node=NodeSelf(agent_id="node-1", public_key=NODE.public, uid=UID),
        spool=spool,
        toolbox=Toolbox(commands, files, transfers=transfers),
        check_approval=floor.check_approval,
        policy=node_policy(floor.document),
        sign=NODE.sign,
    )
    terminals = Terminals(commands, tmp_path)
    session = HubSession(folder, floor, spool, serve, transfers, terminals, "test")
    session._proven.set()
    return session


class StolenHub:
    """Forges calls with everything that a hub knows."""

    def __init__(self, node: HubSession, trace: Path) -> None:
        self.node = node
        self.trace = trace
        self.number = 0

    def call(self, command: str = "", **more: Any) -> dict[str, Any]:
        self.number += 1
        now = time.time()
        return {
            "tool_name": "run_command",
            "arguments": {"command": command or f"echo forged >> {self.trace}"},
            "execution_id": f"execution-{self.number}",
            "approved_by": "ada",
            "issued_at": now,
            "expires_at": now + 600,
            "policy_version": self.node.serve.policy.version,
            **more,
        }

    def bound(self, call: Mapping[str, Any], **more: Any) -> BoundCall:
        made = BoundCall(
            agent_id="node-1",
            node_key=NODE.public,
            execution_id=call["execution_id"],
            tool_name=call["tool_name"],
            arguments=call["arguments"],
            uid=UID,
            policy_version=call["policy_version"],
            expires_at=call["expires_at"],
        )
        return replace(made, **more)

    def approved(self, call: dict[str, Any], key: SigningKey | None = None, **bound: Any) -> dict[str, Any]:
        digest = self.bound(call, **bound).hash
        signatures = [] if key is None else [{"approver": "ada", "signature": key.sign(approval_message(digest))}]
        return {**call, "approval": {"hash": digest, "approver": "ada", "signatures": signatures}}

    def forged(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield what no node that wants signatures carries out."""
        signed = self.approved(self.call(), ADA)  # a true one, for another call
        yield "nothing at all", self.call()
        yield "only the name", self.call(approved_by="ada")
        yield "an empty approval", self.call(approval={})
        yield "no signature", self.approved(self.call())
        yield "the hub's signature", self.approved(self.call(), HUB)
        yield "a stranger's signature", self.approved(self.call(), OTHER)
        yield "the node's own signature", self.approved(self.call(), NODE)
        yield "a reused signature", self.call(approval=signed["approval"])
        yield "a reused signature under our hash", self._with_signatures(signed)
        yield "for another node", self.approved(self.call(), ADA, agent_id="node-2")
        yield "for another key", self.approved(self.call(), ADA, node_key=OTHER.public)
        yield "for another id", self.approved(self.call(), ADA, execution_id="execution-other")
        yield "for another tool", self.approved(self.call(), ADA, tool_name="read_file")
        yield "for another user", self.approved(self.call(), ADA, uid=0)
        yield "for another policy", self.approved(self.call(), ADA, policy_version="other")
        yield "for another time", self.approved(self.call(), ADA, expires_at=1.0)
        yield "for another command", self.approved(self.call(), ADA, arguments={"command": "uptime"})
        yield "with another environment", self._changed(environment={"PATH": "/tmp"})
        yield "in another folder", self._changed(cwd="/tmp")
        yield "with more time", self._changed(timeout_s=600)
        yield "expired", self._late()
        yield "good for a year", self._for_a_year()
        yield "an unknown approver", self._by("eve", OTHER)
        yield "an approver of no name", self._by("", ADA)
        yield "signatures that are none", self._listed([None, 1, "x", {}, {"approver": "ada"}])
        yield "a signature of zeros", self._listed([{"approver": "ada", "signature": "00" * 64}])
        yield "a signature that is no text", self._listed([{"approver": "ada", "signature": 7}])
        yield "a forged armour", self._listed([{"approver": "ada", "signature": _ARMOUR}])
        yield "a rolled back policy", self.approved(self.call(policy_version="node-0000000000000000"), ADA)
        yield "a tool that upgrades", {**self.call(), "tool_name": "upgrade", "arguments": {"url": "http://x"}}

    def _with_signatures(self, signed: Mapping[str, Any]) -> dict[str, Any]:
        call = self.approved(self.call())
        return {**call, "approval": {**call["approval"], "signatures": signed["approval"]["signatures"]}}

    def _changed(self, **arguments: Any) -> dict[str, Any]:
        call = self.approved(self.call(), ADA)
        return {**call, "arguments": {**call["arguments"], **arguments}}

    def _late(self) -> dict[str, Any]:
        return self.approved(self.call(expires_at=time.time() - 1), ADA)

    def _for_a_year(self) -> dict[str, Any]:
        return self.approved(self.call(expires_at=time.time() + 365 * 86_400), ADA)

    def _by(self, name: str, key: SigningKey) -> dict[str, Any]:
        call = self.approved(self.call(), key)
        call["approval"]["signatures"][0]["approver"] = name
        return call

    def _listed(self, signatures: list[Any]) -> dict[str, Any]:
        call = self.approved(self.call())
        return {**call, "approval": {**call["approval"], "signatures": signatures}}


_ARMOUR = "-----BEGIN SSH SIGNATURE-----\nU1NIU0lHAAAAAQ==\n-----END SSH SIGNATURE-----"


@pytest.mark.proves("FL-15", "FL-17", "FL-18", "FL-19")
async def test_thirty_forged_forms_execute_nothing_that_needs_a_signature_and_nothing_that_is_blocked(
    node: HubSession, spool: Spool, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    hub = StolenHub(node, trace)
    forms = list(hub.forged())
    assert len(forms) == 30
    for name, call in forms:
        before = spool.head[0]
        try:
            result = await node._handle(Method.EXECUTE, call)
        except RpcFailed:
            assert spool.head[0] > before, f"{name} stands in no record"
            continue
        assert not node.floor.signed, f"{name} was carried out: {result}"
    if node.floor.signed:
        assert not trace.exists()
    for key in (None, HUB, ADA):
        with pytest.raises(RpcFailed):
            await node._handle(Method.EXECUTE, hub.approved(hub.call("reboot"), key))
    assert first_broken(spool.entries(0, 1_000)) is None
    true = await node._handle(Method.EXECUTE, hub.approved(hub.call(f"echo true >> {trace}"), ADA))
    assert true["status"] == "success"
    again = await asyncio.gather(*(node._handle(Method.POLICY_SYNC, {"policy": {"profile": "open"}}) for _ in range(2)))
    assert again[0] == again[1]
    open_call = hub.call("reboot")
    with pytest.raises(RpcFailed):  # an open policy of the hub lowers no floor
        await node._handle(Method.EXECUTE, open_call)
    asks = hub.call()
    with pytest.raises(RpcFailed):
        await node._handle(Method.EXECUTE, asks)


@pytest.mark.proves("FL-15")
@pytest.mark.parametrize(
    "method", ["node.configure", "floor.set", "node.upgrade", "file.write", "pty.open", "pty.write", "pty.read", "eval"]
)
async def test_no_message_reaches_the_floor_or_turns_something_on(
    node: HubSession, tmp_path: Path, method: str
) -> None:
    before = (tmp_path / "node.toml").read_text()
    with pytest.raises(RpcFailed):
        await node._handle(method, {"pty_support": True, "profile": "open", "path": str(tmp_path / "node.toml")})
    assert (tmp_path / "node.toml").read_text() == before
    assert node.floor == read_floor(tmp_path / "node.toml")
