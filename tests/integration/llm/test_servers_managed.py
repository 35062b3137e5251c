"""A llama-server of our own: options, switching between answers, faults, and never left behind.

The program is a stand-in: it takes llama-server's arguments, and where a test says so it has the real llama.cpp inside.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.config.schema.models import ManagedLlamaConfig
from agent_fabric.domain.errors import ConfigError, ModelBusy, ModelError
from agent_fabric.infrastructure.models.servers.llama_servers import LlamaServers
from agent_fabric.infrastructure.models.servers.managed_llama import ManagedLlama
from agent_fabric.infrastructure.models.servers.server_files import Endpoint
from integration.llm.processes import asked, gone, lives, passed, said, until

PROGRAM = (sys.executable, str(Path(__file__).with_name("stand_in_llama_server.py")))

OWNER = """
import asyncio, sys
from pathlib import Path
from agent_fabric.config.schema.models import ManagedLlamaConfig
from agent_fabric.infrastructure.models.servers.managed_llama import ManagedLlama

async def main():
    folder, model, *command = sys.argv[1:]
    llama = ManagedLlama(ManagedLlamaConfig(command=command, model=model), folder=Path(folder))
    endpoint = await llama.start()
    print(endpoint.pid, endpoint.port, endpoint.api_key, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def config_of(
    tmp_path: Path, name: str = "first", how: dict[str, Any] | None = None, **options: Any
) -> ManagedLlamaConfig:
    model = tmp_path / f"{name}.gguf"
    model.write_text(json.dumps(how or {}))
    return ManagedLlamaConfig.model_validate({"command": PROGRAM, "model": model, **options})


@asynccontextmanager
async def managed(tmp_path: Path, config: ManagedLlamaConfig) -> AsyncIterator[ManagedLlama]:
    llama = ManagedLlama(config, folder=tmp_path / "state" / "servers")
    try:
        yield llama
    finally:
        await llama.aclose()
        assert LlamaServers(tmp_path / "state" / "servers").running() == []


def generate(endpoint: Endpoint) -> asyncio.Task[Any]:
    """Begin an answer that goes on until /finish."""
    return asyncio.create_task(asyncio.to_thread(asked, endpoint, "/generate"))


async def until_busy(endpoint: Endpoint) -> None:
    await until(lambda: any(slot["is_processing"] for slot in asked(endpoint, "/slots")))


@pytest.mark.proves("FC-007")
async def test_the_options_reach_llama_server(tmp_path: Path) -> None:
    config = config_of(
        tmp_path,
        parallel=4,
        context_window=2048,
        flash_attention="on",
        cache_type_k="q8_0",
        cache_type_v="q4_0",
        gpu_layers=12,
        extra_args=["--batch-size", "256"],
    )
    async with managed(tmp_path, config) as llama:
        endpoint = await llama.start()
        assert (endpoint.slots, endpoint.context_window) == (4, 2048)
        argv = asked(endpoint, "/props")["argv"]
        said = dict(zip(argv[::2], argv[1::2], strict=False))
        assert said.items() >= {"--host": "127.0.0.1", "--parallel": "4", "--ctx-size": "8192"}.items()
        assert said.items() >= {"--flash-attn": "on", "--cache-type-k": "q8_0", "--cache-type-v": "q4_0"}.items()
        assert said["--n-gpu-layers"] == "12"
        assert argv[-2:] == ["--batch-size", "256"]
        assert endpoint.api_key not in " ".join(argv)
        (found,) = LlamaServers(tmp_path / "state" / "servers").running()
        assert (found.name, found.idle_s, found.in_use) == ("first", None, True)


@pytest.mark.proves("FC-006", "C09", "C44")
async def test_a_switch_waits_for_running_answers_and_new_ones_wait_for_the_switch(tmp_path: Path) -> None:
    async with managed(tmp_path, config_of(tmp_path)) as llama:
        told: list[str] = []
        async with llama.request() as old:
            answer = generate(old)
            await until_busy(old)
            switching = asyncio.create_task(llama.switch(config_of(tmp_path, "second"), told.append))
            await until(lambda: llama.status().stage == "draining")

            async def ask() -> Endpoint:
                async with llama.request() as endpoint:
                    return endpoint

            late = asyncio.create_task(ask())
            await until(lambda: llama.status().waiting == 1)
            assert lives(old.pid)
            assert not switching.done()
            assert llama.status().running == 1  # `status` does not wait
            asked(old, "/finish")
            await answer
        new = await switching
        assert await late == new
        assert new.pid != old.pid
        assert not lives(old.pid)
        assert "waiting for 1 answer before the switch" in told
        assert llama.config.model.stem == "second"
        assert llama.status().stage == "ready"


async def test_a_switch_waits_also_for_answers_that_others_have_asked_for(tmp_path: Path) -> None:
    async with managed(tmp_path, config_of(tmp_path)) as llama:
        old = await llama.start()
        answer = generate(old)  # not through `request`
        await until_busy(old)
        switching = asyncio.create_task(llama.switch(config_of(tmp_path, "second")))
        await until(lambda: llama.status().stage == "draining")
        await passed(0.5)
        assert not switching.done()
        asked(old, "/finish")
        await answer
        assert (await switching).pid != old.pid


async def test_a_switch_that_would_wait_too_long_changes_nothing(tmp_path: Path) -> None:
    async with managed(tmp_path, config_of(tmp_path)) as llama, llama.request() as old:
        with pytest.raises(ModelBusy, match="nothing was switched"):
            await llama.switch(config_of(tmp_path, "second", drain_timeout_s=0.2))
        assert asked(old, "/slots")
        assert llama.config.model.stem == "first"
        async with llama.request() as still:
            assert still == old


async def test_a_model_that_does_not_start_gives_the_old_one_back(tmp_path: Path) -> None:
    broken = config_of(tmp_path, "broken", {"exit": 1, "say": "0.1 E gguf_init_from_reader: invalid magic characters"})
    told: list[str] = []
    async with managed(tmp_path, config_of(tmp_path)) as llama:
        old = await llama.start()
        with pytest.raises(ModelError) as caught:
            await llama.switch(broken, told.append)
        assert "broken did not start" in caught.value.message
        assert "first serves again, as before." in caught.value.message
        assert any("going back to first" in text for text in told)
        assert llama.config.model.stem == "first"
        async with llama.request() as again:
            assert again.pid != old.pid
            assert asked(again, "/slots")


async def test_when_the_old_one_does_not_come_back_both_reasons_are_told(tmp_path: Path) -> None:
    first = config_of(tmp_path)
    async with managed(tmp_path, first) as llama:
        await llama.start()
        first.model.unlink()
        with pytest.raises(ModelError) as caught:
            await llama.switch(config_of(tmp_path, "broken", {"exit": 5}))
        assert "broken did not start: it ended with exit code 5" in caught.value.message
        assert "first does not start again either" in caught.value.message
        assert llama.status().stage == "failed"


async def test_a_server_that_crashed_is_started_again_by_the_next_request(tmp_path: Path) -> None:
    async with managed(tmp_path, config_of(tmp_path)) as llama:
        with pytest.raises(ConnectionError):
            async with llama.request() as first:
                await asyncio.to_thread(asked, first, "/crash")
        async with llama.request() as second:
            assert asked(second, "/slots")
            assert second.pid != first.pid


async def test_a_server_that_crashes_every_time_is_left_alone(tmp_path: Path) -> None:
    async with managed(tmp_path, config_of(tmp_path, how={"exit": 4})) as llama:
        for _ in range(4):
            with pytest.raises(ModelError) as caught:
                await llama.start()
        assert "3 times in a row" in caught.value.message


async def test_a_switch_helps_where_the_old_model_never_started(tmp_path: Path) -> None:
    async with managed(tmp_path, config_of(tmp_path, how={"exit": 4})) as llama:
        with pytest.raises(ModelError):
            await llama.start()
        endpoint = await llama.switch(config_of(tmp_path, "second"))
        assert asked(endpoint, "/slots")
        assert llama.status().problem == ""


async def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    async with managed(tmp_path, config_of(tmp_path, command=["no-such-llama-server"])) as llama:
        with pytest.raises(ModelError, match="no-such-llama-server cannot be started") as caught:
            await llama.start()
        assert "`command`" in caught.value.hint


async def test_an_argument_that_the_program_does_not_know_is_told(tmp_path: Path) -> None:
    async with managed(tmp_path, config_of(tmp_path, extra_args=["--warp", "9"])) as llama:
        with pytest.raises(ModelError, match="--warp"):
            await llama.start()


async def test_two_processes_do_not_manage_the_same_server(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    async with managed(tmp_path, config) as llama:
        endpoint = await llama.start()
        second = ManagedLlama(config, folder=tmp_path / "state" / "servers")
        with pytest.raises(ConfigError, match="Another process manages"):
            await second.start()
        assert asked(endpoint, "/slots")


@asynccontextmanager
async def owned_by_another_process(folder: Path, model: Path) -> AsyncIterator[tuple[Endpoint, int]]:
    """A server whose owner, another process, is killed at the end; with the server's own process id."""
    command = (sys.executable, "-c", OWNER, str(folder), str(model), *PROGRAM)
    owner = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220 - takes no time
    assert owner.stdout is not None
    try:
        pid, port, api_key = (await asyncio.to_thread(owner.stdout.readline)).split()
        endpoint = Endpoint(int(pid), int(port), api_key, slots=1, context_window=1, idle_s=None)
        yield endpoint, asked(endpoint, "/props")["pid"]
    finally:
        owner.kill()
        owner.communicate()


async def test_a_server_ends_with_its_owner_even_when_that_is_killed(tmp_path: Path) -> None:
    async with owned_by_another_process(tmp_path / "servers", config_of(tmp_path).model) as (_, server):
        assert lives(server)
    await until(lambda: LlamaServers(tmp_path / "servers").running() == [])
    await gone(server)


async def test_what_a_killed_owner_left_behind_is_ended_by_the_next(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    async with owned_by_another_process(tmp_path / "servers", config.model) as (endpoint, server):
        os.kill(endpoint.pid, signal.SIGSTOP)  # so that the keeper, which would end it, does nothing
    assert lives(server)
    second = ManagedLlama(config, folder=tmp_path / "servers")
    try:
        found = await second.start()
        assert asked(found, "/props")["pid"] != server
        await gone(server)
    finally:
        await second.aclose()


@pytest.mark.slow
async def test_a_server_that_does_not_listen_to_sigterm_is_killed(tmp_path: Path) -> None:
    async with managed(tmp_path, config_of(tmp_path, how={"ignore_term": True})) as llama:
        server = asked(await llama.start(), "/props")["pid"]
        await llama.stop()
        await gone(server)


async def test_who_is_cancelled_during_a_start_leaves_nothing_behind(tmp_path: Path) -> None:
    async with managed(tmp_path, config_of(tmp_path, how={"load_s": 30})) as llama:
        starting = asyncio.create_task(llama.start())
        await until(lambda: llama.status().pid)
        pid = llama.status().pid
        assert pid is not None
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert not lives(pid)
        assert llama.status().stage == "stopped"


async def test_a_server_that_nobody_asks_is_stopped_and_started_again_by_the_next_request(tmp_path: Path) -> None:
    async with managed(tmp_path, config_of(tmp_path, idle_s=0.3)) as llama:
        async with llama.request() as first:
            await passed(0.6)
            assert asked(first, "/slots")
        await until(lambda: llama.status().pid is None)
        async with llama.request() as second:
            assert second.pid != first.pid


@pytest.mark.soak
@pytest.mark.proves("FC-003", "FC-007")
async def test_a_real_model_takes_the_cache_types_and_flash_attention(tmp_path: Path, fast_weights: Path) -> None:
    pytest.importorskip("xllamacpp")
    options = {"flash_attention": "on", "cache_type_k": "q8_0", "cache_type_v": "q8_0", "parallel": 2}
    config = ManagedLlamaConfig.model_validate(
        {"command": PROGRAM, "model": fast_weights, "context_window": 512, **options}
    )
    async with managed(tmp_path, config) as llama, llama.request() as endpoint:
        assert (endpoint.slots, endpoint.context_window) == (2, 512)
        assert await said(endpoint, "Say yes.")
