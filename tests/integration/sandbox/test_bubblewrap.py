import asyncio
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.config.schema.sandbox import SandboxLimits
from agent_fabric.infrastructure.sandbox.bubblewrap import BubblewrapSandbox
from contract.sandbox_contract import SandboxContract, Witness, names
from integration.sandbox.boxes import box, said
from services import need_program

need_program("bwrap", package="bubblewrap")

RUN = f"test-{secrets.token_hex(8)}"

DRIVER = """
import asyncio, sys
from pathlib import Path
from agent_fabric.infrastructure.sandbox.bubblewrap import BubblewrapSandbox

async def main():
    sandbox = BubblewrapSandbox(Path(sys.argv[1]), sys.argv[2])
    await sandbox.run_command("true", timeout_s=30)
    await sandbox.run_command(sys.argv[3], timeout_s=300)

asyncio.run(main())
"""

KILLED_AT_ONCE = """
import os, subprocess, sys
from contextlib import ExitStack
from pathlib import Path
from agent_fabric.infrastructure.sandbox.bubblewrap import BubblewrapSandbox

built = BubblewrapSandbox(Path(sys.argv[1]), sys.argv[2])._build(ExitStack())
subprocess.Popen(
    built.command,
    stdin=subprocess.DEVNULL,
    pass_fds=(built.control[1].fileno(), *built.files),
    env=built.environment,
    cwd="/",
    start_new_session=True,
)
os.kill(os.getpid(), 9)
"""
"""Starts a box and is gone before bubblewrap has said anything."""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    return workspace


@pytest.fixture
def witness(workspace: Path) -> Iterator[Witness]:
    witness = Witness(workspace)
    yield witness
    witness.close()


class TestBubblewrap(SandboxContract):
    @pytest.fixture
    async def sandbox(self, workspace: Path) -> AsyncIterator[Sandbox]:
        async with box(workspace, run_id=RUN) as sandbox:
            yield sandbox


def driver_of(workspace: Path, *command: str, program: str = DRIVER) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", program, str(workspace), RUN, *command],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


async def dead(witness: Witness) -> None:
    async with asyncio.timeout(60):
        while witness.alive():
            await asyncio.sleep(0.01)


async def no_box_left() -> None:
    def boxes() -> list[Path]:
        found = []
        for file in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if f"FABRIC_BOX_OF={RUN}\0".encode() in file.read_bytes() + b"\0":
                    found.append(file)
        return found

    async with asyncio.timeout(60):
        while boxes():
            await asyncio.sleep(0.01)


async def test_all_commands_of_a_run_share_one_box(workspace: Path) -> None:
    note = f"/tmp/{uuid4()}"  # a name that nobody else has used in the real folder
    async with box(workspace) as sandbox:
        await said(sandbox, f"echo kept > {note}; echo kept > ~/note")
        assert await said(sandbox, f"cat {note} ~/note") == "kept\nkept"
    async with box(workspace) as another:
        assert (await another.run_command(f"cat {note}", timeout_s=60)).exit_code == 1
    assert not Path(note).exists()


async def test_commands_at_the_same_time_start_one_box(workspace: Path) -> None:
    async with box(workspace) as sandbox:
        found = await asyncio.gather(*(said(sandbox, "readlink /proc/self/ns/pid") for _ in range(20)))
        assert len(set(found)) == 1


async def test_a_closed_box_is_made_anew_by_the_next_command(workspace: Path) -> None:
    async with box(workspace) as sandbox:
        await said(sandbox, "touch /tmp/first")
        await sandbox.aclose()
        await sandbox.aclose()
        assert await said(sandbox, "ls -A /tmp | grep -c first || true") == "0"


async def test_closing_ends_what_runs(workspace: Path, witness: Witness) -> None:
    async with box(workspace) as sandbox:
        task = asyncio.create_task(sandbox.run_command(f"{witness.HOLD} sleep 300", timeout_s=60))
        await witness.begun()
        await sandbox.aclose()
        outcome = await task
        assert (outcome.exit_code, outcome.timed_out) == (-9, False)
        assert b"closed" in outcome.stderr
        assert await witness.gone()


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param("kill -9 $PPID", id="its keeper"),
        pytest.param("kill -9 -1", id="everything"),
        pytest.param("kill -STOP $PPID", id="stopping its keeper"),
    ],
)
async def test_who_kills_the_processes_of_its_box_ends_only_the_box(
    workspace: Path, witness: Witness, attack: str
) -> None:
    async with box(workspace) as sandbox:
        await said(sandbox, "touch /tmp/of-the-first-box")
        command = f"{witness.HOLD} setsid sleep 300 & {attack}; sleep 300"
        outcome = await sandbox.run_command(command, timeout_s=1)
        assert outcome.exit_code == -9
        await dead(witness)
        assert await said(sandbox, "echo fine; ls /tmp | grep first || true") == "fine"


async def test_a_command_cannot_look_into_the_worker(workspace: Path) -> None:
    async with box(workspace) as sandbox:
        for process in ("1", "$PPID"):
            for look in ("cat {}/mem", "cat {}/environ", "ls {}/fd/", "ls {}/root/", "exec 3<>{}/mem"):
                outcome = await sandbox.run_command(look.format(f"/proc/{process}"), timeout_s=60)
                assert outcome.exit_code != 0
                assert b"Permission denied" in outcome.stderr


