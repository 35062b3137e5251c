"""A node carries out each call at most once, and none that its floor forbids."""

import asyncio
import errno
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.node.serve_commands import CallRefused, NodeSelf, ServeCommands
from agent_fabric.application.ports.node import SpoolState
from agent_fabric.domain.fleet.binding import BoundCall, approval_message
from agent_fabric.domain.fleet.chain import first_broken, head_message
from agent_fabric.domain.fleet.node_policy import node_policy
from agent_fabric.domain.fleet.node_tools import NODE_TOOLS
from agent_fabric.domain.fleet.protocol import MAX_IN_FLIGHT, RpcCode
from agent_fabric.infrastructure.fleet.signing import SigningKey, is_signed
from agent_fabric.infrastructure.node.floor_file import Floor
from agent_fabric.infrastructure.node.spool import Spool

KEY = SigningKey.of(bytes(range(32)))
ADA = SigningKey.of(bytes(reversed(range(32))))
NODE = NodeSelf(agent_id="node-1", public_key=KEY.public, uid=1000)


@dataclass
class CountingTools:
    """Tools that count."""

    ran: list[str] = field(default_factory=list)
    hold: asyncio.Event | None = None

    def names(self) -> Sequence[str]:
        return tuple(NODE_TOOLS)

    async def run(self, execution_id: str, tool_name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        self.ran.append(execution_id)
        if self.hold is not None:
            await self.hold.wait()
        return {"status": "success", "exit_code": 0, "stdout": f"{tool_name} {len(self.ran)}"}


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    made = Spool(tmp_path / "spool.db")
    yield made
    made.close()


def node(spool: Spool, tools: CountingTools, floor: Floor | None = None) -> ServeCommands:
    floor = floor or Floor()
    return ServeCommands(
        node=NODE,
        spool=spool,
        toolbox=tools,
        check_approval=floor.check_approval,
        policy=node_policy(floor.document),
        sign=KEY.sign,
    )


def call(
    serve: ServeCommands, command: str = "uptime", execution_id: str = "execution-1", **more: Any
) -> dict[str, Any]:
    now = time.time()
    return {
        "tool_name": "run_command",
        "arguments": {"command": command},
        "execution_id": execution_id,
        "approved_by": "",
        "issued_at": now,
        "expires_at": now + 60,
        "policy_version": serve.policy.version,
        **more,
    }


def approved(params: dict[str, Any], **more: Any) -> dict[str, Any]:
    bound = BoundCall(
        agent_id=NODE.agent_id,
        node_key=NODE.public_key,
        execution_id=params["execution_id"],
        tool_name=params["tool_name"],
        arguments=params["arguments"],
        uid=NODE.uid,
        policy_version=params["policy_version"],
        expires_at=params["expires_at"],
    )
    return {**params, "approved_by": "ada", "approval": {"hash": bound.hash, "approver": "ada", **more}}


async def refusal(serve: ServeCommands, params: Mapping[str, Any]) -> RpcCode:
    with pytest.raises(CallRefused) as refused:
        await serve(params)
    return refused.value.code


@pytest.mark.proves("FL-20")
async def test_the_same_call_runs_once_and_gives_the_same_result(spool: Spool) -> None:
    tools = CountingTools()
    serve = node(spool, tools)
    params = call(serve)
    first, second = await serve(params), await serve(params)
    assert first == second
    assert tools.ran == ["execution-1"]
    again = node(spool, tools)  # after a restart
    assert await again(params) == first
    assert tools.ran == ["execution-1"]


async def test_a_second_delivery_while_it_runs_waits_for_the_same_result(spool: Spool) -> None:
    tools = CountingTools(hold=asyncio.Event())
    serve = node(spool, tools)
    params = call(serve)
    both = [asyncio.create_task(serve(params)) for _ in range(2)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert tools.hold is not None
    tools.hold.set()
    results = await asyncio.gather(*both)
    assert results[0] == results[1]
    assert len(tools.ran) == 1


@pytest.mark.proves("FL-20")
async def test_an_execution_id_is_never_used_for_another_call(spool: Spool) -> None:
    tools = CountingTools()
    serve = node(spool, tools)
    await serve(call(serve))
    assert await refusal(serve, call(serve, "uname -a")) is RpcCode.REUSED
    assert tools.ran == ["execution-1"]
    assert spool.entries(0, 100)[-1].kind == "refused"


@pytest.mark.proves("FL-21")
async def test_a_call_that_a_stop_cut_off_is_in_doubt_and_never_runs_again(spool: Spool) -> None:
    tools = CountingTools(hold=asyncio.Event())
    serve = node(spool, tools)
    params = call(serve)
    task = asyncio.create_task(serve(params))
    while not tools.ran:
        await asyncio.sleep(0)
    task.cancel()  # as the process would be killed: the call goes on in nobody's memory
    fresh = CountingTools()
    again = node(spool, fresh)
    (left,) = again.list_unreported()
    assert left.result is not None
    assert left.result["status"] == "in_doubt"
    assert (await again(params))["status"] == "in_doubt"
    assert fresh.ran == []
    tools.hold.set() if tools.hold else None


async def test_a_call_that_was_received_and_not_begun_runs_once(spool: Spool) -> None:
    tools = CountingTools()
    serve = node(spool, tools)
    params = call(serve)
    spool.receive("execution-1", approved(params)["approval"]["hash"], "run_command", {})
    assert (await serve(params))["status"] == "success"
    assert tools.ran == ["execution-1"]


@pytest.mark.proves("FL-20", "FL-21")
async def test_a_call_is_written_twice_when_a_slot_is_free_and_begins_only_in_its_turn_when_none_is(
    spool: Spool,
) -> None:
    writes = list[str]()
    spool._database.set_trace_callback(lambda query: writes.append(query) if query == "COMMIT" else None)
    serve = node(spool, CountingTools())
    await serve(call(serve))
    assert len(writes) == 2
    tools = CountingTools(hold=asyncio.Event())
    serve = node(spool, tools)
    asked = [call(serve, execution_id=f"execution-{number}") for number in range(10, 11 + MAX_IN_FLIGHT)]
    tasks = [asyncio.create_task(serve(params)) for params in asked]
    while len(tools.ran) < MAX_IN_FLIGHT:
        await asyncio.sleep(0)
    states = [found.state for params in asked if (found := spool.find(params["execution_id"]))]
    assert states == [SpoolState.STARTED] * MAX_IN_FLIGHT + [SpoolState.RECEIVED]
    assert tools.hold is not None
    tools.hold.set()
    assert [each["status"] for each in await asyncio.gather(*tasks)] == ["success"] * len(asked)
    assert first_broken(spool.entries(0, 100)) is None


async def test_a_call_that_is_ended_before_its_first_step_is_not_in_doubt(spool: Spool) -> None:
    tools = CountingTools()
    serve = node(spool, tools)
    task = asyncio.create_task(serve(call(serve)))
    await asyncio.sleep(0)
    assert serve.cancel("execution-1")
    assert (await task)["status"] == "cancelled"
    assert tools.ran == []
    assert [each.kind for each in spool.entries(0, 100)] == ["received", "started", "finished"]


async def test_a_call_that_is_ended_while_it_waits_for_its_turn_never_runs(spool: Spool) -> None:
    tools = CountingTools(hold=asyncio.Event())
    serve = node(spool, tools)
    asked = [call(serve, execution_id=f"execution-{number}") for number in range(10, 11 + MAX_IN_FLIGHT)]
    tasks = [asyncio.create_task(serve(params)) for params in (*asked, asked[-1])]
    while len(tools.ran) < MAX_IN_FLIGHT:
        await asyncio.sleep(0)
    last = asked[-1]["execution_id"]
    assert serve.cancel(last)
    assert [(await task)["status"] for task in tasks[-2:]] == ["cancelled", "cancelled"]
    assert tools.hold is not None
    tools.hold.set()
    await asyncio.gather(*tasks)
    assert (await serve(asked[-1]))["status"] == "cancelled"
    assert last not in tools.ran


@pytest.mark.proves("FL-15", "FL-16", "FL-17")
async def test_what_changes_something_needs_an_approval_of_exactly_this_call(spool: Spool) -> None:
    tools = CountingTools()
    serve = node(spool, tools)
    params = call(serve, "systemctl restart nginx")
    assert await refusal(serve, params) is RpcCode.APPROVAL
    assert await refusal(serve, {**params, "approved_by": "ada"}) is RpcCode.APPROVAL
    other = approved(call(serve, "systemctl restart sshd"))
    assert await refusal(serve, {**params, "approval": other["approval"]}) is RpcCode.APPROVAL
    agreed = approved(params)
    changed = {**agreed, "arguments": {**agreed["arguments"], "environment": {"PATH": "/tmp"}}}
    assert await refusal(serve, changed) is RpcCode.APPROVAL
    assert tools.ran == []
    assert (await serve(agreed))["status"] == "success"


@pytest.mark.proves("FL-16")
async def test_a_call_judged_by_another_policy_or_too_late_is_refused(spool: Spool) -> None:
    tools = CountingTools()
    serve = node(spool, tools)
    assert await refusal(serve, call(serve, policy_version="other")) is RpcCode.POLICY_CHANGED
    assert await refusal(serve, call(serve, expires_at=time.time() - 1)) is RpcCode.EXPIRED
    assert await refusal(serve, call(serve, expires_at=time.time() + 90_000)) is RpcCode.EXPIRED
    assert await refusal(serve, call(serve, tool_name="format_disk")) is RpcCode.UNKNOWN
    assert tools.ran == []


async def test_what_the_floor_blocks_no_approval_allows(spool: Spool) -> None:
    tools = CountingTools()
    serve = node(spool, tools, Floor(document={"blocked_commands": ["reboot"], "profile": "open"}))
    assert await refusal(serve, approved(call(serve, "reboot"))) is RpcCode.BLOCKED
    assert tools.ran == []


@pytest.mark.proves("FL-18")
async def test_a_node_that_wants_signatures_believes_no_hub(spool: Spool) -> None:
    tools = CountingTools()
    serve = node(spool, tools, Floor(signed=True, approvers={"ada": ADA.public}))
    params = call(serve, "systemctl restart nginx")
    agreed = approved(params)
    message = approval_message(agreed["approval"]["hash"])
    by_hub = [{"approver": "ada", "signature": KEY.sign(message)}]
    assert await refusal(serve, agreed) is RpcCode.APPROVAL
    assert await refusal(serve, approved(params, signatures=by_hub)) is RpcCode.APPROVAL
    by_ada = [{"approver": "ada", "signature": ADA.sign(message)}]
    assert (await serve(approved(params, signatures=by_ada)))["status"] == "success"
    later = call(serve, "systemctl restart nginx", "execution-2")
    assert await refusal(serve, approved(later, signatures=by_ada)) is RpcCode.APPROVAL


@pytest.mark.proves("FL-26")
async def test_every_result_carries_the_signed_head_of_an_unbroken_record(spool: Spool) -> None:
    serve = node(spool, CountingTools())
    result = await serve(call(serve))
    head = result["chain_head"]
    assert is_signed(KEY.public, head_message("node-1", head["position"], head["hash"]), head["signature"])
    entries = spool.entries(0, 100)
    assert [each.kind for each in entries] == ["received", "started", "finished"]
    assert first_broken(entries) is None
    forged = [entries[0], entries[1]._replace(detail={"by": "nobody"}), entries[2]]
    assert first_broken(forged) == 2


@pytest.mark.proves("FL-15", "FL-19")
@pytest.mark.parametrize(
    "execution_id", ["../../../tmp/abc", "/tmp/abcdefg", "short", "a" * 65, "execution 1", "a\0bcdefgh"]
)
async def test_an_execution_id_names_no_file_elsewhere(spool: Spool, execution_id: str) -> None:
    tools = CountingTools()
    serve = node(spool, tools)
    with pytest.raises(CallRefused) as refused:
        await serve(call(serve, execution_id=execution_id))
    assert refused.value.code == RpcCode.PARAMS
    assert tools.ran == []


@pytest.mark.proves("FL-22")
async def test_what_a_full_disk_cannot_remember_is_not_run(tmp_path: Path) -> None:
    class FullSpool(Spool):
        def receive(self, *_: Any, **__: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    tools, spool = CountingTools(), FullSpool(tmp_path / "full")
    serve = node(spool, tools)
    assert await refusal(serve, call(serve)) is RpcCode.BUSY
    assert tools.ran == []
    spool.close()
