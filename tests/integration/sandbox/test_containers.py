import asyncio
import os
import secrets
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from agent_fabric.config.schema.sandbox import SandboxConfig, SandboxLimits
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.tools.specs import ToolContext
from agent_fabric.infrastructure.packs.container_pack import ContainerisedPack
from agent_fabric.infrastructure.packs.engineering import build_engineering_pack
from agent_fabric.infrastructure.sandbox.effect_guard import EffectGuard
from agent_fabric.infrastructure.sandbox.effect_guard_process import boot_time
from agent_fabric.infrastructure.sandbox.levels import SENTENCES, RunSandboxes, SandboxChoice
from agent_fabric.infrastructure.sandbox.podman import ContainerSandbox
from agent_fabric.infrastructure.sandbox.podman_engine import LABEL, Engine, find_engine, remove_containers
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox
from integration.sandbox.image import import_busybox, remove_image, static_busybox
from services import need, need_program

pytestmark = pytest.mark.slow

IMAGE = "localhost/agent-fabric-test:busybox"

DRIVER = """
import asyncio, sys
from pathlib import Path
from agent_fabric.infrastructure.sandbox.podman import ContainerSandbox
from agent_fabric.infrastructure.sandbox.podman_engine import find_engine

workspace = Path(sys.argv[1])
box = ContainerSandbox(workspace, sys.argv[2], image=sys.argv[3], engine=find_engine(), hidden=workspace.parents[2])
asyncio.run(box.run_command("echo begun > begun; sleep 300", timeout_s=300))
"""


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    need_program("podman", package="podman")
    busybox = static_busybox()
    need(busybox, "needs a static busybox; on Debian and Ubuntu: apt install busybox-static")
    assert busybox is not None
    engine = find_engine()
    import_busybox(engine, IMAGE, busybox)
    yield engine
    remove_image(engine, IMAGE)


@pytest.fixture
def run_id() -> str:
    return str(uuid.uuid4())


@pytest.fixture
def workspace(fabric: Path, run_id: str) -> Path:
    workspace = fabric / "runs" / run_id / "workspace"
    workspace.mkdir(parents=True)
    return workspace


@pytest.fixture
def fabric() -> Iterator[Path]:
    # Not below a folder that is closed to others: the container's user must get there.
    fabric = Path("/var/tmp") / f"fabric-test-{secrets.token_hex(8)}"
    fabric.mkdir()
    yield fabric
    subprocess.run(["rm", "-rf", str(fabric)], check=True)


@pytest.fixture
async def box(engine: Engine, workspace: Path, run_id: str, fabric: Path) -> AsyncIterator[ContainerSandbox]:
    limits = SandboxLimits(processes=64, total_memory_mb=256, file_size_mb=8, total_disk_mb=64)
    box = ContainerSandbox(workspace, run_id, image=IMAGE, engine=engine, limits=limits, hidden=fabric)
    yield box
    await box.aclose()
    assert await containers(engine, run_id) == []


def driver_of(workspace: Path, run_id: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(workspace), run_id, IMAGE],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


async def containers(engine: Engine, run_id: str) -> list[str]:
    _, listed = await engine.run("ps", "--all", "--filter", f"label={LABEL}={run_id}", "--format", "{{.Names}}")
    return listed.split()


async def test_commands_run_one_after_another_in_the_same_container(
    box: ContainerSandbox, engine: Engine, workspace: Path, run_id: str
) -> None:
    first = await box.run_command("echo out; echo err >&2; echo done > made; exit 3", timeout_s=30)
    assert (first.exit_code, first.stdout, first.stderr) == (3, b"out\n", b"err\n")
    assert (workspace / "made").read_text() == "done\n"
    assert len(await containers(engine, run_id)) == 1
    assert (await box.run_command("cat made; false | true", timeout_s=30)).stdout == b"done\n"
    assert len(await containers(engine, run_id)) == 1
    assert await box.write_file("from-outside", b"x") is True
    assert (await box.run_command("echo more >> from-outside; cat from-outside", timeout_s=30)).stdout == b"xmore\n"


async def test_a_variable_reaches_its_command_as_it_is_and_no_other(box: ContainerSandbox) -> None:
    value = "a'b\"c$(id) é\nlast"
    command = 'echo "${GIVEN-nothing}"'
    given = await box.run_command(command, timeout_s=60, environment={"GIVEN": value})
    assert given.stdout.decode() == f"{value}\n"
    assert (await box.run_command(command, timeout_s=60)).stdout == b"nothing\n"


