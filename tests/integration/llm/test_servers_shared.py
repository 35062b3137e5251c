"""Shared model servers as real processes: started once, found again, restarted, and never left behind.

The server is a stand-in with the real child's life; `test_servers_embedded.py` has the real one.
"""

import asyncio
import os
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent_fabric.domain.errors import ConfigError, ModelError, ModelRefused
from agent_fabric.infrastructure.models.servers.llama_servers import LlamaServers, ServerSpec
from agent_fabric.infrastructure.models.servers.loopback import status_of
from integration.llm.processes import asked, gone, passed, until

CHILD = (sys.executable, str(Path(__file__).with_name("stand_in_child.py")))

STARTER = """
import asyncio, sys
from pathlib import Path
from agent_fabric.infrastructure.models.servers.llama_servers import LlamaServers
from agent_fabric.infrastructure.models.servers.llama_servers import ServerSpec

async def main():
    folder, model, idle_s, *command = sys.argv[1:]
    servers = LlamaServers(Path(folder), command=command)
    endpoint = await servers.ensure(ServerSpec(model=Path(model), idle_s=float(idle_s)))
    print(endpoint.pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"GGUF and so on")
    return file


@asynccontextmanager
async def servers_in(
    tmp_path: Path,
    *extra: str,
    health_every_s: float = 5.0,
    lease_s: float = 600.0,
    load_timeout_s: float = 60.0,
    hung_s: float = 60.0,
) -> AsyncIterator[LlamaServers]:
    servers = LlamaServers(
        tmp_path / "state" / "servers",
        command=(*CHILD, *extra),
        health_every_s=health_every_s,
        lease_s=lease_s,
        load_timeout_s=load_timeout_s,
        hung_s=hung_s,
    )
    try:
        yield servers
    finally:
        await servers.stop_all()
        await servers.aclose()


def starter(folder: Path, model: Path, idle_s: float, *extra: str) -> "subprocess.Popen[str]":
    command = (sys.executable, "-c", STARTER, str(folder), str(model), str(idle_s), *CHILD, *extra)
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


async def line_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    async with asyncio.timeout(30):
        return await asyncio.to_thread(process.stdout.readline)


async def test_a_server_is_started_once_and_then_found(tmp_path: Path, model: Path) -> None:
    spec = ServerSpec(model=model, label="tiny 1B", context_window=2048, slots=2)
    told: list[str] = []
    async with servers_in(tmp_path, "--load-s", "0.3") as servers:
        first = await servers.ensure(spec, told.append)
        again = await servers.ensure(spec, told.append)
        other = LlamaServers(tmp_path / "state" / "servers", command=CHILD)
        assert first == again == await other.ensure(spec, told.append)
        assert (first.slots, first.context_window) == (2, 2048)
        assert told == ["loading tiny 1B …"]
        assert first.base_url == f"{first.origin}/v1"
        await other.aclose()


async def test_many_who_ask_at_once_get_one_server(tmp_path: Path, model: Path) -> None:
    count = tmp_path / "count"
    async with servers_in(tmp_path, "--count", str(count)) as servers:
        spec = ServerSpec(model=model)
        endpoints = await asyncio.gather(*(servers.ensure(spec) for _ in range(20)))
        assert len({endpoint.pid for endpoint in endpoints}) == 1
    assert count.read_text() == "x"


async def test_two_processes_that_ask_at_once_get_one_server(tmp_path: Path, model: Path) -> None:
    count = tmp_path / "count"
    folder = tmp_path / "state" / "servers"
    both = [starter(folder, model, 30.0, "--count", str(count), "--load-s", "0.3") for _ in range(2)]
    try:
        pids = [await line_of(process) for process in both]
        assert pids[0] == pids[1]
        assert count.read_text() == "x"
    finally:
        for process in both:
            process.kill()
            process.communicate()
        await LlamaServers(folder).stop_all()


async def test_a_server_that_was_killed_is_started_again(tmp_path: Path, model: Path) -> None:
    told: list[str] = []
    async with servers_in(tmp_path) as servers:
        spec = ServerSpec(model=model)
        first = await servers.ensure(spec)
        os.kill(first.pid, signal.SIGKILL)
        await gone(first.pid)  # so it did not become a zombie of ours either
        second = await servers.ensure(spec, told.append)
        assert second.pid != first.pid
        assert second.api_key != first.api_key
        assert told[0] == "tiny has ended unexpectedly; starting it again"


async def test_a_server_that_somebody_else_has_replaced_is_not_taken_for_the_old_one(
    tmp_path: Path, model: Path
) -> None:
    async with servers_in(tmp_path) as servers:
        spec = ServerSpec(model=model)
        first = await servers.ensure(spec)
        other = LlamaServers(tmp_path / "state" / "servers", command=CHILD)
        await other.stop(other.running()[0].key)
        second = await other.ensure(spec)
        assert await servers.ensure(spec) == second != first
        await other.aclose()


async def test_a_server_nobody_uses_ends_by_itself_and_leaves_no_state(tmp_path: Path, model: Path) -> None:
    async with servers_in(tmp_path) as servers:
        endpoint = await servers.ensure(ServerSpec(model=model, idle_s=0.5))
        await servers.aclose()
        await gone(endpoint.pid)
        assert servers.running() == []
        assert list((tmp_path / "state" / "servers").glob("*.json")) == []


async def test_a_server_outlives_its_idle_time_while_somebody_holds_it(tmp_path: Path, model: Path) -> None:
    async with servers_in(tmp_path) as servers:
        spec = ServerSpec(model=model, idle_s=0.4)
        endpoint = await servers.ensure(spec)
        await passed(1.5)
        assert (await servers.ensure(spec)).pid == endpoint.pid
        (found,) = servers.running()
        assert found.in_use
        servers.release(spec)
        await gone(endpoint.pid)


async def test_a_server_in_the_middle_of_an_answer_does_not_end(tmp_path: Path, model: Path) -> None:
    async with servers_in(tmp_path) as servers:
        endpoint = await servers.ensure(ServerSpec(model=model, idle_s=0.4))
        asked(endpoint, "/busy")
        await servers.aclose()
        await passed(1.5)
        asked(endpoint, "/free")
        await gone(endpoint.pid)


async def test_a_process_that_asks_no_more_counts_no_more(tmp_path: Path, model: Path) -> None:
    async with servers_in(tmp_path, lease_s=0.3) as servers:
        endpoint = await servers.ensure(ServerSpec(model=model, idle_s=0.3))
        await gone(endpoint.pid)


async def test_a_server_outlives_its_starter_and_then_idles_out(tmp_path: Path, model: Path) -> None:
    folder = tmp_path / "state" / "servers"
    process = starter(folder, model, 1.0)
    try:
        pid = int(await line_of(process))
        assert os.getsid(pid) == pid  # a session of its own: Ctrl-C in our terminal is not its end
    finally:
        process.kill()
        process.communicate()
    servers = LlamaServers(folder, command=CHILD)
    (found,) = servers.running()
    assert (found.pid, found.in_use) == (pid, False)
    await until(lambda: servers.running() == [], within_s=15)


async def test_who_comes_while_a_server_ends_gets_another(tmp_path: Path, model: Path) -> None:
    spec = ServerSpec(model=model, idle_s=0.2)
    async with servers_in(tmp_path) as servers:
        for _ in range(8):  # each time at another moment of its end
            endpoint = await servers.ensure(spec)
            assert asked(endpoint, "/slots")
            servers.release(spec)
            await passed(0.2)


async def test_a_server_whose_state_file_is_gone_ends(tmp_path: Path, model: Path) -> None:
    async with servers_in(tmp_path) as servers:
        spec = ServerSpec(model=model, idle_s=2.0)
        endpoint = await servers.ensure(spec)
        (state,) = (tmp_path / "state" / "servers").glob("*.json")
        assert stat.S_IMODE(state.stat().st_mode) == 0o600
        state.unlink()
        await gone(endpoint.pid)
        assert (await servers.ensure(spec)).pid != endpoint.pid


async def test_a_server_whose_whole_folder_was_removed_ends_and_another_is_started(tmp_path: Path, model: Path) -> None:
    async with servers_in(tmp_path) as servers:
        spec = ServerSpec(model=model, idle_s=2.0)
        endpoint = await servers.ensure(spec)
        folder = tmp_path / "state" / "servers"
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
        second = await servers.ensure(spec)
        await gone(endpoint.pid)
        assert asked(second, "/slots")
        assert (await servers.ensure(spec)).pid == second.pid


async def test_stop_ends_a_server_of_any_process_and_says_whether_there_was_one(tmp_path: Path, model: Path) -> None:
    async with servers_in(tmp_path) as servers:
        spec = ServerSpec(model=model)
        endpoint = await servers.ensure(spec)
        other = LlamaServers(tmp_path / "state" / "servers", command=CHILD)
        (found,) = other.running()
        assert (found.pid, found.name, found.path) == (endpoint.pid, "tiny", str(model))
        assert found.memory_bytes is None or found.memory_bytes > 1_000_000
        assert await other.stop(spec)
        await gone(endpoint.pid)
        assert not await other.stop(spec)


async def test_a_server_can_be_stopped_while_it_loads(tmp_path: Path, model: Path) -> None:
    async with servers_in(tmp_path, "--load-s", "30") as servers:
        waiting = asyncio.create_task(servers.ensure(ServerSpec(model=model)))
        await until(servers.running)
        (found,) = servers.running()
        assert found.loading
        assert await servers.stop_all() == 1
        await gone(found.pid)
        with pytest.raises(ModelError, match="SIGTERM"):
            await waiting


async def test_who_is_cancelled_while_a_model_loads_leaves_it_to_the_next(tmp_path: Path, model: Path) -> None:
    count = tmp_path / "count"
    async with servers_in(tmp_path, "--load-s", "1", "--count", str(count)) as servers:
        spec = ServerSpec(model=model)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await servers.ensure(spec)
        await servers.ensure(spec)
    assert count.read_text() == "x"


async def test_a_model_file_that_was_replaced_gets_a_server_of_its_own(tmp_path: Path, model: Path) -> None:
    async with servers_in(tmp_path) as servers:
        spec = ServerSpec(model=model)
        old = await servers.ensure(spec)
        model.write_bytes(b"GGUF, but another one")
        assert (await servers.ensure(spec)).pid != old.pid


async def test_only_who_has_the_key_is_answered_and_nobody_can_read_it(tmp_path: Path, model: Path) -> None:
    async with servers_in(tmp_path) as servers:
        endpoint = await servers.ensure(ServerSpec(model=model))
        port = int(endpoint.origin.rsplit(":", 1)[1])
        assert status_of(port, "/slots", api_key="guessed", timeout_s=5)[0] == 401
        assert endpoint.api_key not in repr(endpoint)
        for public in Path("/proc", str(endpoint.pid)).glob(
            "[ce][mn][dv]*"
        ):  # cmdline and environ, where there is /proc
            assert endpoint.api_key not in public.read_text()
        folder = tmp_path / "state" / "servers"
        assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("how", "expected", "hint"),
    [
        (("--exit", "72", "--say", "0.1 E invalid magic characters: 'hell'"), "damaged or not a GGUF", "again"),
        (("--exit", "72", "--say", "0.1 E mmap failed: Cannot allocate memory"), "not enough memory", "smaller"),
        (("--signal", "9"), "killed, probably for lack of memory", "smaller"),
        (("--signal", "4"), "AVX2", "Ollama"),
        (("--exit", "72", "--say", "0.1 E unknown model architecture: 'new'"), "does not know", "--upgrade"),
        (("--exit", "3", "--say", "what a pity"), "exit code 3\nIts last output:\n  what a pity", "log"),
    ],
)
async def test_a_server_that_does_not_start_says_why_and_what_to_do(
    tmp_path: Path, model: Path, how: tuple[str, ...], expected: str, hint: str
) -> None:
    async with servers_in(tmp_path, *how) as servers:
        with pytest.raises(ModelError) as caught:
            await servers.ensure(ServerSpec(model=model))
        assert expected in caught.value.message
        assert hint in caught.value.hint
        assert servers.running() == []


async def test_a_server_that_fails_three_times_in_a_row_is_left_alone(tmp_path: Path, model: Path) -> None:
    count = tmp_path / "count"
    async with servers_in(tmp_path, "--exit", "3", "--count", str(count)) as servers:
        for _ in range(5):
            with pytest.raises(ModelError) as caught:
                await servers.ensure(ServerSpec(model=model))
        assert "3 times in a row" in caught.value.message
    assert count.read_text() == "xxx"


async def test_a_server_that_crashes_in_every_request_is_left_alone(tmp_path: Path, model: Path) -> None:
    async with servers_in(tmp_path) as servers:
        spec = ServerSpec(model=model)
        for _ in range(3):
            endpoint = await servers.ensure(spec)
            os.kill(endpoint.pid, signal.SIGSEGV)
            await gone(endpoint.pid)
        with pytest.raises(ModelError, match="3 times in a row"):
            await servers.ensure(spec)


async def test_a_model_that_takes_too_long_to_load_is_given_up(tmp_path: Path, model: Path) -> None:
    async with servers_in(tmp_path, "--load-s", "60", load_timeout_s=0.5) as servers:
        with pytest.raises(ModelError, match="not ready in time"):
            await servers.ensure(ServerSpec(model=model))
        assert servers.running() == []


async def test_a_server_that_no_longer_answers_is_started_again(tmp_path: Path, model: Path) -> None:
    told: list[str] = []
    async with servers_in(tmp_path, health_every_s=0.0, hung_s=0.5) as servers:
        spec = ServerSpec(model=model)
        first = await servers.ensure(spec)
        asked(first, "/deaf")
        with pytest.raises(OSError, match="timed out"):
            asked(first, "/slots", timeout_s=0.2)
        second = await servers.ensure(spec, told.append)
        assert second.pid != first.pid
        assert "tiny no longer answers; starting it again" in told


async def test_a_model_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    async with servers_in(tmp_path) as servers:
        with pytest.raises(ModelRefused, match=r"no\.gguf cannot be read: No such file"):
            await servers.ensure(ServerSpec(model=tmp_path / "no.gguf"))


async def test_a_folder_that_cannot_be_used_is_refused(tmp_path: Path, model: Path) -> None:
    (tmp_path / "state").write_text("in the way")
    async with servers_in(tmp_path) as servers:
        with pytest.raises(ConfigError, match="cannot be used") as caught:
            await servers.ensure(ServerSpec(model=model))
        assert "XDG_STATE_HOME" in caught.value.hint


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
async def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, model: Path) -> None:
    folder = tmp_path / "state" / "servers"
    folder.mkdir(parents=True)
    os.chown(folder, 12345, 12345)
    async with servers_in(tmp_path) as servers:
        with pytest.raises(ConfigError, match="not a folder of yours"):
            await servers.ensure(ServerSpec(model=model))


async def test_nonsense_in_the_state_folder_is_not_taken_for_a_server(tmp_path: Path, model: Path) -> None:
    spec = ServerSpec(model=model)
    folder = tmp_path / "state" / "servers"
    folder.mkdir(parents=True)
    key = spec.key()
    (folder / f"{key}.json").write_text(
        '{"pid": 1, "port": 22, "api_key": "x", "slots": 1, "context_window": 1, "idle_s": 1}'
    )
    (folder / f"{key}.lock").write_text('{"pid": 1, "name": "init", "model": "x"}')
    (folder / "other.lock").write_text("[" * 10_000)
    async with servers_in(tmp_path) as servers:
        assert servers.running() == []
        assert not await servers.stop(spec)  # and nobody else's process was ended
        assert (await servers.ensure(spec)).pid != 1
