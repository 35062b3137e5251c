"""Which model a key of the configuration means."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import ANY

import pytest

from agent_fabric.application.ports.llm import ChosenModel, Notice
from agent_fabric.config.schema.models import ModelConfig
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.models.found_models import ModelCard
from agent_fabric.domain.models.messages import ToolDialect
from agent_fabric.infrastructure.models.chooser import ConfiguredModels
from agent_fabric.infrastructure.models.model_http import ServerAddress
from agent_fabric.testing.fakes import quiet

BIG = ModelCard(name="llama3.1:8b", parameters_b=8.0, context_window=131_072, served_window=4096)
SMALL = ModelCard(name="qwen2.5:3b", parameters_b=3.1, context_window=32_768, served_window=4096)
TEXT_ONLY = ModelCard(
    name="gemma3:1b", parameters_b=1.0, calls_tools=False, dialect=ToolDialect.SCHEMA, served_window=4096
)
EMBEDDER = ModelCard(name="nomic-embed-text", parameters_b=0.1, chats=False, calls_tools=False)
SEEDS = {"base_url": "http://localhost:11434/v1", "model": "qwen2.5:14b", "backend": "ollama"}


@dataclass
class Machine:
    """A machine with, or without, an Ollama."""

    ollama: Sequence[ModelCard] | None = None
    serves: Sequence[ModelCard] | None = None
    ensure: bool = True
    offline: bool = False
    managed: ModelCard | None = None
    """What our own llama-server serves."""
    asked: list[str] = field(default_factory=list)

    async def find_models(
        self, base_url: str, notice: Notice, address: ServerAddress | None = None
    ) -> Sequence[ModelCard] | None:
        self.asked.append(base_url)
        return self.ollama

    async def list_models(self, address: ServerAddress) -> Sequence[ModelCard] | None:
        self.asked.append(address.base_url)
        return self.serves

    async def card(self) -> ModelCard:
        assert self.managed is not None
        return self.managed

    def improve(self, card: ModelCard, base_url: str) -> ModelCard:
        return card

    async def choose(self, key: str = "quality", **models: dict[str, Any]) -> ChosenModel:
        entries = {"fast": {}, "quality": {}, **models}
        chooser = ConfiguredModels(
            models={name: ModelConfig.model_validate(entry) for name, entry in entries.items()},
            default_key="quality",
            ensure=self.ensure,
            embedded_window=8192,
            embedded_slots=1,
            generic=self,
            ollama=self,
            cards=self,
            managed=None if self.managed is None else self,
            offline=self.offline,
        )
        return await chooser.choose(key, quiet)


@pytest.mark.proves("AF-083")
async def test_an_ollama_with_a_usable_model_wins_when_nobody_configured_anything() -> None:
    settings, why = await Machine([EMBEDDER, BIG, SMALL, TEXT_ONLY]).choose()
    assert (settings.backend, settings.model) == ("ollama", "qwen2.5:3b")
    assert (settings.dialect, settings.compact) == ("native", True)
    assert why == "found in Ollama"


async def test_the_usual_model_is_taken_if_ollama_has_it() -> None:
    usual = replace(BIG, name="qwen2.5:14b", parameters_b=14.8)
    settings, _ = await Machine([SMALL, usual]).choose()
    assert (settings.model, settings.compact) == ("qwen2.5:14b", False)


async def test_a_model_that_was_found_gets_a_window_that_a_task_fits_into() -> None:
    settings, _ = await Machine([BIG]).choose()
    assert (settings.context_window, settings.sets_window) == (8192, True)
    settings, _ = await Machine([BIG]).choose(quality={"context_window": 20_000})
    assert (settings.context_window, settings.sets_window) == (20_000, True)


@pytest.mark.parametrize("there", [None, [], [EMBEDDER, TEXT_ONLY]])
async def test_without_a_usable_ollama_the_embedded_model_does_the_work(there: Sequence[ModelCard] | None) -> None:
    settings, why = await Machine(there).choose()
    assert (settings.backend, settings.model) == ("embedded", "qwen2.5-coder-1.5b-instruct-q4_k_m")
    assert (settings.dialect, settings.compact, settings.context_window) == ("schema", True, 8192)
    assert "Ollama" in why


async def test_one_embedded_model_serves_the_work_and_the_routing() -> None:
    work, routing = await Machine().choose("quality"), await Machine().choose("fast")
    assert work.settings == routing.settings


async def test_the_fast_embedded_model_is_there_for_who_asks_for_it() -> None:
    settings, _ = await Machine().choose("fast", fast={"backend": "embedded"})
    assert settings.model == "qwen2.5-coder-0.5b-instruct-q4_k_m"


@pytest.mark.proves("AF-170")
async def test_when_nothing_may_be_started_the_run_fails_at_ollamas_door() -> None:
    settings, _ = await Machine(ensure=False).choose()
    assert (settings.backend, settings.base_url) == ("ollama", "http://localhost:11434/v1")


@pytest.mark.proves("AF-078")
async def test_a_configured_ollama_model_is_taken_else_the_smallest_that_calls_tools() -> None:
    settings, why = await Machine([BIG, SMALL]).choose(quality={**SEEDS, "model": "llama3.1:8b"})
    assert (settings.model, why) == ("llama3.1:8b", "configured")
    settings, why = await Machine([BIG, SMALL, EMBEDDER]).choose(quality=SEEDS)
    assert settings.model == "qwen2.5:3b"
    assert "lacks qwen2.5:14b" in why


async def test_a_configured_ollama_is_never_replaced_by_the_embedded_model() -> None:
    nothing: list[ModelCard] = []
    for there in (None, nothing):
        settings, _ = await Machine(there).choose(quality=SEEDS)
        assert (settings.backend, settings.model) == ("ollama", "qwen2.5:14b")


async def test_a_configured_ollama_keeps_its_own_window_which_is_known_before_the_first_turn() -> None:
    settings, _ = await Machine([BIG]).choose(quality={**SEEDS, "model": "llama3.1:8b"})
    assert (settings.context_window, settings.sets_window) == (4096, False)


async def test_a_model_without_tools_is_held_to_a_schema_unless_only_native_calls_are_wanted() -> None:
    config = {**SEEDS, "model": "gemma3:1b"}
    assert (await Machine([TEXT_ONLY]).choose(quality=config)).settings.dialect == "schema"
    strict = {**config, "strict_native": True}
    assert (await Machine([TEXT_ONLY]).choose(quality=strict)).settings.dialect == "native"


@pytest.mark.proves("AF-084")
async def test_an_address_and_a_name_are_all_that_another_server_needs() -> None:
    machine = Machine()
    settings, _ = await machine.choose(quality={"base_url": "http://gpu:8000/v1", "model": "m"})
    assert (settings.backend, settings.base_url, settings.model) == ("generic", "http://gpu:8000/v1", "m")
    assert (settings.dialect, settings.compact, settings.slots) == ("native", False, None)
    assert machine.asked == []


async def test_the_port_of_ollama_means_ollama() -> None:
    config = {"base_url": "http://gpu:11434/v1", "model": "llama3.1:8b"}
    assert (await Machine([BIG]).choose(quality=config)).settings.backend == "ollama"


@pytest.mark.proves("AF-078", "AF-086")
async def test_a_server_without_a_model_name_is_asked_what_it_has() -> None:
    config = {"base_url": "http://gpu:8000/v1"}
    machine = Machine(serves=[EMBEDDER, BIG, SMALL])
    assert await machine.choose(quality=config) == (ANY, "the smallest that the server has")
    assert (await machine.choose(quality=config)).settings.model == SMALL.name
    assert (await Machine(serves=None).choose(quality=config)).settings.model == "default"


@pytest.mark.proves("AF-078", "AF-086")
async def test_a_server_here_that_lacks_the_configured_model_is_asked_for_its_smallest() -> None:
    here = {"base_url": "http://127.0.0.1:8000/v1", "model": "gone"}
    settings, why = await Machine(serves=[EMBEDDER, BIG, SMALL]).choose(quality=here)
    assert (settings.model, why) == (SMALL.name, "the server lacks gone; this is the smallest that it has")
    assert (await Machine(serves=[BIG, SMALL]).choose(quality={**here, "model": BIG.name})).why == "configured"
    assert (await Machine(serves=[BIG]).choose(quality=here)).settings.model == "gone"
    assert (await Machine(serves=None).choose(quality=here)).settings.model == "gone"


async def test_a_key_that_says_nothing_follows_the_model_that_does_the_work() -> None:
    machine = Machine([SMALL])
    settings, _ = await machine.choose("fast", quality={"base_url": "http://gpu:8000/v1", "model": "m"})
    assert settings.model == "m"
    assert machine.asked == []


async def test_what_is_configured_for_a_model_is_in_its_settings() -> None:
    price = {"input": 1.0, "output": 2.0}
    config = {
        "base_url": "http://gpu:8000/v1",
        "model": "m",
        "dialect": "text",
        "compact": True,
        "slots": 3,
        "price": price,
        "context_window": 9000,
    }
    settings, _ = await Machine().choose(quality=config)
    assert (settings.dialect, settings.compact, settings.slots, settings.context_window) == ("text", True, 3, 9000)
    assert settings.price is not None
    assert settings.price.output == 2.0


async def test_only_ollama_is_told_how_long_a_model_stays_loaded() -> None:
    settings, _ = await Machine([BIG]).choose(quality={"keep_alive_s": 60})
    assert (settings.backend, settings.keep_alive_s) == ("ollama", 60)
    for wrong in ({"backend": "embedded"}, {"backend": "generic", "base_url": "http://x/v1"}):
        with pytest.raises(ValueError, match="only Ollama"):
            ModelConfig.model_validate({"keep_alive_s": 60, **wrong})


async def test_an_unknown_key_or_embedded_model_is_named_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="wizard") as caught:
        await Machine().choose("wizard")
    assert "fast, quality" in caught.value.hint
    with pytest.raises(ConfigError, match="gpt-9") as caught:
        await Machine().choose(quality={"backend": "embedded", "model": "gpt-9"})
    assert "qwen2.5-coder" in caught.value.hint


LARGE_FILE = ModelCard(name="llama-3.1-8b-q4_k_m", parameters_b=8.0, context_window=131_072, served_window=16_384)


@pytest.mark.proves("FC-003", "C09")
async def test_our_own_llama_server_is_asked_for_the_model_that_it_serves() -> None:
    machine = Machine([SMALL], managed=LARGE_FILE)
    settings, why = await machine.choose(quality={"backend": "managed"})
    assert (settings.backend, settings.model, why) == ("managed", "llama-3.1-8b-q4_k_m", "configured")
    assert (settings.dialect, settings.compact, settings.context_window) == ("native", False, 16_384)
    assert settings.slots is None  # a switch may change them while a run goes on
    routing, _ = await machine.choose("fast", quality={"backend": "managed"})
    assert routing.model == settings.model
    assert machine.asked == []


async def test_a_small_model_of_our_own_llama_server_is_held_to_a_schema_unless_configured() -> None:
    machine = Machine(managed=replace(LARGE_FILE, parameters_b=1.5))
    settings, _ = await machine.choose(quality={"backend": "managed"})
    assert (settings.dialect, settings.compact) == ("schema", True)
    told, _ = await machine.choose(quality={"backend": "managed", "dialect": "native", "compact": False})
    assert (told.dialect, told.compact) == ("native", False)


async def test_without_a_llama_server_of_our_own_the_hint_says_how_to_have_one() -> None:
    with pytest.raises(ConfigError, match="no llama-server is configured") as caught:
        await Machine().choose(quality={"backend": "managed"})
    assert "managed_llama.model" in caught.value.hint


@pytest.mark.proves("C10")
@pytest.mark.parametrize(
    "config",
    [
        {"base_url": "http://gpu:8000/v1"},
        {"base_url": "http://gpu:11434/v1", "model": "llama3.1:8b"},
        {"base_url": "http://gpu:8000/v1", "backend": "ollama"},
    ],
)
async def test_offline_not_even_the_list_of_models_is_asked_for_elsewhere(config: dict[str, Any]) -> None:
    machine = Machine([BIG], [SMALL], offline=True)
    settings, _ = await machine.choose(quality=config)
    assert (machine.asked, settings.base_url) == ([], config["base_url"])


@pytest.mark.proves("C10")
async def test_offline_this_machine_is_looked_at_as_ever() -> None:
    settings, why = await Machine([BIG], offline=True).choose()
    assert (settings.model, why) == ("llama3.1:8b", "found in Ollama")


async def test_a_model_that_ollama_has_elsewhere_is_known_as_such() -> None:
    elsewhere = replace(BIG, name="ours:latest", remote=True)
    settings, _ = await Machine([elsewhere]).choose(quality={**SEEDS, "model": "ours"})
    assert settings.remote


async def test_a_name_that_ollama_lacks_is_said_when_another_model_is_taken() -> None:
    settings, why = await Machine([SMALL]).choose(quality={"model": "mistral:7b"})
    assert settings.model == "qwen2.5:3b"
    assert "lacks mistral:7b" in why


async def test_when_nothing_may_be_started_an_ollama_without_models_is_not_said_to_be_silent() -> None:
    _, why = await Machine([], ensure=False).choose()
    assert why == "Ollama has no model that can call tools, and nothing is to be started"


async def test_a_file_is_run_by_ourselves_although_ollama_is_there() -> None:
    machine = Machine([BIG])
    with pytest.raises(ConfigError, match=r"nowhere\.gguf"):
        await machine.choose(quality={"model": "/nowhere.gguf"})
    assert machine.asked == []


@pytest.mark.proves("SM-1")
async def test_an_adapter_means_the_embedded_model_although_ollama_is_there() -> None:
    chosen = await Machine(ollama=[BIG]).choose(quality={"adapter": "/models/ours.gguf"})
    assert (chosen.settings.backend, chosen.settings.adapter) == ("embedded", "/models/ours.gguf")
    bare = await Machine().choose(quality={"adapter": "none"})
    assert (bare.settings.backend, bare.settings.adapter) == ("embedded", "")


async def test_ollama_serves_one_at_a_time_unless_it_is_told_otherwise() -> None:
    assert (await Machine([BIG]).choose()).settings.slots == 1
    assert (await Machine([BIG]).choose(quality={**SEEDS, "slots": 4})).settings.slots == 4
    assert (await Machine().choose(quality={"base_url": "http://gpu:8000/v1", "model": "m"})).settings.slots is None
