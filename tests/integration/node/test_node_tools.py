"""Commands and files on a node's machine."""

import os
import time
from pathlib import Path

import pytest

from agent_fabric.infrastructure.node.file_tools import NodeFiles
from agent_fabric.infrastructure.node.processes import Commands, RunAs, run_as
from agent_fabric.infrastructure.node.toolbox import Toolbox
from e2e.fabric_process import long_sleep, running, until


@pytest.fixture
def user() -> RunAs:
    return run_as("nobody", allow_root=True)


@pytest.fixture
def commands(tmp_path: Path, user: RunAs) -> Commands:
    return Commands(user, "instance-1", tmp_path)


async def run(commands: Commands, command: str, timeout_s: float = 20.0, execution_id: str = "e1") -> dict[str, object]:
    return await commands.run(execution_id, command, cwd="/", environment={"EXTRA": "x"}, timeout_s=timeout_s)


@pytest.mark.proves("FL-11")
async def test_a_command_tells_how_it_ended_and_what_it_said(commands: Commands) -> None:
    told = await run(commands, "echo $EXTRA; echo bad >&2; exit 3")
    assert (told["status"], told["exit_code"], told["signal"]) == ("error", 3, None)
    assert (told["stdout"], told["stderr"], told["truncated"]) == ("x\n", "bad\n", False)
    killed = await run(commands, "kill -9 $$")
    assert (killed["exit_code"], killed["signal"]) == (None, "SIGKILL")


@pytest.mark.proves("FL-11")
async def test_a_long_output_keeps_its_beginning_and_end_and_stays_whole_on_the_node(
    commands: Commands, tmp_path: Path
) -> None:
    told = await run(commands, "echo first; yes 0123456789 | head -c 2000000; echo; echo last")
    text = str(told["stdout"])
    assert told["truncated"] is True
    assert text.startswith("first\n")
    assert text.endswith("last\n")
    assert len(text) < 200_000
    assert (tmp_path / "e1.out").stat().st_size == told["bytes"]["stdout"]  # type: ignore[index]


@pytest.mark.proves("FL-12")
async def test_a_time_limit_ends_the_whole_tree(commands: Commands) -> None:
    before = time.monotonic()
    sleep = long_sleep()
    told = await run(commands, f"(setsid {sleep} &) ; {sleep}", timeout_s=0.3)
    assert told["status"] == "error"
    assert "longer than" in str(told["error"])
    assert time.monotonic() - before < 60
    await until(lambda: not running(sleep), "its processes ended")


async def test_nothing_of_a_command_stays_behind(commands: Commands) -> None:
    sleep = long_sleep()
    told = await run(commands, f"{sleep} & (setsid {sleep} &); echo done")
    assert told["stdout"] == "done\n"
    await until(lambda: not running(sleep), "its processes ended")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has something to drop")
@pytest.mark.proves("FL-12")
async def test_root_runs_commands_and_opens_files_as_somebody_else(tmp_path: Path) -> None:
    nobody = run_as("nobody", allow_root=False)
    told = await run(Commands(nobody, "i", tmp_path), "id -u")
    assert told["stdout"] == f"{nobody.uid}\n"
    secret = tmp_path / "secret"
    secret.write_text("x")
    secret.chmod(0o600)
    tmp_path.chmod(0o755)
    files = NodeFiles(("/",), tmp_path / "own", nobody)
    assert (await files.read(str(secret), 0, 10))["status"] == "error"


@pytest.mark.proves("FL-10", "FL-15")
async def test_files_are_read_and_written_below_roots_and_never_the_nodes_own(tmp_path: Path, user: RunAs) -> None:
    own, data = tmp_path / "own", tmp_path / "data"
    own.mkdir()
    data.mkdir()
    (own / "key").write_text("secret")
    (data / "link").symlink_to(own / "key")
    (data / "door").symlink_to(own)
    files = NodeFiles((str(tmp_path),), own, user)
    tools = Toolbox(Commands(user, "i", tmp_path), files)
    wrote = await tools.run("e", "write_file", {"path": f"{data}/a.txt", "content": "hello"})
    assert wrote["output"]["created"] is True
    read = await tools.run("e", "read_file", {"path": f"{data}/a.txt", "offset": 1, "max_bytes": 2})
    assert read["output"]["content"] == "el"
    listed = await tools.run("e", "list_files", {"path": str(data)})
    assert [each["name"] for each in listed["output"]["entries"]] == ["a.txt", "door", "link"]
    for path in (f"{own}/key", f"{data}/link", f"{data}/door/key", "/etc/hostname", f"{data}/../own/key"):
        assert (await tools.run("e", "read_file", {"path": path}))["status"] == "error", path
    for path in (f"{own}/key", f"{data}/door/key", f"{data}/door/node.toml"):
        assert (await tools.run("e", "write_file", {"path": path, "content": "x"}))["status"] == "error", path
    assert (own / "key").read_text() == "secret"
    assert (await tools.run("e", "list_files", {"path": f"{data}/door"}))["status"] == "error"


async def test_the_machine_tells_how_it_is(commands: Commands, tmp_path: Path, user: RunAs) -> None:
    tools = Toolbox(commands, NodeFiles(("/",), tmp_path, user))
    info = await tools.run("e", "system_info", {})
    assert info["output"]["memory_available"] > 0
    found = await tools.run("e", "processes", {"limit": 3, "match": ""})
    assert len(found["output"]["processes"]) == 3
