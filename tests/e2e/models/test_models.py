"""`fabric models` and `fabric doctor` as a person meets them: real processes, a stand-in for Ollama, real files."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from agent_fabric.config.loader import read_config
from agent_fabric.infrastructure.models.servers.llama_servers import LlamaServers, ServerSpec
from agent_fabric.infrastructure.models.weights.catalogue import CATALOGUE
from agent_fabric.infrastructure.sandbox.levels import choose_level
from agent_fabric.testing.scripted_model import Answer, Call, Hang, Raw, Say, ScriptedModel
from e2e.fabric_process import Ended, Fabric, until
from standins.ollama_standin import OllamaStandIn, StandInModel

CHILD = (sys.executable, str(Path(__file__).parents[2] / "integration/llm/stand_in_child.py"))
"""A stand-in for llama.cpp's process."""
QUALITY = next(model for model in CATALOGUE if model.profile == "quality")
MODELS = (
    StandInModel(),
    StandInModel(name="gemma3:4b", parameter_size="4.3B", capabilities=("completion",), context_length=8192),
    StandInModel(name="nomic-embed-text:latest", parameter_size="137M", capabilities=("embedding",)),
)
ABSENT = {"models": {"quality": {"base_url": "http://127.0.0.1:9/v1", "model": "m", "backend": "ollama"}}}
"""Ollama at a port where nobody listens, so that a real one on this machine does not matter."""


def fabric(folder: Path, **configured: Any) -> Fabric:
    """Give the command in a folder of its own, without an `ollama` that could be started."""
    return Fabric(folder, {**ABSENT, **configured}, {"PATH": str(folder), "NO_COLOR": "1"})


def ollama_at(base_url: str, model: str | None = None) -> dict[str, Any]:
    """Configure a stand-in as the model that does the work."""
    return {"quality": {"base_url": base_url, "backend": "ollama", "model": model}}


