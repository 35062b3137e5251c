"""A shell at a terminal: typed into, read from, recorded, and gone with everything that it has started."""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.ports.node import FloorProblem
from agent_fabric.domain.fleet.node_policy import node_policy, proposed_call
from agent_fabric.domain.fleet.node_tools import FOR_PEOPLE, NODE_TOOLS, SHELL
from agent_fabric.domain.policy.verdicts import Verdict
from agent_fabric.infrastructure.node import terminals as module
from agent_fabric.infrastructure.node.floor_file import read_floor
from agent_fabric.infrastructure.node.processes import MARK, Commands, run_as
from agent_fabric.infrastructure.node.terminals import TerminalProblem, Terminals

ID = "execution-1"
INSTANCE = "terminal-test"
PATIENCE_S = 60.0


@pytest.fixture
def terminals(tmp_path: Path) -> Terminals:
    user = run_as("nobody", allow_root=True)._replace(home=str(tmp_path))
    return Terminals(Commands(user, INSTANCE, tmp_path), tmp_path)


class Person:
    """Somebody at the other end."""

    def __init__(self, terminals: Terminals, running: "asyncio.Task[dict[str, Any]]") -> None:
        self.terminals = terminals
        self.running = running
        self.seen = b""

    async def type(self, text: str, **more: Any) -> None:
        await self.terminals.write({"execution_id": ID, "data": b64encode(text.encode()).decode(), **more})

    async def until(self, text: str) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while text.encode() not in self.seen:
                told = await self.terminals.read({"execution_id": ID, "offset": len(self.seen)})
                self.seen += b64decode(told["data"])


@asynccontextmanager
async def opened(terminals: Terminals, **arguments: Any) -> AsyncIterator[Person]:
    running = asyncio.create_task(terminals.run(ID, arguments))
    async with asyncio.timeout(PATIENCE_S):
        while ID not in terminals._open and not running.done():
            await asyncio.sleep(0.01)
    try:
        yield Person(terminals, running)
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


def marked() -> list[str]:
    """Return processes of the shell that still live."""
    found = []
    for each in Path("/proc").iterdir():
        with suppress(OSError):
            if each.name.isdigit() and f"{MARK}={INSTANCE}/".encode() in (each / "environ").read_bytes():
                found.append(each.name)
    return found


@pytest.mark.proves("FL-13")
async def test_a_person_types_and_reads_and_all_of_it_is_recorded(terminals: Terminals, tmp_path: Path) -> None:
    async with opened(terminals, columns=100, rows=30) as person:
        await person.type("stty size; tty; echo made-$((40+2))\n")
        await person.until("made-42")
        assert b"30 100" in person.seen
        assert b"/dev/pts/" in person.seen
        await person.type("", columns=120, rows=40)
        await person.type("stty size\n")
        await person.until("40 120")
        await person.type("exit 3\n")
        result = await asyncio.wait_for(person.running, PATIENCE_S)
    assert (result["status"], result["exit_code"]) == ("success", 3)
    assert "made-42" in result["stdout"]
    assert (tmp_path / f"{ID}.out").stat().st_size == result["bytes"]["stdout"]
    with pytest.raises(TerminalProblem, match="ended"):
        await terminals.read({"execution_id": ID})


@pytest.mark.proves("FL-13")
async def test_nothing_is_left_of_a_shell_when_the_connection_ends(terminals: Terminals) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    async with opened(terminals) as person:
        await person.type(
            "sleep 1000 & (setsid nohup sleep 1001 >/dev/null 2>&1 &) ; trap '' HUP TERM; echo ready-$((1+1))\n"
        )
        await person.until("ready-2")
        async with asyncio.timeout(PATIENCE_S):
            while len(marked()) < 3:  # one that is just being replaced by `sleep` shows no environment
                await asyncio.sleep(0.01)
        terminals.end_all("the connection to the hub has ended")
        result = await asyncio.wait_for(person.running, PATIENCE_S)
    assert (result["status"], result["error"]) == ("cancelled", "the connection to the hub has ended")
    assert marked() == []
    assert len(list(Path("/proc/self/fd").iterdir())) == before


