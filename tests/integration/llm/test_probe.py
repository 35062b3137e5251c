"""A probe finds out over real HTTP how a model calls tools, and later choices use what it found."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.models.probe_model import Probed
from agent_fabric.bootstrap.models import open_models
from agent_fabric.config.loader import read_config
from agent_fabric.domain.errors import ConfigError, ModelForbidden, ModelTimedOut, ModelUnreachable
from agent_fabric.domain.models.messages import ToolDialect
from agent_fabric.testing.scripted_model import Answer, Call, Hang, Reset, Responder, Say, ScriptedModel, Status
from standins.ollama_standin import OllamaStandIn, StandInModel

STORY = Say("The keeper of the lighthouse went on writing, night after night, until the last ship had gone.")
FENCED = "I will look.\n```tool_call\n%s\n```"


@pytest.fixture(autouse=True)
def _own_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("FABRIC_MODELS_DIR", str(tmp_path / "models"))


async def probe(
    base_url: str, key: str = "quality", /, *, model: Mapping[str, Any] | None = None, **more: Any
) -> Probed:
    """Probe a model as `fabric models probe` does."""
    about = {"base_url": base_url, "model": "scripted", **(model or {})}
    config = read_config({}, overrides={"models": {"quality": about}, **more}).config
    async with open_models(config) as here:
        return await here.probe_model(key, lambda _: None)


async def chosen_dialect(base_url: str) -> str:
    """Tell how a run would call tools now."""
    config = read_config({}, overrides={"models": {"quality": {"base_url": base_url, "model": "scripted"}}}).config
    async with open_models(config) as here:
        return (await here.stack.chooser.choose("quality", lambda _: None)).settings.dialect


def wanted(body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the call that a good model would make."""
    text = str(body["messages"][-1]["content"])
    return ("get_temperature", {"city": "Oslo"}) if "Oslo" in text else ("add_numbers", {"a": 17, "b": 25})


def native(body: dict[str, Any], _: int) -> Answer:
    return Call(*wanted(body)) if body.get("tools") else STORY


def constrained(body: dict[str, Any], _: int) -> Answer:
    """Like a small model: writes calls as text unless the server holds it to a schema."""
    name, arguments = wanted(body)
    if body.get("response_format"):
        return Say(json.dumps({"name": name, "arguments": arguments}))
    return Say(json.dumps({"name": name, "arguments": arguments})) if body.get("tools") else STORY


def fencing(body: dict[str, Any], _: int) -> Answer:
    """Like an old server: refuses tools, ignores schemas; its model follows the system prompt."""
    if body.get("tools"):
        return Status(400, '{"error": {"message": "registry/old:1b does not support tools"}}', times=9)
    if "tool_call" in str(body["messages"][0]["content"]):
        name, arguments = wanted(body)
        return Say(FENCED % json.dumps({"tool": name, "params": arguments}))
    return STORY if "story" in str(body["messages"]) else Say("It is warm, I think.")


def useless(_body: dict[str, Any], _: int) -> Answer:
    return STORY


def wrong(body: dict[str, Any], _: int) -> Answer:
    """Calls a tool, but the same one whatever it is asked."""
    return Call("add_numbers", {"a": 1, "b": 2}) if body.get("tools") else STORY


@pytest.mark.proves("AF-080", "C01")
@pytest.mark.parametrize(
    ("respond", "dialect", "tried"),
    [(native, ToolDialect.NATIVE, 1), (constrained, ToolDialect.SCHEMA, 2), (fencing, ToolDialect.TEXT, 3)],
)
async def test_the_first_dialect_that_works_is_used_by_later_runs(
    respond: Responder, dialect: ToolDialect, tried: int
) -> None:
    async with ScriptedModel(respond) as model:
        assert await chosen_dialect(model.base_url) == "native"
        assert not model.requests, "choosing asks no model anything"
        probed = await probe(model.base_url)
        assert (probed.dialect, probed.kept) == (dialect, True)
        assert [trial.worked for trial in probed.trials] == [False] * (tried - 1) + [True]
        assert await chosen_dialect(model.base_url) == dialect
        assert len(model.requests) == (tried - 1) + 2 + 1, "one failure is enough, two successes, one story"


