"""How much commands at level A may use; the limits here are small, so that reaching them costs little."""

import asyncio
import os
from pathlib import Path

import pytest

from agent_fabric.config.schema.sandbox import SandboxLimits
from e2e.fabric_process import long_sleep, running, until
from integration.sandbox.boxes import box, said
from services import need_program

need_program("bwrap", package="bubblewrap")

HOLD = "python3 -c 'import time; kept = bytearray({} << 20); print(1, flush=True); time.sleep(2)'"
FORKS = """
import os, time
count = 0
try:
    for _ in range(60):
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        count += 1
except BlockingIOError:
    pass
print(count)
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    return workspace


def used_mb(folder: Path) -> int:
    return sum(path.lstat().st_blocks for path in folder.rglob("*")) // 2048


@pytest.mark.proves("AF-120")
async def test_memory_of_one_process_is_limited(workspace: Path) -> None:
    async with box(workspace, limits=SandboxLimits(memory_mb=64)) as sandbox:
        outcome = await sandbox.run_command("python3 -c 'bytearray(100 << 20)'", timeout_s=30)
        assert outcome.exit_code == 1
        assert b"MemoryError" in outcome.stderr
        assert await said(sandbox, "python3 -c 'print(len(bytearray(20 << 20)))'") == str(20 << 20)


@pytest.mark.proves("AF-120")
async def test_memory_of_all_processes_together_is_limited(workspace: Path) -> None:
    async with box(workspace, limits=SandboxLimits(memory_mb=64, total_memory_mb=96)) as sandbox:
        holders = " & ".join([HOLD.format(40)] * 4)
        outcome = await sandbox.run_command(f"{holders} & wait", timeout_s=15)
        assert b"more than 96 MB of memory in all" in outcome.stderr
        # A control group ends those who ask for more; where there is none, the whole command ends a moment later.
        assert b"Killed" in outcome.stderr or outcome.exit_code != 0
        assert not outcome.timed_out
        assert await said(sandbox, "echo fine") == "fine"


@pytest.mark.proves("AF-120")
async def test_the_size_of_one_file_is_limited(workspace: Path) -> None:
    async with box(workspace, limits=SandboxLimits(file_size_mb=2)) as sandbox:
        outcome = await sandbox.run_command("head -c 5M /dev/zero > big", timeout_s=30)
        assert outcome.exit_code != 0
    assert (workspace / "big").stat().st_size == 2 << 20


@pytest.mark.proves("AF-120")
async def test_what_all_files_take_on_the_disk_is_limited(workspace: Path) -> None:
    async with box(workspace, limits=SandboxLimits(file_size_mb=4, total_disk_mb=8)) as sandbox:
        fill = "for i in $(seq 40); do head -c 2M /dev/urandom > f$i; sleep 0.1; done; sleep 20"
        outcome = await sandbox.run_command(fill, timeout_s=20)
        assert (outcome.exit_code, outcome.timed_out) == (-9, False)
        assert b"[ended: the commands of this run used more than 8 MB of disk in all" in outcome.stderr
        assert used_mb(workspace) < 40
        assert await said(sandbox, "rm f*; echo fine") == "fine"


@pytest.mark.proves("WA-12")
async def test_a_watch_that_dies_ends_the_box(workspace: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with box(workspace) as sandbox:
        command = long_sleep()
        running_command = asyncio.create_task(sandbox.run_command(f"touch started; {command}", timeout_s=30))
        await until((workspace / "started").exists, "the command starts")
        workspace.rename(workspace.with_name("elsewhere"))  # so nothing can be counted there
        outcome = await running_command
        assert (outcome.exit_code, outcome.timed_out) == (-9, False)
        assert b"[ended: its limits could not be checked" in outcome.stderr
        await until(lambda: not running(command), "the command has ended")
    assert "The limits of a box could not be checked; it was ended" in caplog.text


async def test_files_without_a_name_count(workspace: Path) -> None:
    async with box(workspace, limits=SandboxLimits(file_size_mb=4, total_disk_mb=8)) as sandbox:
        fill = 'for i in 3 4 5 6 7 8; do eval "exec $i>f"; rm f; head -c 3M /dev/urandom >&$i; done; sleep 20'
        outcome = await sandbox.run_command(fill, timeout_s=20)
        assert b"more than 8 MB of disk in all" in outcome.stderr


async def test_files_without_a_name_count_even_if_their_process_hides_them(workspace: Path) -> None:
    hidden = (
        "import ctypes, os, time\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\nfor nth in range(6):\n"
        "    file = os.open('.', os.O_TMPFILE | os.O_WRONLY)\n    os.write(file, bytes(3 << 20))\ntime.sleep(20)\n"
    )
    (workspace / "hidden.py").write_text(hidden)
    async with box(workspace, limits=SandboxLimits(file_size_mb=4, total_disk_mb=8)) as sandbox:
        outcome = await sandbox.run_command("/usr/bin/python3 hidden.py", timeout_s=20)
        assert not outcome.timed_out
        assert b"sandbox.limits.total_disk_mb" in outcome.stderr


@pytest.mark.proves("AF-120")
async def test_private_folders_in_memory_are_limited(workspace: Path) -> None:
    async with box(workspace, limits=SandboxLimits(total_disk_mb=8)) as sandbox:
        outcome = await sandbox.run_command("head -c 6M /dev/zero > /tmp/x; head -c 6M /dev/zero > ~/x", timeout_s=30)
        assert outcome.stderr.count(b"No space left on device") == 2


@pytest.mark.proves("AF-120")
async def test_the_number_of_processes_is_limited_and_the_box_lives_on(workspace: Path) -> None:
    async with box(workspace, limits=SandboxLimits(processes=24)) as sandbox:
        outcome = await sandbox.run_command(f"python3 -c '{FORKS}'", timeout_s=30)
        assert 10 <= int(outcome.stdout) < 24, outcome
        assert await said(sandbox, "echo fine; ps -e -o comm= | grep -c sleep || true") == "fine\n0"


async def test_processes_of_other_boxes_do_not_count(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    limits = SandboxLimits(processes=24)
    async with box(workspace, limits=limits) as one, box(tmp_path / "other", limits=limits, run_id="other") as other:
        held = asyncio.create_task(one.run_command("for i in $(seq 15); do sleep 20 & done; wait", timeout_s=3))
        assert await said(other, "for i in $(seq 12); do sleep 0.2 & done; wait; echo fine") == "fine"
        assert (await held).timed_out


@pytest.mark.skipif(os.getuid() != 0, reason="control groups are root's here")
async def test_no_control_group_is_left(workspace: Path) -> None:
    def groups() -> set[str]:
        return {str(path) for path in Path("/sys/fs/cgroup").rglob("fabric-of-this-test-*")}

    async with box(workspace, run_id="of-this-test") as sandbox:
        await said(sandbox, "true")
    assert groups() == set()
