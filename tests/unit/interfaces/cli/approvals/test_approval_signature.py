"""A signature is for what the approval shows, and for nothing else that a hub would like."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agent_fabric.application.fleet.fleet_policy import FLEET_PLAN, NODE_COMMAND
from agent_fabric.application.fleet.remote_tools import execution_id_of_call
from agent_fabric.application.ports.approvals import ApprovalCard, ApprovalStatus
from agent_fabric.client.fabric_client import FabricClient
from agent_fabric.domain.approvals.answers import Question
from agent_fabric.domain.errors import ApprovalRefused, ConfigError
from agent_fabric.domain.fleet.binding import BoundCall, approval_message
from agent_fabric.domain.fleet.plan_signatures import plan_message, root_of
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.infrastructure.fleet.signing import SigningKey, is_signed
from agent_fabric.interfaces.cli.approvals.approval_signature import add_signature
from long_calls import script

ADA = SigningKey.of(bytes(range(32)))
SHOWN = {"node": "web-1", "tool_name": "run_command", "arguments": {"command": "uptime"}, "execution_id": "execution-1"}
BOUND = BoundCall(
    agent_id="n1",
    node_key="aa",
    execution_id="execution-1",
    tool_name="run_command",
    arguments={"command": "uptime"},
    uid=1000,
    policy_version="node-1",
    expires_at=100.5,
).hash


class StubHub:
    """A hub that shows one approval, and keeps signatures."""

    def __init__(self, *, bound: str = BOUND, approvers: tuple[str, ...] = ("ada",), quorum: int = 1) -> None:
        self.kept: list[dict[str, Any]] = []
        self.node = {
            "id": "n1",
            "name": "web-1",
            "public_key": "aa",
            "reported": {"uid": 1000, "approvers": list(approvers), "quorum": quorum},
        }
        self.bound = bound
        self.tool = NODE_COMMAND
        self.args: dict[str, Any] = SHOWN
        self.calls: list[dict[str, Any]] = []

    @property
    def client(self) -> FabricClient:
        async def show(_: str) -> ApprovalCard:
            shown = {"tool": self.tool, "args": self.args, "run_id": "run-1", "call_id": "c1", "approval_id": "a1"}
            standing = {"status": ApprovalStatus.PENDING, "question": Question.MAY_IT_RUN, "binding": "ab" * 32}
            return cast("ApprovalCard", SimpleNamespace(**shown, **standing))

        async def node(_: str) -> Any:
            return self.node

        async def command(_: str, __: str) -> Any:
            return {
                "policy_version": "node-1",
                "expires_at": 100.5,
                "bound_hash": self.bound,
                "signatures": list(self.kept),
            }

        async def sign(_: str, __: str, *, approver: str, signature: str) -> Any:
            self.kept.append({"approver": approver, "signature": signature})

        async def prepare(_: str, __: str) -> Any:
            return await command("", "")

        async def nodes_list() -> Any:
            return [self.node]

        async def plan(_: str) -> Any:
            return {"id": "p1", "calls": self.calls}

        async def sign_plan(_: str, *, approver: str, signature: str) -> Any:
            self.kept.append({"approver": approver, "signature": signature})
            return {"signatures": self.kept}

        nodes = SimpleNamespace(
            show=node, command=command, sign=sign, prepare=prepare, list=nodes_list, plan=plan, sign_plan=sign_plan
        )
        return cast("FabricClient", SimpleNamespace(approvals=SimpleNamespace(show=show), nodes=nodes))


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "ada.key"
    path.touch(0o600)
    path.write_text(ADA.seed.hex())
    return path


@pytest.mark.proves("FL-18")
async def test_what_is_shown_is_signed(key: Path) -> None:
    hub = StubHub()
    signed = await add_signature(hub.client, "a1", str(key))
    assert signed.is_enough
    assert hub.kept[0]["approver"] == "ada"
    assert is_signed(ADA.public, approval_message(BOUND), hub.kept[0]["signature"])


@pytest.mark.proves("WB-4")
async def test_a_long_call_is_signed_only_with_the_hash_of_what_was_shown(key: Path) -> None:
    hub = StubHub()
    hub.args = {**SHOWN, "arguments": {"command": script(403, "middle")}}
    for wrong, why in (("", "4[0-9]+ lines"), ("cd" * 6, "not the call that was shown")):
        with pytest.raises(ApprovalRefused, match=why):
            await add_signature(hub.client, "a1", str(key), wrong)
    with pytest.raises(ApprovalRefused, match="something else"):  # it is read, and not what the hub wants signed
        await add_signature(hub.client, "a1", str(key), "ab" * 6)
    assert hub.kept == []


@pytest.mark.proves("FL-18", "FL-19")
async def test_a_hub_that_wants_something_else_signed_gets_nothing(key: Path) -> None:
    hub = StubHub(bound="0" * 64)
    with pytest.raises(ApprovalRefused, match="something else"):
        await add_signature(hub.client, "a1", str(key))
    assert hub.kept == []


async def test_a_quorum_needs_different_approvers(key: Path) -> None:
    hub = StubHub(approvers=("ada", "bob"), quorum=2)
    with pytest.raises(ConfigError, match="ada, bob"):
        await add_signature(hub.client, "a1", str(key))
    assert not (await add_signature(hub.client, "a1", f"ada={key}")).is_enough
    assert not (await add_signature(hub.client, "a1", f"ada={key}")).is_enough
    assert (await add_signature(hub.client, "a1", f"bob={key}")).is_enough


async def test_a_key_that_others_can_read_is_not_used(key: Path) -> None:
    key.chmod(0o644)
    with pytest.raises(ConfigError, match="read by others"):
        await add_signature(StubHub().client, "a1", str(key))
    with pytest.raises(ConfigError, match="no key"):
        await add_signature(StubHub().client, "a1", str(key.with_name("other")))


@pytest.mark.proves("FL-18", "FL-25")
async def test_what_an_agent_asks_for_is_signed_as_it_is_shown(key: Path) -> None:
    args = {"node": "web-1", "command": "uptime"}
    bound = BoundCall(
        agent_id="n1",
        node_key="aa",
        execution_id=execution_id_of_call(RunId("run-1"), CallId("c1")),
        tool_name="run_command",
        arguments={"command": "uptime"},
        uid=1000,
        policy_version="node-1",
        expires_at=100.5,
    ).hash
    hub = StubHub(bound=bound)
    hub.tool, hub.args = "node_run_command", args
    assert (await add_signature(hub.client, "a1", str(key))).is_enough
    assert is_signed(ADA.public, approval_message(bound), hub.kept[0]["signature"])
    hub.args = {**args, "command": "reboot"}
    with pytest.raises(ApprovalRefused, match="something else"):
        await add_signature(hub.client, "a1", str(key))


@pytest.mark.proves("FL-18", "FL-24")
async def test_a_plan_is_signed_once_for_all_its_machines(key: Path) -> None:
    hub = StubHub()
    hub.node["reported"]["approvals"] = "signed"  # type: ignore[index]  # it is a table
    hub.tool = FLEET_PLAN
    hub.args = {"plan_id": "p1", "tool_name": "run_command", "arguments": {"command": "uptime"}, "nodes": ["web-1"]}
    hub.calls = [
        {
            "node_id": "n1",
            "node": "web-1",
            "execution_id": "execution-1",
            "policy_version": "node-1",
            "expires_at": 100.5,
            "bound_hash": BOUND,
        }
    ]
    assert (await add_signature(hub.client, "a1", str(key))).is_enough
    assert is_signed(ADA.public, plan_message(root_of([BOUND])), hub.kept[0]["signature"])
    for wrong in ({"arguments": {"command": "reboot"}}, {"nodes": ["web-1", "db-1"]}, {"tool_name": "read_file"}):
        hub.args = {**hub.args, **wrong}
        with pytest.raises(ApprovalRefused, match="something else"):
            await add_signature(hub.client, "a1", str(key))


async def test_only_commands_for_machines_are_signed(key: Path) -> None:
    hub = StubHub()
    hub.tool = "shell"
    with pytest.raises(ApprovalRefused, match="machines"):
        await add_signature(hub.client, "a1", str(key))
