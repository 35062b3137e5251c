"""What happens when, as a caller of the server sees it: discovery, choice of a specialist, the end of a run."""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_fabric.config.defaults import default_settings
from agent_fabric.domain.packs.recruitment import ASSISTANT
from agent_fabric.testing.scripted_model import Say, Script
from integration.http.served import PATIENCE_S, data_of, served, task
from integration.http.test_sessions import answered

LEASE = """
import fcntl, os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGIO})
fcntl.fcntl(os.open(sys.argv[1], os.O_RDWR), fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("held", flush=True)
signal.sigwait({signal.SIGIO})
print("asked", flush=True)
sys.stdin.read()
"""
"""A process that opens the file waits until this one has ended."""

ONLY_NAMED = (ASSISTANT, "review")
"""Packs without keywords: the one for everything else, and the one behind a command of its own."""


@contextlib.asynccontextmanager
async def opening_blocked(file: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Let every process that opens a file wait, as on a disk that hangs."""
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LEASE, file, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        assert await holder.stdout.readline() == b"held\n"
        yield holder
    finally:
        holder.stdin.close()
        await holder.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="leases on files are Linux's")
@pytest.mark.proves("AF-037")
async def test_the_server_answers_while_the_discovery_of_a_model_blocks(tmp_path: Path) -> None:
    file = tmp_path / "some.gguf"
    file.write_bytes(b"not one")
    found_on_disk = {"quality": {"backend": "embedded", "model": str(file)}}
    async with opening_blocked(file) as holder, served(tmp_path, also={"models": found_on_disk}) as server:
        running = asyncio.create_task(server.client.post("/run", json=task()))
        assert holder.stdout is not None
        assert await asyncio.wait_for(holder.stdout.readline(), PATIENCE_S) == b"asked\n"
        assert (await server.client.get("/health")).json()["runs"]["running"] == 1
        assert not running.done()
        holder.kill()
        result = (await running).json()
    assert "not a usable GGUF file" in result["error"]["message"]


@pytest.mark.proves("AF-050")
async def test_a_run_is_recorded_complete_then_indexed_then_its_stream_ends_with_the_result(tmp_path: Path) -> None:
    index = tmp_path / ".fabric" / "run_index.jsonl"
    async with served(tmp_path) as server:
        stream = await server.start()
        told: list[dict[str, object]] = []
        while frame := await stream.frame():
            if frame.startswith(":"):
                continue
            told.append(data_of(frame))
            if told[-1]["kind"] != "_run_done_":
                continue
            (line,) = index.read_text().splitlines()
            assert json.loads(line)["run_id"] == stream.run_id
        shown = (await server.client.get(f"/runs/{stream.run_id}")).json()
    kinds = [each["kind"] for each in told]
    assert kinds[:4] == ["run_created", "recruitment", "pack_start", "llm_request"]
    assert kinds[-2:] == ["run_complete", "_run_done_"]
    assert told[-1]["payload"]["summary"] == shown["summary"] == "all done"  # type: ignore[index] # JSON


@pytest.mark.proves("AF-110")
@pytest.mark.parametrize("name", [name for name in default_settings()["specialists"] if name not in ONLY_NAMED])
async def test_every_built_in_pack_is_chosen_by_its_keywords_and_built(tmp_path: Path, name: str) -> None:
    declared = default_settings()["specialists"][name]
    assert declared["description"]
    assert declared["capabilities"]
    async with served(tmp_path, Script(turns=())) as server:
        prompt = " and ".join(declared["keywords"][:6])
        await server.client.post("/run", json={"prompt": prompt})
        (run,) = (await server.client.get("/runs")).json()["runs"]
        events = (await server.client.get(f"/runs/{run['run_id']}/events?full=true")).json()["events"]
    said = {event["kind"]: event["payload"] for event in events}
    assert said["recruitment"]["specialist_ids"] == [name]
    assert said["recruitment"]["routing_method"] == "keywords"
    assert said["pack_start"]["specialist_id"] == name


@pytest.mark.proves("AF-110", "CO-10")
async def test_the_assistant_is_built_for_whoever_just_talks(tmp_path: Path) -> None:
    async with served(tmp_path, Script(turns=(Say("Hello!"),))) as server:
        session = (await server.client.post("/api/v1/sessions", json={})).json()["id"]
        path = f"/api/v1/sessions/{session}/messages"
        run_id = (await server.client.post(path, json={"content": "hello"})).json()["run_id"]
        await answered(server, session, run_id)
        ended = await server.client.get(f"/runs/{run_id}/events?full=true")
        said = (await server.client.get(path)).json()["messages"]
    assert f'"specialist_ids":["{ASSISTANT}"]' in ended.text.replace(" ", "")
    assert [(each["role"], each["content"]) for each in said] == [("user", "hello"), ("assistant", "Hello!")]
