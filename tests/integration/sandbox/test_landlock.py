import asyncio
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.config.schema.sandbox import SandboxLimits
from agent_fabric.infrastructure.sandbox.landlock import LandlockSandbox
from agent_fabric.infrastructure.sandbox.landlock_helper import OVER_LIMIT, watch_over
from agent_fabric.infrastructure.sandbox.landlock_rules import landlock_version
from agent_fabric.infrastructure.sandbox.landlock_watch import Watch
from agent_fabric.infrastructure.sandbox.landlock_watch import children as children_of
from contract.sandbox_contract import SandboxContract, Witness, names
from e2e.fabric_process import long_sleep, running, until
from services import need

need(sys.platform == "linux" and landlock_version() >= 6, "needs Linux with Landlock of version 6 or later")

RUN = f"test-{secrets.token_hex(8)}"

DRIVER = """
import asyncio, sys
from pathlib import Path
from agent_fabric.infrastructure.sandbox.landlock import LandlockSandbox

asyncio.run(LandlockSandbox(Path(sys.argv[1]), sys.argv[2]).run_command(sys.argv[3], timeout_s=300))
"""


class TestLandlock(SandboxContract):
    @pytest.fixture
    async def sandbox(self, workspace: Path) -> AsyncIterator[Sandbox]:
        sandbox = LandlockSandbox(workspace, RUN)
        yield sandbox
        await sandbox.aclose()


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


@pytest.fixture
async def box(workspace: Path) -> AsyncIterator[LandlockSandbox]:
    limits = SandboxLimits(memory_mb=400, total_memory_mb=200, file_size_mb=40, total_disk_mb=64)
    box = LandlockSandbox(workspace, RUN, limits=limits)
    yield box
    await box.aclose()


async def test_a_cancelled_start_leaves_nothing(workspace: Path) -> None:
    before = children()
    box = LandlockSandbox(workspace, RUN)
    for delay_s in (0.0, 0.005, 0.02, 0.1):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(delay_s):
                await box.run_command("sleep 300", timeout_s=60)
        await box.aclose()
        assert children() == before


def children() -> set[str]:
    """Return the processes that this one has started, on whatever thread."""
    return {number for tasks in Path("/proc/self/task").glob("*/children") for number in tasks.read_text().split()}


def driver_of(workspace: Path, command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(workspace), RUN, command],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


UNDER_RULES = """
import os, sys
from agent_fabric.infrastructure.sandbox.landlock_rules import Allowed, Ruleset

workspace, secret, version = sys.argv[1], sys.argv[2], int(sys.argv[3])
rules = Ruleset(Allowed(read=("/usr", "/lib", "/lib64"), write=(workspace,)), at_most=version)
rules.lay_on_this_process()
open(f"{workspace}/made", "w").close()
try:
    open(secret)
except PermissionError:
    print("closed", rules.version, rules.scopes_signals)
"""