@pytest.mark.parametrize("respond", [useless, wrong])
async def test_that_a_model_calls_no_tools_is_remembered_but_changes_no_dialect(respond: Responder) -> None:
    async with ScriptedModel(respond) as model:
        probed = await probe(model.base_url)
        assert (probed.dialect, probed.kept, len(probed.trials)) == (None, True, 3)
        assert all(trial.said for trial in probed.trials)
        assert await chosen_dialect(model.base_url) == "native"


async def test_the_speed_is_measured_when_the_answer_is_streamed() -> None:
    async with ScriptedModel(native) as model:
        probed = await probe(model.base_url)
        assert model.requests[-1].body["stream"] is True
    assert probed.speed.tokens_per_s is not None
    assert probed.speed.tokens_per_s > 0


@pytest.mark.proves("C01")
async def test_a_model_of_ollama_without_tools_is_held_to_a_schema(tmp_path: Path) -> None:
    able = StandInModel(name="gemma3:4b", parameter_size="4.3B", capabilities=("completion",), context_length=8192)

    def respond(body: dict[str, Any], attempt: int) -> Answer:
        return constrained({**body, "response_format": body.get("format") or body.get("response_format")}, attempt)

    async with OllamaStandIn(respond, models=[able]) as ollama:
        probed = await probe(ollama.base_url, model={"model": "gemma3:4b", "backend": "ollama"})
    assert probed.dialect is ToolDialect.SCHEMA
    assert "does not support tools" in probed.trials[0].said
    assert probed.card.digest == able.digest
    known = json.loads((tmp_path / "cache/agent-fabric/model-cards.json").read_bytes())
    assert known[able.digest]["dialect"] == "schema"


async def test_what_stands_in_the_way_is_an_error_and_nothing_is_remembered(tmp_path: Path) -> None:
    with pytest.raises(ModelUnreachable):
        await probe("http://127.0.0.1:9/v1")
    with pytest.raises(ConfigError, match="There is no model 'cloud'"):
        await probe("http://127.0.0.1:9/v1", "cloud")
    with pytest.raises(ModelForbidden):
        await probe("http://192.0.2.1/v1", offline=True)
    async with ScriptedModel(lambda _body, _: Hang(times=99)) as model:
        with pytest.raises(ModelTimedOut, match=r"0\.2 s") as caught:
            await probe(model.base_url, model={"timeout_s": 0.2})
        assert "timeout_s" in caught.value.hint
    assert not (tmp_path / "cache").exists()


async def test_a_second_model_has_no_part_in_a_probe() -> None:
    async with ScriptedModel(useless) as local, ScriptedModel(native) as cloud:
        config = read_config(
            {},
            overrides={
                "models": {
                    "quality": {"base_url": local.base_url, "model": "small"},
                    "cloud": {"base_url": cloud.base_url, "model": "large"},
                },
                "cloud_fallback": {"model_key": "cloud", "policy": "always"},
            },
        ).config
        async with open_models(config) as here:
            probed = await here.probe_model("quality", lambda _: None)
        assert probed.dialect is None
        assert not cloud.requests


async def test_a_server_that_breaks_off_is_an_unusable_dialect_not_a_crash() -> None:
    def respond(body: dict[str, Any], attempt: int) -> Answer:
        return Reset(times=9) if body.get("tools") else constrained(body, attempt)

    async with ScriptedModel(respond) as model:
        probed = await probe(model.base_url)
    assert probed.dialect is ToolDialect.SCHEMA


@pytest.mark.soak
@pytest.mark.proves("C01")
async def test_the_real_embedded_model_is_held_to_a_schema_and_its_speed_is_known(
    fast_weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FABRIC_MODELS_DIR", str(fast_weights.parent))
    config = read_config({}, overrides={"models": {"quality": {"backend": "embedded", "model": "fast"}}}).config
    async with open_models(config) as here:
        try:
            probed = await here.probe_model("quality", lambda _: None)
        finally:
            await here.servers.stop_all()
    assert probed.dialect is ToolDialect.SCHEMA
    assert probed.window == 8192
    assert probed.speed.prompt_tokens_per_s is not None
    assert probed.speed.tokens_per_s is not None