async def test_the_first_process_of_a_box_is_the_worker_which_has_the_limits_and_which_no_command_can_end(
    workspace: Path,
) -> None:
    async with box(workspace, limits=SandboxLimits(file_size_mb=4)) as sandbox:
        await said(sandbox, "touch /tmp/of-the-first-box; kill -9 1; kill -STOP 1; kill -SEGV 1")
        look = "ls /tmp/of-the-first-box; grep -c '^Max file size *4194304 *4194304' /proc/1/limits"
        assert await said(sandbox, look) == "/tmp/of-the-first-box\n1"


async def test_a_command_inherits_no_open_file(workspace: Path) -> None:
    async with box(workspace) as sandbox:
        await said(sandbox, "true")
        await asyncio.gather(
            sandbox.run_command("sleep 0.2", timeout_s=60), sandbox.run_command("sleep 0.2", timeout_s=5)
        )
        # The glob itself opens 3.
        assert await said(sandbox, "echo /proc/self/fd/*") == " ".join(f"/proc/self/fd/{number}" for number in range(4))


async def test_a_command_has_no_child_that_it_did_not_start(workspace: Path) -> None:
    code = "import os\ntry:\n    os.wait()\nexcept ChildProcessError:\n    print('none')"
    async with box(workspace) as sandbox:
        assert await said(sandbox, f'{sys.executable} -c "{code}"') == "none"


async def test_a_command_too_long_for_the_system_fails_clearly(workspace: Path) -> None:
    async with box(workspace) as sandbox:
        with pytest.raises(OSError, match="cannot be started: Argument list too long"):
            await sandbox.run_command(": " + "x" * 20_000_000, timeout_s=60)
        assert await said(sandbox, "echo fine") == "fine"


async def test_the_limit_on_output_holds_to_the_byte(workspace: Path) -> None:
    async with box(workspace, max_output_bytes=5) as sandbox:
        exact = await sandbox.run_command("printf 12345", timeout_s=60)
        assert (exact.stdout, exact.stdout_dropped) == (b"12345", 0)
        longer = await sandbox.run_command("printf 123456789", timeout_s=60)
        assert (longer.stdout, longer.stdout_dropped) == (b"12789", 4)


async def test_a_workspace_that_is_gone_is_an_error_that_does_not_name_its_place(tmp_path: Path) -> None:
    async with box(tmp_path / "none") as sandbox:
        with pytest.raises(FileNotFoundError, match="cannot be started") as caught:
            await sandbox.run_command("true", timeout_s=60)
        assert str(tmp_path) not in str(caught.value)


async def test_no_file_stays_open_after_boxes(workspace: Path) -> None:
    async with box(workspace) as sandbox:
        await sandbox.run_command("true", timeout_s=60)
    before = len(names(Path("/dev/fd")))
    for _ in range(3):
        async with box(workspace) as sandbox:
            await sandbox.run_command("true", timeout_s=60)
            await sandbox.run_command("sleep 60", timeout_s=0.01)
            await sandbox.run_command("kill -9 $PPID", timeout_s=1)
            await sandbox.write_file("a/b", b"")
    assert len(names(Path("/dev/fd"))) == before


async def test_a_cancelled_start_leaves_nothing(workspace: Path) -> None:
    async with box(workspace) as sandbox:
        for delay_s in (0.0, 0.005, 0.02, 0.03):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await sandbox.run_command("sleep 300", timeout_s=60)
        assert await said(sandbox, "echo fine; ps -e -o comm= | grep -c sleep || true") == "fine\n0"
    assert names(workspace) == []


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("sleep 300", id="one process"),
        pytest.param("trap '' TERM HUP; sleep 300 | sleep 300 & sleep 300; true", id="several, deaf"),
        pytest.param("setsid sleep 300 & wait", id="in a session of its own"),
        pytest.param("env -i setsid sleep 300 & wait", id="without a mark"),
    ],
)
async def test_a_driver_killed_takes_its_box_with_it(workspace: Path, witness: Witness, command: str) -> None:
    driver = driver_of(workspace, f"{witness.HOLD} {command}")
    try:
        await witness.begun()
        driver.send_signal(signal.SIGKILL)
        assert driver.wait(timeout=60) == -signal.SIGKILL
        await dead(witness)
        await no_box_left()
    finally:
        driver.kill()
        driver.wait()
    assert await BubblewrapSandbox(workspace, RUN).end_leftovers() == 0
    assert names(workspace) == [witness.NAME]


async def test_a_driver_killed_while_its_box_starts_leaves_none(workspace: Path) -> None:
    assert driver_of(workspace, program=KILLED_AT_ONCE).wait(timeout=60) == -signal.SIGKILL
    await no_box_left()


async def test_leftovers_of_this_run_end_and_those_of_others_do_not(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with box(workspace, run_id=RUN) as left, box(tmp_path / "other", run_id=f"{RUN}2") as other:
        await said(left, "true")
        await said(other, "true")
        task = asyncio.create_task(left.run_command("sleep 300", timeout_s=60))
        await said(left, "true")
        assert await BubblewrapSandbox(workspace, RUN).end_leftovers() >= 1
        assert (await task).exit_code == -9
        assert await said(other, "echo lives") == "lives"


@pytest.mark.slow
async def test_two_hundred_commands_of_which_many_at_once(workspace: Path) -> None:
    async with box(workspace) as sandbox:
        begun = time.monotonic()
        for _ in range(10):
            outcomes = await asyncio.gather(*(said(sandbox, f"echo {number}") for number in range(20)))
            assert outcomes == [str(number) for number in range(20)]
        assert time.monotonic() - begun < 60