async def test_a_shell_that_nobody_uses_ends_and_so_does_one_that_lasts_too_long(terminals: Terminals) -> None:
    idle = await asyncio.wait_for(terminals.run(ID, {"idle_s": 0.2}), PATIENCE_S)
    assert idle["error"] == "nobody typed anything for 0.2 s"
    late = await asyncio.wait_for(terminals.run(ID, {"timeout_s": 0.2}), PATIENCE_S)
    assert late["error"] == "it lasted longer than 0.2 s"


async def test_a_shell_that_prints_faster_than_it_is_read_waits(terminals: Terminals) -> None:
    async with opened(terminals) as person:
        await person.type("yes\n")
        await person.until("y\r\ny\r\n")
        await asyncio.sleep(0.3)
        assert terminals._open[ID].size <= 2 * module.MAX_UNREAD_BYTES + len(person.seen)
        await person.type("\x03echo over-$((2+2))\n")
        await person.until("over-4")


async def test_no_shell_prints_without_end(terminals: Terminals, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SPOOLED_BYTES", 50_000)
    async with opened(terminals) as person:
        await person.type("yes\n")
        result = await asyncio.wait_for(person.running, PATIENCE_S)
    assert "more than 50,000 bytes" in result["error"]


async def test_what_is_typed_into_a_shell_that_is_just_being_opened_arrives(terminals: Terminals) -> None:
    early = asyncio.create_task(
        terminals.write({"execution_id": ID, "data": b64encode(b"echo early-$((1+1))\n").decode()})
    )
    await asyncio.sleep(0)
    async with opened(terminals) as person:
        await early
        await person.until("early-2")


async def test_what_cannot_be_typed_is_refused(terminals: Terminals, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OPENING_S", 0.1)
    with pytest.raises(TerminalProblem, match="no such shell"):
        await terminals.write({"execution_id": "execution-2", "data": ""})
    async with opened(terminals) as person:
        for wrong in ({"data": "%"}, {"data": b64encode(bytes(70_000)).decode()}, {"columns": 0, "rows": 10}):
            with pytest.raises(TerminalProblem):
                await terminals.write({"execution_id": ID, **wrong})
        with pytest.raises(TerminalProblem, match="offset"):
            await terminals.read({"execution_id": ID, "offset": 10**9})
        monkeypatch.setattr(module, "MAX_SHELLS", 1)
        assert "open on this node" in (await terminals.run("execution-2", {}))["error"]
        await person.type("", end=True)
        assert (await person.running)["error"] == "the person has left"


@pytest.mark.proves("FL-13")
def test_every_session_is_asked_for_however_open_the_documents_are() -> None:
    rule = {"id": "shells", "verdict": "allow", "tools": [SHELL]}
    policy = node_policy({"profile": "open", "rules": [rule]}, {"profile": "open", "rules": [rule]})
    assert policy.judge(proposed_call(NODE_TOOLS[SHELL], {}, "web")).verdict is Verdict.ASK
    blocked = node_policy({"rules": [{"id": "none", "verdict": "block", "tools": [SHELL]}]}, {"profile": "open"})
    assert blocked.judge(proposed_call(NODE_TOOLS[SHELL], {}, "web")).verdict is Verdict.BLOCK
    assert SHELL in FOR_PEOPLE


@pytest.mark.proves("FL-13", "FL-15")
def test_a_floor_that_blocks_commands_has_no_shell_for_a_hub_that_is_believed(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text('pty_support = true\nblocked_commands = ["reboot"]\n')
    with pytest.raises(FloorProblem, match="pty_support"):
        read_floor(path)
    path.write_text("pty_support = true\n")
    assert read_floor(path).pty_support
