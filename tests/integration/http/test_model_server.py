"""`/models/server` on the real server, with a stand-in for llama-server's program behind it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_fabric.infrastructure.models.managed import ManagedBackend
from integration.http.served import PATIENCE_S, Served, served, task
from integration.llm.processes import asked, gone, lives
from integration.llm.test_servers_managed import PROGRAM

PATH = "/models/server"


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers of other tests, and of the person who runs them, are not found."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def weights(tmp_path: Path, name: str, **how: Any) -> str:
    """Write a model file for the stand-in; `how` says how it behaves."""
    file = tmp_path / f"{name}.gguf"
    file.write_text(json.dumps(how))
    return str(file)


@contextlib.asynccontextmanager
async def owning(tmp_path: Path, model: str, **options: Any) -> AsyncIterator[tuple[Served, ManagedBackend]]:
    also = {
        "models": {"quality": {"backend": "managed", "timeout_s": 20.0}},
        "managed_llama": {"command": list(PROGRAM), "model": model, **options},
    }
    async with served(tmp_path, also=also) as server:
        managed = server.fabric.local.models.stack.managed
        assert managed is not None
        yield server, managed


async def status(server: Served) -> dict[str, Any]:
    answer = await server.client.get(PATH)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():
            await asyncio.sleep(0.01)


def later(answer: Awaitable[httpx2.Response]) -> asyncio.Task[httpx2.Response]:
    async def wait() -> httpx2.Response:
        return await answer

    return asyncio.create_task(wait())


@pytest.mark.proves("FC-003", "FC-006", "FC-007", "C09", "C44")
async def test_a_switch_waits_for_the_answer_that_is_being_written_and_no_run_is_lost(tmp_path: Path) -> None:
    async with owning(tmp_path, weights(tmp_path, "first", hold=True)) as (server, managed):
        old = await managed.llama.start()
        running = later(server.client.post("/run", json=task()))

        async def shows(name: str, value: Any) -> bool:
            return bool((await status(server))[name] == value)

        await until(lambda: shows("running", 1))
        change = {"model": weights(tmp_path, "second"), "parallel": 2, "flash_attention": "on", "cache_type_k": "q8_0"}
        switching = later(server.client.put(PATH, json=change))
        await until(lambda: shows("stage", "draining"))
        waiting = later(server.client.post("/run", json=task()))
        await until(lambda: shows("waiting", 1))
        assert lives(old.pid)
        assert not switching.done()

        await asyncio.to_thread(asked, old, "/finish")
        switched = await switching
        assert switched.status_code == 200, switched.text
        now = switched.json()
        assert (now["stage"], Path(now["model"]).stem, now["slots"]) == ("ready", "second", 2)
        assert now["pid"] not in (None, old.pid)
        assert now["memory_bytes"] > 0
        assert now["options"].items() >= {"parallel": 2, "flash_attention": "on", "cache_type_v": "f16"}.items()
        assert not lives(old.pid)

        new = await managed.llama.start()
        argv = " ".join(asked(new, "/props")["argv"])
        assert "--parallel 2" in argv
        assert "--flash-attn on --cache-type-k q8_0 --cache-type-v f16" in argv
        for run in (running, waiting):
            result = (await run).json()
            assert result["_meta"]["status"] == "completed", result
            assert result["summary"] == "done by second"
            assert result["_meta"]["egress"] == []
        events = (await server.client.get(f"/runs/{(await running).json()['_meta']['run_id']}/events")).json()["events"]
        answered = [event["payload"]["model"] for event in events if event["kind"] == "llm_response"]
        assert answered == ["first", "second"]
        failed = [event for event in events if event["kind"] == "llm_error"]
        assert failed == []


@pytest.mark.proves("FC-006", "C09")
async def test_a_switch_survives_a_restart_of_the_server_until_the_configuration_changes(tmp_path: Path) -> None:
    first, second = weights(tmp_path, "first"), weights(tmp_path, "second")
    async with owning(tmp_path, first) as (server, _):
        assert (await server.client.put(PATH, json={"model": second, "parallel": 2})).status_code == 200
    async with owning(tmp_path, first) as (server, _):
        now = await status(server)
        assert (Path(now["model"]).stem, now["options"]["parallel"]) == ("second", 2)
        assert (await server.client.post("/run", json=task())).json()["summary"] == "done by second"
    async with owning(tmp_path, first, context_window=4096) as (server, _):
        assert Path((await status(server))["model"]).stem == "first"
    async with owning(tmp_path, first) as (server, _):
        assert (await server.client.put(PATH, json={"model": first, "parallel": 1})).status_code == 200
    async with owning(tmp_path, first) as (server, _):
        assert Path((await status(server))["model"]).stem == "first"


@pytest.mark.proves("FC-006")
async def test_the_command_line_lists_the_model_that_was_switched_to(tmp_path: Path) -> None:
    first, second = weights(tmp_path, "first"), weights(tmp_path, "second")
    async with owning(tmp_path, first) as (server, _):
        assert (await server.client.put(PATH, json={"model": second})).status_code == 200
        command = server.command
    command.configured = {
        "models": {"quality": {"backend": "managed"}},
        "managed_llama": {"command": list(PROGRAM), "model": first},
    }
    command.environment = {
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "FABRIC_MODELS_DIR": str(tmp_path / "models"),
    }
    listed = await command("models", "list", "--json")
    (quality,) = [line for line in listed.json["models"] if line["key"] == "quality"]
    assert quality["model"] == "second", listed.out


@pytest.mark.proves("FC-006")
async def test_a_model_that_does_not_start_is_a_problem_with_its_reason_and_the_old_one_is_back(tmp_path: Path) -> None:
    async with owning(tmp_path, weights(tmp_path, "first")) as (server, managed):
        old = await managed.llama.start()
        broken = weights(tmp_path, "broken", exit=1, say="0.1 E gguf_init_from_reader: invalid magic characters")
        answer = await server.client.put(PATH, json={"model": broken, "parallel": 4})
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (502, "model_error")
        assert answer.headers["content-type"] == "application/problem+json"
        assert "invalid magic" in problem["detail"]
        assert "first serves again, as before." in problem["detail"]
        assert problem["hint"]
        now = await status(server)
        assert (now["stage"], Path(now["model"]).stem, now["options"]["parallel"]) == ("ready", "first", 1)
        assert now["pid"] not in (None, old.pid)
        result = (await server.client.post("/run", json=task())).json()
        assert result["summary"] == "done by first"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"typo": 1}, "Extra inputs are not permitted"),
        ({"command": ["sh", "-c", "id"]}, "run any program"),
        ({"extra_args": ["--lora", "/x"]}, "run any program"),
        ({"parallel": 0}, "greater than or equal to 1"),
        ({"parallel": None}, "valid integer"),
        ({"parallel": "2"}, "valid integer"),
        ({"cache_type_k": "q3_0"}, "q8_0"),
        ({"flash_attention": "off", "cache_type_v": "q8_0"}, "needs flash attention"),
        ({"model": "second.gguf"}, "absolute path"),
        ({"model": "/etc/passwd"}, "must name a .gguf file"),
        ({"model": "/nowhere/a.gguf"}, "is not there; nothing was switched"),
        ({"model": "/a\0.gguf"}, "absolute path"),
        ({"model": f"/{'a' * 1000}.gguf"}, "is not there; nothing was switched"),
        ({"model": "/tmp/\ud800.gguf"}, "Invalid JSON"),
        ([], "should be an object"),
    ],
)
async def test_what_cannot_be_used_is_refused_and_nothing_is_touched(tmp_path: Path, change: Any, said: str) -> None:
    async with owning(tmp_path, weights(tmp_path, "first")) as (server, managed):
        before = managed.llama.config
        headers = {"content-type": "application/json"}
        answer = await server.client.put(PATH, content=json.dumps(change), headers=headers)
        assert answer.status_code == 422, answer.text
        assert said in answer.json()["detail"]
        assert managed.llama.config == before
        assert (await status(server))["stage"] == "stopped"


async def test_two_changes_at_once_both_hold(tmp_path: Path) -> None:
    async with owning(tmp_path, weights(tmp_path, "first")) as (server, _):
        changes: list[dict[str, Any]] = [{"parallel": 3}, {"context_window": 512}, {"threads": 2}]
        answers = await asyncio.gather(*(server.client.put(PATH, json=change) for change in changes))
        assert [answer.status_code for answer in answers] == [200, 200, 200]
        now = await status(server)
        assert now["options"].items() >= {"parallel": 3, "context_window": 512, "threads": 2}.items()
        assert (now["slots"], now["context_window"]) == (3, 512)
        back = await server.client.put(PATH, json={"threads": None})
        assert back.json()["options"]["threads"] is None


async def test_a_switch_that_would_wait_too_long_says_so_and_the_answer_goes_on(tmp_path: Path) -> None:
    async with owning(tmp_path, weights(tmp_path, "first", hold=True), drain_timeout_s=0.2) as (server, managed):
        old = await managed.llama.start()
        running = later(server.client.post("/run", json=task()))

        async def answering() -> bool:
            return bool((await status(server))["running"] == 1)

        await until(answering)
        for answer in (
            await server.client.put(PATH, json={"model": weights(tmp_path, "second")}),
            await server.client.post(f"{PATH}/restart"),
        ):
            assert (answer.status_code, answer.json()["code"]) == (503, "model_busy")
        await asyncio.to_thread(asked, old, "/finish")
        assert (await running).json()["summary"] == "done by first"


async def test_a_restart_gives_another_process_with_the_same_options_also_when_none_runs(tmp_path: Path) -> None:
    async with owning(tmp_path, weights(tmp_path, "first"), parallel=2) as (server, _):
        assert (await status(server))["pid"] is None
        first = (await server.client.post(f"{PATH}/restart")).json()
        second = (await server.client.post(f"{PATH}/restart")).json()
        assert first["stage"] == second["stage"] == "ready"
        assert first["options"] == second["options"]
        assert first["pid"] != second["pid"]
        assert not lives(first["pid"])


async def test_llama_server_is_started_by_the_first_run_and_ends_with_the_server(tmp_path: Path) -> None:
    async with owning(tmp_path, weights(tmp_path, "first")) as (server, _):
        assert (await status(server))["stage"] == "stopped"
        result = (await server.client.post("/run", json=task())).json()
        assert result["summary"] == "done by first"
        pid = (await status(server))["pid"]
        assert lives(pid)
    await gone(pid)


async def test_more_runs_than_slots_take_turns(tmp_path: Path) -> None:
    async with owning(tmp_path, weights(tmp_path, "first", hold=True), parallel=2) as (server, managed):
        endpoint = await managed.llama.start()
        runs = [later(server.client.post("/run", json=task())) for _ in range(5)]

        async def full() -> bool:
            now = await status(server)
            return bool((now["running"], now["waiting"]) == (2, 3))

        await until(full)
        await asyncio.to_thread(asked, endpoint, "/finish")
        assert [(await run).json()["summary"] for run in runs] == ["done by first"] * 5


async def test_a_server_that_crashes_in_the_middle_is_started_again_and_the_run_goes_on(tmp_path: Path) -> None:
    async with owning(tmp_path, weights(tmp_path, "first", hold=True)) as (server, managed):
        endpoint = await managed.llama.start()
        running = later(server.client.post("/run", json=task()))

        async def answering() -> bool:
            return bool((await status(server))["running"] == 1)

        await until(answering)
        weights(tmp_path, "first")  # the next one does not hold
        with pytest.raises(ConnectionError):
            await asyncio.to_thread(asked, endpoint, "/crash")
        assert (await running).json()["summary"] == "done by first"


async def test_without_a_managed_server_there_is_nothing_to_see_and_the_hint_says_how_to_have_one(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as server:
        for answer in (
            await server.client.get(PATH),
            await server.client.put(PATH, json={"parallel": 2}),
            await server.client.post(f"{PATH}/restart"),
        ):
            assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
            assert "`managed_llama.model`" in answer.json()["hint"]
