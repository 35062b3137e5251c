"""The settings of a managed llama-server."""

from typing import Any

import pytest
from pydantic import ValidationError

from agent_fabric.config.loader import read_config
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.models import ManagedLlamaConfig


def config(**settings: Any) -> ManagedLlamaConfig:
    return ManagedLlamaConfig.model_validate({"model": "/models/a.gguf", **settings})


def test_a_model_is_all_that_is_needed() -> None:
    assert config().command == ("llama-server",)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"model": "a.gguf"}, "absolute path"),
        ({"model": "/models/a.bin"}, r"\.gguf"),
        ({"command": []}, "at least 1"),
        ({"parallel": 0}, "greater than or equal to 1"),
        ({"flash_attention": "yes"}, "'on', 'off' or 'auto'"),
        ({"cache_type_k": "q3_0"}, "q8_0"),
        ({"extra_args": ["--port", "1"]}, "must not hold --port"),
        ({"extra_args": ["--api-key=x"]}, "must not hold --api-key"),
        ({"extra_args": ["--tools", "all"]}, "no policy has seen"),
        ({"flash_attention": "off", "cache_type_v": "q8_0"}, "needs flash attention"),
        ({"typo": 1}, "not permitted"),
    ],
)
def test_what_cannot_work_is_refused_with_a_reason(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValidationError, match=expected):
        config(**settings)


def test_smaller_values_are_fine_with_flash_attention() -> None:
    assert config(flash_attention="on", cache_type_k="q4_0", cache_type_v="q4_0", gpu_layers="all").gpu_layers == "all"


@pytest.mark.proves("FC-003", "FC-007")
def test_a_model_may_be_that_of_the_managed_server() -> None:
    managed = {"model": "/models/a.gguf", "flash_attention": "on", "cache_type_k": "q8_0", "parallel": 2}
    loaded = read_config({}, overrides={"models": {"quality": {"backend": "managed"}}, "managed_llama": managed})
    assert loaded.config.models["quality"].backend == "managed"
    assert loaded.config.managed_llama == config(**{**managed, "model": "/models/a.gguf"})


@pytest.mark.proves("FC-007")
def test_its_options_can_come_from_the_environment() -> None:
    environ = {"FABRIC_MANAGED_LLAMA__MODEL": "/models/a.gguf", "FABRIC_MANAGED_LLAMA__PARALLEL": "3"}
    managed = read_config(environ).config.managed_llama
    assert managed is not None
    assert managed.parallel == 3


@pytest.mark.parametrize(
    ("model", "managed", "expected"),
    [
        ({}, None, r"models.quality.backend.*needs `managed_llama`"),
        ({"base_url": "http://localhost:1/v1"}, {"model": "/models/a.gguf"}, "must not have `base_url`"),
        ({"model": "a"}, {"model": "/models/a.gguf"}, "must not have `model`"),
        ({"slots": 2}, {"model": "/models/a.gguf"}, "must not have `slots`"),
        ({"context_window": 4096}, {"model": "/models/a.gguf"}, "must not have `context_window`"),
    ],
)
def test_a_managed_model_leaves_the_rest_to_its_server(
    model: dict[str, Any], managed: dict[str, Any] | None, expected: str
) -> None:
    overrides = {"models": {"quality": {"backend": "managed", **model}}, "managed_llama": managed}
    with pytest.raises(ConfigProblem, match=expected):
        read_config({}, overrides=overrides)