async def test_a_container_has_no_network_no_root_and_a_read_only_system(box: ContainerSandbox) -> None:
    outcome = await box.run_command(
        "id -u; ls /sys/class/net; echo x > /bin/x; echo x > /etc/x; echo fine > /tmp/x; cat /tmp/x; "
        "while read -r line; do case $line in CapEff*|NoNewPrivs*) echo $line;; esac; done < /proc/self/status",
        timeout_s=30,
    )
    lines = outcome.stdout.decode().split("\n")
    assert lines[0] != "0"
    assert lines[1:3] == ["lo", "fine"]
    assert "CapEff: 0000000000000000" in lines
    assert "NoNewPrivs: 1" in lines
    assert outcome.stderr.count(b"Read-only file system") == 2


async def test_what_a_project_obeys_cannot_be_written(box: ContainerSandbox, workspace: Path) -> None:
    (workspace / ".git" / "hooks").mkdir(parents=True)
    (workspace / ".git" / "config").write_text("[core]\n")
    outcome = await box.run_command(
        "echo x > .git/hooks/post-commit; echo x >> .git/config; echo x > .git/fine; echo x > .envrc", timeout_s=30
    )
    assert outcome.exit_code == 0
    assert outcome.stderr.count(b"Read-only file system") == 2
    assert b"[undone: '.envrc' is protected]" in outcome.stderr
    await box.aclose()
    assert sorted(path.name for path in workspace.iterdir()) == [".envrc.refused", ".git"]
    assert (workspace / ".git" / "config").read_text() == "[core]\n"


async def test_nothing_outlives_its_command_and_one_out_of_time_may_clean_up(box: ContainerSandbox) -> None:
    await box.run_command("sleep 300 & setsid sleep 300 & true", timeout_s=30)
    left = await box.run_command("for p in /proc/[0-9]*; do cat $p/cmdline; echo; done", timeout_s=30)
    assert b"300" not in left.stdout
    cleaned = await box.run_command("trap 'echo cleaned; exit 7' TERM; echo begun; sleep 300 & wait", timeout_s=1)
    assert (cleaned.stdout, cleaned.exit_code, cleaned.timed_out) == (b"begun\ncleaned\n", 7, True)
    begun = time.monotonic()
    deaf = await box.run_command("trap '' TERM; sleep 300; sleep 300", timeout_s=1)
    assert (deaf.exit_code, deaf.timed_out) == (-signal.SIGKILL, True)
    assert time.monotonic() - begun < 60
    assert (await box.run_command("echo again", timeout_s=30)).stdout == b"again\n"


async def test_a_cancelled_command_ends(box: ContainerSandbox, workspace: Path) -> None:
    task = asyncio.create_task(box.run_command("echo $$ > begun; sleep 300; echo x > survived", timeout_s=60))
    async with asyncio.timeout(30):
        while not (workspace / "begun").exists():
            await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    left = await box.run_command("for p in /proc/[0-9]*; do cat $p/cmdline; echo; done", timeout_s=30)
    assert b"300" not in left.stdout


async def test_limits_hold(box: ContainerSandbox) -> None:
    forks = await box.run_command("i=0; while [ $i -lt 200 ]; do sleep 20 & i=$((i+1)); done", timeout_s=30)
    assert b"can't fork" in forks.stderr
    size = await box.run_command("head -c 20000000 /dev/zero > big; ls -la big", timeout_s=30)
    assert b"8388608" in size.stdout
    await box.run_command("rm big", timeout_s=30)
    output = await box.run_command("seq 1 1000000", timeout_s=30)
    assert len(output.stdout) == 64 * 1024
    assert output.stdout_dropped > 1_000_000


async def test_two_commands_at_once_do_not_end_each_other(box: ContainerSandbox) -> None:
    results = await asyncio.gather(
        *(box.run_command(f"sleep 0.{number}; echo {number}", timeout_s=60) for number in (1, 9))
    )
    assert [result.stdout for result in results] == [b"1\n", b"9\n"]