@pytest.mark.parametrize("version", range(1, 7))
def test_the_rules_of_older_kernels_close_files_too(workspace: Path, tmp_path: Path, version: int) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    done = subprocess.run(
        [sys.executable, "-c", UNDER_RULES, str(workspace), str(secret), str(version)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == f"closed {version} {version >= 6}\n", done.stderr


async def test_a_command_sees_no_keys_and_a_home_of_its_own(workspace: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "OPENAI_API_KEY": "k", "HOME": "/home/ada", "LD_PRELOAD": "evil.so"}
    box = LandlockSandbox(workspace, RUN, environment=environment)
    outcome = await box.run_command("env; touch ~/here $TMPDIR/there", timeout_s=60)
    await box.aclose()
    seen = dict(line.split("=", 1) for line in outcome.stdout.decode().splitlines())
    assert outcome.exit_code == 0
    assert not {"OPENAI_API_KEY", "LD_PRELOAD"} & seen.keys()
    assert seen["HOME"] != "/home/ada"
    assert seen["FABRIC_RUN_ID"] == RUN


async def test_a_command_inherits_no_open_file(box: LandlockSandbox) -> None:
    code = "import os\nfor n in range(3, 200):\n    try:\n        os.fstat(n); print(n)\n    except OSError: pass"
    outcome = await box.run_command(f'/usr/bin/python3 -c "{code}"', timeout_s=60)
    assert (outcome.exit_code, outcome.stdout) == (0, b"")


async def test_closing_a_box_removes_its_temporary_folder(workspace: Path) -> None:
    run_id = f"test-{secrets.token_hex(8)}"
    box = LandlockSandbox(workspace, run_id)
    await box.run_command("echo x > $TMPDIR/x", timeout_s=60)
    mine = f"fabric-box-{run_id}-*"
    assert len(list(Path(tempfile.gettempdir()).glob(mine))) == (1 if os.getuid() else 0)  # root's is in memory
    await box.aclose()
    assert list(Path(tempfile.gettempdir()).glob(mine)) == []
    assert (await box.run_command("echo again", timeout_s=60)).stdout == b"again\n"
    await box.aclose()


async def test_no_file_stays_open_after_commands(box: LandlockSandbox) -> None:
    await box.run_command("true", timeout_s=60)
    before = len(names(Path("/dev/fd")))
    for _ in range(5):
        await box.run_command("true", timeout_s=60)
        await box.run_command("sleep 60", timeout_s=0.01)
    assert len(names(Path("/dev/fd"))) == before


@pytest.mark.parametrize(
    "command", ["sleep 300", "trap '' TERM HUP; setsid sleep 300 & sleep 300; true", "env -i setsid sleep 300 & wait"]
)
async def test_a_driver_killed_takes_the_processes_of_its_command_with_it(
    workspace: Path, witness: Witness, command: str
) -> None:
    driver = driver_of(workspace, f"{witness.HOLD} {command}")
    try:
        await witness.begun()
        driver.send_signal(signal.SIGKILL)
        driver.wait(timeout=60)
        async with asyncio.timeout(60):
            while witness.alive():
                await asyncio.sleep(0.01)
    finally:
        driver.kill()
        driver.wait()


async def test_a_command_that_kills_everything_it_can_kills_only_itself(box: LandlockSandbox) -> None:
    bystander = asyncio.create_task(box.run_command("sleep 1; echo unharmed", timeout_s=20))
    violent = await box.run_command("kill -9 -1; sleep 60", timeout_s=20)
    assert violent.exit_code in {0, -9}
    assert (await bystander).stdout == b"unharmed\n"


async def test_too_much_memory_in_all_ends_the_command_and_says_so(box: LandlockSandbox) -> None:
    code = "x = bytearray(90_000_000); import time; time.sleep(30)"
    command = " & ".join(["/usr/bin/python3 -c '" + code + "'"] * 3)
    outcome = await box.run_command(command, timeout_s=25)
    assert outcome.exit_code == -signal.SIGKILL
    assert b"[ended: it used more than 200 MB of memory in all (sandbox.limits.total_memory_mb)]" in outcome.stderr
    assert not outcome.timed_out


async def test_too_much_disk_in_all_ends_the_command_and_what_is_there_can_be_removed(
    box: LandlockSandbox, workspace: Path
) -> None:
    outcome = await box.run_command(
        "for n in 1 2 3 4; do head -c 30000000 /dev/zero > big-$n; done; sleep 20", timeout_s=30
    )
    assert b"[ended: it used more than 64 MB of disk in all (sandbox.limits.total_disk_mb)]" in outcome.stderr
    more = await box.run_command("head -c 5000000 /dev/zero > more; ls -l more", timeout_s=30)
    assert b" 1048576 " in more.stdout
    assert (await box.run_command("rm big-* more", timeout_s=30)).exit_code == 0
    again = await box.run_command("head -c 5000000 /dev/zero > more; ls -l more", timeout_s=30)
    assert b" 5000000 " in again.stdout


async def test_what_a_project_would_obey_is_put_aside_when_a_command_makes_it(
    box: LandlockSandbox, workspace: Path
) -> None:
    (workspace / ".inputrc").write_text("a person's\n")
    outcome = await box.run_command("echo evil > .envrc; mkdir .vscode; echo evil > .vscode/tasks.json", timeout_s=60)
    assert b"[undone: '.envrc' is protected]" in outcome.stderr
    assert names(workspace) == [".envrc.refused", ".inputrc", ".vscode.refused"]


async def test_a_workspace_that_is_gone_is_an_error_that_does_not_name_its_place(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="cannot be started") as caught:
        await LandlockSandbox(tmp_path / "none", RUN).run_command("true", timeout_s=60)
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.proves("WA-12")
async def test_a_keeper_that_is_killed_takes_its_command_with_it(box: LandlockSandbox, workspace: Path) -> None:
    command = long_sleep()
    running_command = asyncio.create_task(box.run_command(f"touch started; {command}; true", timeout_s=30))
    await until((workspace / "started").exists, "the command starts")
    await until(lambda: running(command), "it sleeps")
    (helper,) = children()
    (keeper,) = children_of(int(helper))
    os.kill(keeper, signal.SIGKILL)
    outcome = await running_command
    assert not outcome.timed_out
    assert outcome.exit_code != 0
    await until(lambda: not running(command), "the command has ended")
    assert (await box.run_command("echo fine", timeout_s=60)).stdout == b"fine\n"


class Fails(Watch):
    """Cannot look."""

    def look(self) -> str:
        raise RecursionError


@pytest.mark.proves("WA-12")
def test_a_watch_that_fails_is_told_to_the_driver(workspace: Path) -> None:
    driver, keeper = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    news, tell = os.pipe()
    with driver, keeper, os.fdopen(news), os.fdopen(tell, "w"):
        watch_over(Fails(SandboxLimits().model_dump(), (str(workspace),)), keeper, news)
        assert driver.recv(200) == OVER_LIMIT + b"more than could be checked (RecursionError)"


async def test_a_command_costs_little_once_the_box_is_there(box: LandlockSandbox) -> None:
    """All commands are forked from one helper; `benchmarks/bench_sandbox.py` measures what that costs."""
    await box.run_command("true", timeout_s=60)
    helper = box._helper
    for _ in range(3):
        await box.run_command("true", timeout_s=60)
        assert box._helper is helper
    assert helper is not None
