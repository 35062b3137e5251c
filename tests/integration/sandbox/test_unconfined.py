import asyncio
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox
from contract.sandbox_contract import SandboxContract, Witness, names

RUN = f"test-{secrets.token_hex(8)}"
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

DRIVER = """
import asyncio, sys
from pathlib import Path
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox

sandbox = UnconfinedSandbox(Path(sys.argv[1]), sys.argv[2])
asyncio.run(sandbox.run_command(sys.argv[3], timeout_s=300))
"""


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


class TestUnconfined(SandboxContract):
    @pytest.fixture
    def sandbox(self, workspace: Path) -> Sandbox:
        return UnconfinedSandbox(workspace, RUN)


def seen(output: bytes) -> dict[str, str]:
    return dict(line.split("=", 1) for line in output.decode().splitlines())


async def environment_of_a_command(workspace: Path, environment: Mapping[str, str]) -> dict[str, str]:
    sandbox = UnconfinedSandbox(workspace, RUN, environment={"PATH": os.environ["PATH"], **environment})
    return seen((await sandbox.run_command("env", timeout_s=60)).stdout)


def started_as_of(run_id: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "300"], env={"PATH": os.environ["PATH"], "FABRIC_RUN_ID": run_id})


def driver_of(workspace: Path, command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(workspace), RUN, command],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def lives(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in {"Z", "X"}
    return False


async def test_it_says_aloud_that_it_is_no_wall(workspace: Path) -> None:
    assert UnconfinedSandbox(workspace, RUN).level == "C"


async def test_a_command_sees_no_keys_or_tokens(workspace: Path) -> None:
    secrets = {
        "OPENAI_API_KEY": "k",
        "AWS_SECRET_ACCESS_KEY": "k",
        "GITHUB_TOKEN": "k",
        "SSH_AUTH_SOCK": "/tmp/agent",
        "BASH_ENV": "evil.sh",
        "BASH_FUNC_ls%%": "() { echo evil; }",
        "LD_PRELOAD": "evil.so",
        "HTTPS_PROXY": "http://user:password@proxy:3128",
    }
    harmless = {"HOME": "/home/ada", "LC_TIME": "C", "https_proxy": "http://proxy:3128", "TERM": "xterm-256color"}
    environment = await environment_of_a_command(workspace, secrets | harmless)
    assert not secrets.keys() & environment.keys()
    assert environment["HOME"] == "/home/ada"
    assert environment["LC_TIME"] == "C"
    assert environment["https_proxy"] == "http://proxy:3128"
    assert environment["TERM"] == "dumb"
    assert environment["FABRIC_RUN_ID"] == RUN
    assert environment["PATH"] == os.environ["PATH"]


@LINUX
async def test_a_command_inherits_no_open_file(workspace: Path) -> None:
    outcome = await UnconfinedSandbox(workspace, RUN).run_command("echo /proc/self/fd/*; echo $BASHPID", timeout_s=60)
    # 255 would be bash's own script; the glob itself opens 3.
    assert outcome.stdout.split(b"\n")[0].split() == [b"/proc/self/fd/%d" % number for number in range(4)]


async def test_a_command_has_no_child_that_it_did_not_start(workspace: Path) -> None:
    code = "import os\ntry:\n    os.wait()\nexcept ChildProcessError:\n    print('none')"
    outcome = await UnconfinedSandbox(workspace, RUN).run_command(f'{sys.executable} -c "{code}"', timeout_s=60)
    assert (outcome.stdout, outcome.timed_out) == (b"none\n", False)


async def test_a_workspace_that_is_gone_is_an_error_that_does_not_name_its_place(tmp_path: Path) -> None:
    sandbox = UnconfinedSandbox(tmp_path / "none", RUN)
    with pytest.raises(FileNotFoundError, match="cannot be started") as caught:
        await sandbox.run_command("true", timeout_s=60)
    assert str(tmp_path) not in str(caught.value)


async def test_a_command_too_long_for_the_system_fails_clearly(workspace: Path) -> None:
    with pytest.raises(OSError, match="cannot be started: Argument list too long"):
        await UnconfinedSandbox(workspace, RUN).run_command(": " + "x" * 20_000_000, timeout_s=60)


async def test_the_limit_on_output_holds_to_the_byte(workspace: Path) -> None:
    sandbox = UnconfinedSandbox(workspace, RUN, max_output_bytes=5)
    exact = await sandbox.run_command("printf 12345", timeout_s=60)
    assert (exact.stdout, exact.stdout_dropped) == (b"12345", 0)
    longer = await sandbox.run_command("printf 123456789", timeout_s=60)
    assert (longer.stdout, longer.stdout_dropped) == (b"12789", 4)


async def test_a_hundred_megabytes_pass_without_being_kept(workspace: Path) -> None:
    begun = time.monotonic()
    outcome = await UnconfinedSandbox(workspace, RUN).run_command("head -c 100000000 /dev/zero", timeout_s=20)
    assert len(outcome.stdout) + outcome.stdout_dropped == 100_000_000
    assert len(outcome.stdout) == 64 * 1024
    assert time.monotonic() - begun < 60


async def test_no_file_stays_open_after_commands(workspace: Path) -> None:
    sandbox = UnconfinedSandbox(workspace, RUN)
    await sandbox.run_command("true", timeout_s=60)
    before = len(names(Path("/dev/fd")))
    for _ in range(5):
        await sandbox.run_command("true", timeout_s=60)
        await sandbox.run_command("sleep 60", timeout_s=0.01)
        await sandbox.write_file("a/b", b"")
        await sandbox.list_files(".", max_entries=10)
        with pytest.raises(FileNotFoundError):
            await sandbox.read_file("none", max_bytes=1)
    assert len(names(Path("/dev/fd"))) == before


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("sleep 300", id="one process"),
        pytest.param("trap '' TERM HUP; sleep 300 | sleep 300 & sleep 300; true", id="several, deaf"),
        pytest.param("timeout 300 sleep 300", id="in a group of its own", marks=LINUX),
        pytest.param("setsid sleep 300 & wait", id="in a session of its own", marks=LINUX),
    ],
)
async def test_a_driver_killed_takes_the_processes_of_its_command_with_it(
    workspace: Path, witness: Witness, command: str
) -> None:
    driver = driver_of(workspace, f"echo $$ > pid; {witness.HOLD} {command}")
    try:
        await witness.begun()
        assert lives(driver.pid)
        driver.send_signal(signal.SIGKILL)
        assert driver.wait(timeout=60) == -signal.SIGKILL
        deadline = time.monotonic() + 60
        while witness.alive():
            assert time.monotonic() < deadline, "a process of the command outlived its driver"
            await asyncio.sleep(0.01)
        assert not lives(int((workspace / "pid").read_text()))
    finally:
        driver.kill()
        driver.wait()


@LINUX
async def test_leftovers_of_this_run_end_and_those_of_others_do_not(workspace: Path) -> None:
    # A run of its own: the watcher of a driver killed above may still be ending.
    run = f"test-{secrets.token_hex(8)}"
    ours, theirs, similar = started_as_of(run), started_as_of("another"), started_as_of(f"{run}2")
    try:
        assert await UnconfinedSandbox(workspace, run).end_leftovers() == 1
        assert ours.wait(timeout=60) == -signal.SIGKILL
        assert theirs.poll() is None
        assert similar.poll() is None
        assert await UnconfinedSandbox(workspace, run).end_leftovers() == 0
    finally:
        for process in (ours, theirs, similar):
            process.kill()
            process.wait()