@asynccontextmanager
async def slow_hub() -> AsyncIterator[tuple[str, asyncio.Event]]:
    """Give the address of a hub that begins to send a file and then takes its time; the event tells that it began."""
    begun = asyncio.Event()

    async def send(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-length": str(QUALITY.size_bytes), "etag": '"1"'})
        await response.prepare(request)
        await response.write(b"GGUF" + b"x" * 2_000_000)
        begun.set()
        await asyncio.Event().wait()
        return response

    app = web.Application()
    app.router.add_get("/{path:.*}", send)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield site._server.sockets[0].getsockname()[1], begun  # type: ignore[union-attr]  # it listens
    finally:
        await runner.cleanup()


@pytest.mark.proves("C01")
async def test_the_list_tells_what_each_key_means_and_what_else_is_there(tmp_path: Path) -> None:
    async with OllamaStandIn(models=MODELS) as ollama:
        command = fabric(tmp_path, models=ollama_at(ollama.base_url))
        text, data = await command("models", "list"), (await command("models", "list", "--json")).json
        assert not ollama.asked("/api/chat")
        assert not ollama.asked("/v1/chat/completions")
    quality = next(line for line in data["models"] if line["key"] == "quality")
    assert (quality["standing"], quality["model"], quality["dialect"]) == ("ready", "qwen2.5-coder:1.5b", "native")
    (server,) = [each for each in data["ollama"] if each["running"]]
    assert [(each["name"], each["chats"], each["calls_tools"]) for each in server["models"]] == [
        ("qwen2.5-coder:1.5b", True, True),
        ("gemma3:4b", True, False),
        ("nomic-embed-text:latest", False, False),
    ]
    catalogue = data["embedded"]["catalogue"]
    assert [each["profile"] for each in catalogue if each["profile"]] == ["quality", "fast"]
    assert {each["stored"] for each in catalogue} == {"missing"}
    assert data["embedded"]["loaded"] == []
    for words in ("calls tools", "no tool calls of its own", "only vectors", "native tool calls", "not downloaded"):
        assert words in text.out
    assert not list(tmp_path.glob(".local/share/agent-fabric/models/*")), "nothing was downloaded or made"


@pytest.mark.proves("SM-10")
async def test_the_catalogue_and_what_fits_this_machine_are_told(tmp_path: Path) -> None:
    command = fabric(tmp_path)
    catalogue, advice = await command("models", "list", "--catalogue"), await command("models", "recommend")
    for model in CATALOGUE:
        assert model.called in catalogue.out
        assert model.called in advice.out
    assert "fabric models pull" in advice.out
    data = (await command("models", "recommend", "--json")).json
    assert data["name"] in {model.called for model in CATALOGUE}, "this machine can hold one of them"
    assert len(data["models"]) == len(CATALOGUE)


async def test_without_any_server_the_list_is_quick_and_says_so(tmp_path: Path) -> None:
    helped = await fabric(tmp_path)("models", "list", "--help")
    ended = await fabric(tmp_path)("models", "list")
    assert ended.code == 0
    assert "Ollama: no answer from http://127.0.0.1:9/v1." in ended.out
    assert "cannot be used" in ended.out
    assert ended.seconds < max(20.0, 3 * helped.seconds), "on a busy machine; alone it takes less than one second"


async def test_a_healthy_machine_can_run_a_task_and_nothing_was_started_or_sent(tmp_path: Path) -> None:
    async with OllamaStandIn(models=MODELS) as ollama:
        ended = await fabric(tmp_path, models=ollama_at(ollama.base_url))("doctor", "--json")
        assert {request.path for request in ollama.requests} <= {"/api/version", "/api/tags", "/api/ps", "/api/show"}
    findings = {finding["about"]: finding for finding in ended.json["findings"]}
    assert (ended.code, ended.json["ok"]) == (0, True)
    assert "qwen2.5-coder:1.5b" in findings["ollama"]["text"]
    level = choose_level(read_config({}).config.sandbox).level
    assert findings["sandbox"]["text"].startswith(f"level {level}. ")
    assert "stay here" in findings["privacy"]["text"]
    assert {"python", "configuration", "fabric folder", "model quality", "memory", "disk"} <= set(findings)
    assert not (tmp_path / ".fabric").exists(), "looking makes no folder"


async def test_the_doctor_says_for_each_problem_what_to_do(tmp_path: Path) -> None:
    ended = await fabric(tmp_path)("doctor", "--json")
    assert (ended.code, ended.json["ok"]) == (1, False)
    assert all(finding["fix"] for finding in ended.json["findings"] if finding["level"] != "ok")
    (failed,) = [finding for finding in ended.json["findings"] if finding["level"] == "fail"]
    assert (failed["about"], failed["fix"]) == ("model quality", "ollama serve")
    text = await fabric(tmp_path)("doctor")
    assert "No task can run" in text.out


async def test_the_doctor_explains_a_wrong_configuration(tmp_path: Path) -> None:
    ended = await fabric(tmp_path, budget={"max_steps": "many"})("doctor", "--json")
    assert ended.code == 1
    (failed,) = [finding for finding in ended.json["findings"] if finding["level"] == "fail"]
    assert failed["about"] == "configuration"
    assert "max_steps" in failed["text"]


async def test_the_doctor_tells_what_leaves_the_machine_without_asking_there(tmp_path: Path) -> None:
    cloud = {"base_url": "http://192.0.2.1/v1", "model": "large"}
    models = {"quality": {**cloud, "backend": "generic"}, "cloud": cloud}
    ended = await fabric(tmp_path, models=models, cloud_fallback={"model_key": "cloud"})("doctor", "--json")
    texts = [finding["text"] for finding in ended.json["findings"] if finding["about"] == "privacy"]
    assert "large at http://192.0.2.1/v1" in texts[0]
    assert "`cloud`, when the local one calls no tool" in texts[1]
    assert ended.code == 0
    assert ended.seconds < 20.0, "an address where nobody answers was not asked"


async def test_offline_a_model_of_another_machine_cannot_be_used_and_one_of_ollamas_cloud_neither(
    tmp_path: Path,
) -> None:
    hosted = StandInModel(name="huge:cloud", remote_host="https://ollama.com")
    async with OllamaStandIn(models=[hosted]) as ollama:
        here = fabric(tmp_path, models=ollama_at(ollama.base_url, "huge:cloud"))
        listed = (await here("models", "list", "--json")).json["models"]
        assert next(line for line in listed if line["key"] == "quality")["standing"] == "elsewhere"
        offline = fabric(tmp_path, models=ollama_at(ollama.base_url, "huge:cloud"), offline=True)
        assert (await offline("doctor")).code == 1
    away = {"quality": {"base_url": "http://192.0.2.1/v1", "model": "large"}}
    ended = await fabric(tmp_path, models=away, offline=True)("doctor", "--json")
    assert ended.code == 1
    assert any("forbids asking it" in finding["text"] for finding in ended.json["findings"])


async def choose(folder: Path, *arguments: str) -> Ended:
    """Run `fabric models use` on the user's own file."""
    command = Fabric(folder, {}, {"FABRIC_CONFIG_PATH": "", "PATH": str(folder)})
    return await command("models", "use", *arguments)


async def test_a_choice_is_written_said_and_undone(tmp_path: Path) -> None:
    ended = await choose(tmp_path, "fast")
    file = tmp_path / ".config/agent-fabric/config.yaml"
    assert ended.code == 0, ended.err
    assert str(file) in ended.out
    assert 'model: "qwen2.5-coder-0.5b-instruct-q4_k_m"' in file.read_text()
    file.write_text("# mine\n" + file.read_text())
    undone = await choose(tmp_path, "auto", "--json")
    assert file.read_text() == "# mine\nmodels:\n  quality:\n    backend: auto\n"
    assert undone.json["backup"] == f"{file}.bak"
    added = await choose(tmp_path, "http://localhost:8000/v1", "--model", "big", "--key", "cloud")
    assert added.code == 0, added.err
    assert "cloud:" in file.read_text()


async def test_a_choice_that_makes_no_sense_changes_nothing(tmp_path: Path) -> None:
    for arguments in (["nonsense"], ["http://"], ["fast", "--key", "not a key!"], ["fast", "--model", "x"], [""]):
        ended = await choose(tmp_path, *arguments, "--json")
        assert ended.code == 2, arguments
        assert ended.json["error"]["message"], arguments
    assert not (tmp_path / ".config").exists()


async def test_a_choice_that_something_else_overrules_is_warned_of(tmp_path: Path) -> None:
    project = tmp_path / ".fabric/config.json"
    project.parent.mkdir()
    project.write_text('{"models": {"quality": {"backend": "ollama", "model": "mine"}}}')
    refused = await choose(tmp_path, "fast")
    assert (refused.code, "fabric config trust" in refused.err) == (2, True), "somebody else may have written it"
    assert (await fabric(tmp_path)("config", "trust")).code == 0
    ended = await choose(tmp_path, "fast")
    assert ended.code == 0
    assert f"file {project} as well, which wins" in ended.err


def answer(body: dict[str, Any], _: int) -> Answer:
    """Call tools as a good model does."""
    if not body.get("tools"):
        return Say("The keeper went on writing, night after night, until the last ship had gone.")
    if "Oslo" in body["messages"][-1]["content"]:
        return Call("get_temperature", {"city": "Oslo"})
    return Call("add_numbers", {"a": 17, "b": 25})


async def test_a_probe_is_explained_and_used_by_the_list(tmp_path: Path) -> None:
    async with ScriptedModel(answer) as model:
        command = fabric(tmp_path, models={"quality": {"base_url": model.base_url, "model": "m"}})
        ended = await command("models", "probe")
        assert ended.code == 0, ended.err
        assert "✓ native" in ended.out
        assert "Remembered for later runs." in ended.out
        probed = (await command("models", "probe", "--json")).json
        assert (probed["dialect"], probed["kept"]) == ("native", True)
        listed = (await command("models", "list", "--json")).json["models"]
        assert next(line for line in listed if line["key"] == "quality")["tokens_per_s"] is not None


@pytest.mark.proves("DU-5")
async def test_a_model_that_calls_no_tools_fails_the_probe_and_the_way_out_is_named(tmp_path: Path) -> None:
    async with ScriptedModel(lambda _body, _: Say("Nice weather.")) as model:
        command = fabric(tmp_path, models={"quality": {"base_url": model.base_url, "model": "m"}})
        ended = await command("models", "probe")
        doctor = await command("doctor", "--json")
    assert ended.code == 1
    assert "cannot do tasks" in ended.out
    assert "fabric models use" in ended.out
    (found,) = [each for each in doctor.json["findings"] if each["about"] == "model quality"]
    assert (doctor.code, found["level"]) == (1, "fail")
    assert "it called no tools when it was probed" in found["text"]
    assert "fabric models use" in found["fix"]


async def test_an_interrupted_probe_ends_cleanly(tmp_path: Path) -> None:
    async with ScriptedModel(lambda _body, _: Hang(times=9)) as model:
        command = fabric(tmp_path, models={"quality": {"base_url": model.base_url, "model": "m"}})
        started = await command.start("models", "probe", "--json")
        await until(lambda: model.requests, "the model is asked")
        started.process.send_signal(signal.SIGINT)
        ended = await started.ended()
    assert (ended.code, ended.json["error"]["code"]) == (130, "interrupted")


async def test_ollama_pulls_what_it_can_get(tmp_path: Path) -> None:
    async with OllamaStandIn(models=MODELS, pullable=[StandInModel(name="llama3.1:8b")]) as ollama:
        command = fabric(tmp_path, models=ollama_at(ollama.base_url))
        ended = await command("models", "pull", "llama3.1:8b")
        assert ended.code == 0, ended.err
        assert "llama3.1:8b is there" in ended.out
        assert "Pulling llama3.1:8b" in ended.err
        refused = await command("models", "pull", "nosuch:1b", "--json")
        assert refused.code == 1
        assert "nosuch:1b" in refused.json["error"]["message"]


async def test_an_interrupted_download_goes_on_where_it_was(tmp_path: Path) -> None:
    async with slow_hub() as (port, begun):
        command = fabric(tmp_path)
        command.environment = {**command.environment, "HF_ENDPOINT": f"http://127.0.0.1:{port}"}
        started = await command.start("models", "pull", "quality")
        async with asyncio.timeout(30):
            await begun.wait()
        folder = tmp_path / ".local/share/agent-fabric/models"
        await until(lambda: any(part.stat().st_size > 1_000_000 for part in folder.glob(".*.part")), "bytes arrive")
        started.process.send_signal(signal.SIGINT)
        ended = await started.ended()
        assert ended.code == 130
        assert "`fabric models pull quality` continues where it was." in ended.err
        listed = (await command("models", "list", "--json")).json["embedded"]["catalogue"][0]
        assert (listed["stored"], listed["begun_bytes"] > 1_000_000) == ("begun", True)
        removed = await command("models", "rm", "quality", "--json")
        assert removed.json["freed_bytes"] > 1_000_000
        again = await command("models", "rm", "quality")
        assert again.code == 2
        assert "is not in" in again.err


async def test_a_server_in_use_is_spared_and_an_idle_one_is_ended(tmp_path: Path) -> None:
    command = fabric(tmp_path)
    model = tmp_path / ".local/share/agent-fabric/models/tiny.gguf"
    model.parent.mkdir(parents=True)
    model.write_bytes(b"GGUF and so on")
    servers = LlamaServers(tmp_path / ".local/state/agent-fabric/servers", command=CHILD)
    try:
        endpoint = await servers.ensure(ServerSpec(model=model))
        assert (await command("models", "stop", "--json")).json == {"ended": 0, "in_use": 1}
        refused = await command("models", "rm", "tiny")
        assert (refused.code, f"in use by process {endpoint.pid}" in refused.err) == (1, True)
        await servers.aclose()
        (loaded,) = (await command("models", "list", "--json")).json["embedded"]["loaded"]
        assert (loaded["pid"], loaded["in_use"]) == (endpoint.pid, False)
        assert f"process {endpoint.pid}" in (await command("doctor")).out
        removed = await command("models", "rm", "tiny")
        assert removed.code == 0, removed.err
        assert not model.exists()
        assert (await command("models", "stop", "--json")).json == {"ended": 0, "in_use": 0}, "its server was ended"
    finally:
        await servers.stop_all()


async def test_nothing_to_stop_is_no_error_and_names_of_ollama_are_not_removed(tmp_path: Path) -> None:
    command = fabric(tmp_path)
    assert (await command("models", "stop", "--json")).json == {"ended": 0, "in_use": 0}
    ended = await command("models", "rm", "llama3.1:8b")
    assert ended.code == 2
    assert "ollama rm llama3.1:8b" in ended.err


async def test_help_loads_neither_models_nor_the_network_library(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-X", "importtime", "-m", "agent_fabric.interfaces.cli.main", "--help"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if name in {"PATH", "PYTHONPATH", "HOME"}},
        cwd=tmp_path,
    )
    out, err = await process.communicate()
    assert b"models" in out
    assert b"doctor" in out
    for heavy in (b"aiohttp", b"pydantic", b"typer", b"agent_fabric.bootstrap"):
        assert heavy not in err


async def test_an_ollama_that_hangs_or_talks_nonsense_holds_up_nobody(tmp_path: Path) -> None:
    async with OllamaStandIn(models=MODELS) as ollama:
        command = fabric(tmp_path, models=ollama_at(ollama.base_url, "m"))
        quick = await command("models", "list", "--json")
        ollama.faults["/api/version"] = Hang(times=9)
        hanging = await command("models", "list", "--json")
        assert (hanging.code, hanging.json["ollama"][-1]["running"]) == (0, False)
        assert hanging.seconds < max(20.0, quick.seconds + 10.0), "on a busy machine everything takes longer"
        del ollama.faults["/api/version"]
        ollama.faults["/api/tags"] = Raw("<html>")
        nonsense = await command("models", "list", "--json")
        assert nonsense.code == 0
        assert nonsense.json["ollama"][-1]["models"] == []


@pytest.mark.proves("AF-085")
def test_the_guide_names_the_need_for_tools_and_gives_examples_that_are_valid() -> None:
    guide = (Path(__file__).parents[3] / "docs/guides/models.md").read_text()
    for words in ("must call tools", "qwen2.5", "llama3.1", "fabric models probe", "fabric doctor", "dialect"):
        assert words in guide
    together: dict[str, Any] = {"models": {}}
    for block in re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL):
        settings = yaml.safe_load(block)
        for key, entry in settings.pop("models", {}).items():
            together["models"][key] = {**together["models"].get(key, {}), **entry}
        together |= settings
    config = read_config({}, overrides=together).config
    assert config.models["cloud"].price is not None
    assert config.cloud_fallback is not None