async def test_an_image_that_is_not_there_is_an_error_in_the_engines_words(
    engine: Engine, workspace: Path, run_id: str, fabric: Path
) -> None:
    box = ContainerSandbox(workspace, run_id, image="localhost/no-such-image:1", engine=engine, hidden=fabric)
    with pytest.raises(OSError, match=r"cannot be started: .*no-such-image"):
        await box.run_command("true", timeout_s=30)
    await box.aclose()
    assert await containers(engine, run_id) == []


async def test_a_driver_killed_takes_its_container_with_it(engine: Engine, workspace: Path, run_id: str) -> None:
    driver = driver_of(workspace, run_id)
    try:
        async with asyncio.timeout(60):
            while not (workspace / "begun").exists():
                await asyncio.sleep(0.05)
        driver.kill()
        driver.wait()
        async with asyncio.timeout(30):
            while await containers(engine, run_id):
                await asyncio.sleep(0.2)
    finally:
        driver.kill()
        driver.wait()


async def test_containers_of_an_earlier_driver_are_removed_and_those_of_others_are_not(
    engine: Engine, workspace: Path, run_id: str
) -> None:
    async def left_behind(label: str) -> None:
        name = f"fabric-test-{secrets.token_hex(8)}"
        options = ("--detach", "--name", name, "--label", f"{LABEL}={label}", "--ulimit", "nofile=1024:1024")
        # As a first process, `sleep` is deaf to the word to end: nobody need wait for it.
        more = ("--ulimit", "nproc=4096:4096", "--network", "none", "--stop-timeout", "0")
        code, _ = await engine.run("run", *options, *more, IMAGE, "sleep", "300")
        assert code == 0

    await left_behind(run_id)
    await left_behind(f"{run_id}2")
    choice = SandboxChoice(level="C", why="for a test", sentence=SENTENCES["C"])
    sandboxes = RunSandboxes(choice, SandboxConfig(level="C"), containers=True)
    try:
        assert await sandboxes.end_leftovers(RunId(run_id), str(workspace)) == 1
        assert await containers(engine, run_id) == []
        assert len(await containers(engine, f"{run_id}2")) == 1
    finally:
        assert await remove_containers(engine, f"{run_id}2") == 1


@pytest.mark.proves("AF-107", "AF-108")
async def test_a_pack_with_an_image_runs_its_shell_in_the_container_and_nothing_else(
    box: ContainerSandbox, workspace: Path, run_id: str
) -> None:
    pack = ContainerisedPack(build_engineering_pack(UnconfinedSandbox(workspace, run_id)), box)
    context = ToolContext(run_id=RunId(run_id), call_id=CallId("c"), timeout_s=30, network_allowed=False)
    done = await pack.execute_tool("shell", {"command": "ls /; pwd"}, context)
    assert done.output["stdout"].split()[-1] == "/workspace"
    assert "root" not in done.output["stdout"].split()
    await pack.execute_tool("write_file", {"path": "a.txt", "content": "hello"}, context)
    read = await pack.execute_tool("shell", {"command": "cat a.txt"}, context)
    assert read.output["stdout"] == "hello"
    assert pack.sandbox_level == "A+"


def test_without_an_engine_a_person_is_told_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="neither podman nor docker") as caught:
        find_engine(path=str(tmp_path))
    assert "apt install podman" in caught.value.hint
    with pytest.raises(ConfigError, match="no program 'nerdctl'"):
        find_engine(("nerdctl", "--x"), path=str(tmp_path))


@pytest.mark.proves("SC-6")
async def test_the_guard_of_effects_ends_a_container_too(
    box: ContainerSandbox, workspace: Path, run_id: str, engine: Engine
) -> None:
    guard, witness = EffectGuard(), workspace / "witness"
    command = "while true; do echo x >> witness; sleep 0.05; done"
    running = asyncio.create_task(box.run_command(command, timeout_s=60))
    try:
        async with asyncio.timeout(30):
            while not witness.exists():
                assert not running.done(), running
                await asyncio.sleep(0.05)
        guard.renew(boot_time())  # nothing of this process is asked: it might be frozen
        async with asyncio.timeout(60):
            while witness.stat().st_size != await _size_later(witness):
                pass
        assert await containers(engine, run_id) == []
    finally:
        guard.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _size_later(file: Path) -> int:
    await asyncio.sleep(0.5)
    return file.stat().st_size
