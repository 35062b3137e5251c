"""Whole runs on Ollama, as its stand-in plays it: found or started, its models chosen, its habits told."""

import asyncio
import os
import shlex
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.testing.scripted_answers import Call, Finish, Script
from e2e.fabric_process import carry_out
from standins import ollama_standin
from standins.ollama_standin import OllamaStandIn, StandInModel

LOOK = Call("list_files", {})
DONE = Finish(summary="done")
WORK = (LOOK, DONE)
SMALL = StandInModel(name="qwen2.5:1.5b", parameter_size="1.5B")
LARGE = StandInModel(name="llama3.1:8b", parameter_size="8.0B", family="llama")
EMBEDDER = StandInModel(name="bge-m3:latest", parameter_size="566M", family="bert", capabilities=("embedding",))


@pytest.fixture
def pids(tmp_path: Path) -> Iterator[Path]:
    """A file for the process ids of servers, which are ended when the test is over."""
    file = tmp_path / "pids"
    yield file
    for pid in map(int, file.read_text().split() if file.exists() else ()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)


@pytest.mark.proves("AF-078", "AF-083")
async def test_run_takes_the_smallest_model_that_calls_tools_when_none_is_named(tmp_path: Path) -> None:
    async with OllamaStandIn(WORK, models=[EMBEDDER, LARGE, SMALL]) as ollama:
        outcome = await carry_out(tmp_path, ollama.base_url, model={"backend": "ollama", "model": None})
    assert outcome.result.status is RunStatus.COMPLETED, outcome.result.error
    chats = [asked.body["model"] for asked in ollama.requests if "chat" in asked.path]
    assert set(chats) == {"qwen2.5:1.5b"}


@pytest.mark.proves("AF-081", "AF-175")
async def test_run_starts_ollama_when_nobody_answers(
    tmp_path: Path, unused_tcp_port: int, pids: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    script = tmp_path / "script.json"
    script.write_text(Script(WORK).to_json())
    serve = shlex.join([*ollama_standin.COMMAND, "--script", str(script)])
    outcome = await carry_out(
        tmp_path,
        f"http://127.0.0.1:{unused_tcp_port}/v1",
        model={"backend": "ollama", "model": "qwen2.5-coder:1.5b"},
        local_llm_start_cmd=["sh", "-c", f"echo $$ >> {shlex.quote(str(pids))}; exec {serve}"],
    )
    assert outcome.result.status is RunStatus.COMPLETED, outcome.result.error
    assert len(pids.read_text().split()) == 1


@pytest.mark.proves("AF-081")
async def test_run_without_ollama_fails_with_what_was_tried_and_the_question_is_in_its_log(
    tmp_path: Path, unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    async with asyncio.timeout(60):
        outcome = await carry_out(
            tmp_path,
            f"http://127.0.0.1:{unused_tcp_port}/v1",
            model={"backend": "ollama", "model": "qwen2.5:7b"},
            local_llm_start_cmd=["no-such-ollama", "serve"],
        )
    outcome.require_failed("model_unreachable")
    assert "no-such-ollama serve" in outcome.hint


@pytest.mark.proves("AF-075")
async def test_run_on_a_model_without_tools_is_told_which_models_have_them(tmp_path: Path) -> None:
    talker = StandInModel(name="gemma3:4b", parameter_size="4.3B", family="gemma3", capabilities=("completion",))
    async with OllamaStandIn(WORK, models=[talker, LARGE]) as ollama:
        chosen = {"backend": "ollama", "model": "gemma3:4b", "strict_native": True}
        outcome = await carry_out(tmp_path, ollama.base_url, model=chosen)
    outcome.require_failed("model_refused")
    assert "llama3.1:8b" in outcome.hint


async def test_run_whose_conversation_the_server_cuts_silently_says_so(tmp_path: Path) -> None:
    async with OllamaStandIn(WORK, models=[SMALL], default_window=2_048) as ollama:
        outcome = await carry_out(
            tmp_path,
            ollama.base_url,
            prompt="Read this with care: " + "word after word " * 3_000,
            model={"backend": "ollama", "model": SMALL.name},
        )
    cut = outcome.payloads("context_truncated")
    assert cut
    assert cut[0]["read_tokens"] <= 2_048 < cut[0]["sent_tokens"]
    assert "context_window" in cut[0]["hint"]
