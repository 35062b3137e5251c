from typing import Any

import pytest

from agent_fabric.config.loader import Loaded, read_config
from agent_fabric.config.problems import ConfigProblem


def problem(**environ: str) -> ConfigProblem:
    with pytest.raises(ConfigProblem) as caught:
        read_config(environ)
    return caught.value


def setting(loaded: Loaded, path: str) -> Any:
    value: Any = loaded.config
    for part in path.split("."):
        value = value[part] if isinstance(value, dict) else getattr(value, part)
    return value


@pytest.mark.proves("C05")
@pytest.mark.parametrize(
    ("name", "text", "path", "value"),
    [
        ("FABRIC_DEFAULT_MODEL_KEY", "fast", "default_model_key", "fast"),
        ("FABRIC_BUDGET__MAX_STEPS", "7", "budget.max_steps", 7),
        ("FABRIC_BUDGET__MAX_SECONDS", "null", "budget.max_seconds", None),
        ("FABRIC_MODELS__FAST__BASE_URL", "http://gpu:1/v1", "models.fast.base_url", "http://gpu:1/v1"),
        ("FABRIC_MODELS__FAST__MODEL", "123", "models.fast.model", "123"),
        ("FABRIC_MODELS__FAST__BACKEND", "ollama", "models.fast.backend", "ollama"),
        ("FABRIC_MODELS__FAST__HEADERS", '{"X-Team": "blue"}', "models.fast.headers", {"X-Team": "blue"}),
        ("FABRIC_LOCAL_LLM_ENSURE_AVAILABLE", "false", "local_llm_ensure_available", False),
        ("FABRIC_LOCAL_LLM_START_CMD", '["llama-server"]', "local_llm_start_cmd", ("llama-server",)),
        ("FABRIC_TELEMETRY__EXPORTER", "console", "telemetry.exporter", "console"),
        ("FABRIC_BUDGET", '{"max_steps": 9}', "budget.max_steps", 9),
    ],
)
def test_a_variable_sets_the_setting_it_spells(name: str, text: str, path: str, value: Any) -> None:
    loaded = read_config({name: text})
    assert setting(loaded, path) == value
    assert f"env {name}" in loaded.origins.values()


def test_several_variables_can_make_a_new_model() -> None:
    loaded = read_config({"FABRIC_MODELS__BIG__BASE_URL": "http://a/v1", "FABRIC_MODELS__BIG__MODEL": "m"})
    assert loaded.config.models["big"].model == "m"
    assert loaded.origins["models.big.model"] == "env FABRIC_MODELS__BIG__MODEL"


def test_the_more_precise_variable_wins() -> None:
    environ = {"FABRIC_BUDGET__MAX_STEPS": "7", "FABRIC_BUDGET": '{"max_steps": 9, "max_tokens": 5}'}
    budget = read_config(environ).config.budget
    assert (budget.max_steps, budget.max_tokens) == (7, 5)


def test_a_dash_in_a_key_is_written_as_an_underscore(tmp_path: Any) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"models": {"my-model": {"base_url": "http://a", "model": "m"}}}')
    environ = {"FABRIC_CONFIG_PATH": str(path), "FABRIC_MODELS__MY_MODEL__MODEL": "n"}
    models = read_config(environ).config.models
    assert models["my-model"].model == "n"
    assert "my_model" not in models


@pytest.mark.parametrize(
    "name",
    [
        "FABRIC_RUN_ID",
        "FABRIC_URL",
        "FABRIC_TOKEN",
        "FABRIC_API_KEY",
        "FABRIC_DOMAIN",
        "FABRIC_SKIP_REAL_LLM",
        "FABRIC_CFG_PATH",
        "FABRIC_CA_CLIENT_HOME",
        "FABRICATED",
        "PATH",
    ],
)
def test_variables_that_mean_something_else_are_left_alone(name: str) -> None:
    assert set(read_config({name: "x"}).origins.values()) == {"default"}


@pytest.mark.parametrize("name", ["FABRIC_BUDGET__MAX_STEPS", "FABRIC_NONSENSE", "FABRIC_CONFIG_PATH"])
def test_an_empty_variable_counts_as_not_set(name: str) -> None:
    assert set(read_config({name: ""}).origins.values()) == {"default"}


def test_a_variable_that_holds_a_secret_is_not_taken_for_a_setting() -> None:
    environ = {"FABRIC_MODELS__FAST__API_KEY": "env:FABRIC_OPENAI_KEY", "FABRIC_OPENAI_KEY": "sk-1"}
    assert read_config(environ).config.models["fast"].api_key == "env:FABRIC_OPENAI_KEY"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("FABRIC_MAX_STEPS", "FABRIC_BUDGET__MAX_STEPS"),
        ("FABRIC_BUDGET_MAX_STEPS", "FABRIC_BUDGET__MAX_STEPS"),
        ("FABRIC_MODELS__FAST__BASEURL", "FABRIC_MODELS__FAST__BASE_URL"),
        ("FABRIC_CONFIG_PAHT", "FABRIC_CONFIG_PATH"),
        ("FABRIC_DEFAULT_MODEL", "FABRIC_DEFAULT_MODEL_KEY"),
    ],
)
def test_a_variable_that_names_no_setting_is_refused_with_the_nearest_name(name: str, meant: str) -> None:
    found = problem(**{name: "x"})
    assert found.message == f"the environment variable {name} names no setting; did you mean {meant}?"
    assert "__ between the parts" in found.hint


@pytest.mark.parametrize(
    "name",
    ["FABRIC_ZZZZZZZZ", "FABRIC_MODELS__", "FABRIC_", "FABRIC_BUDGET__MAX_STEPS__X", "FABRIC_MODELS__FAST__HEADERS__A"],
)
def test_a_variable_that_resembles_nothing_is_refused_too(name: str) -> None:
    assert f"the environment variable {name} names no setting" in problem(**{name: "x"}).message


def test_a_value_that_should_be_json_is_explained_without_repeating_it() -> None:
    found = problem(FABRIC_LOCAL_LLM_START_CMD="hunter2 --serve")
    assert found.message.startswith("the environment variable FABRIC_LOCAL_LLM_START_CMD must be JSON: ")
    assert "hunter2" not in found.message
    assert '["ollama", "serve"]' in found.hint


def test_a_value_of_the_wrong_kind_names_the_variable() -> None:
    assert problem(FABRIC_BUDGET__MAX_STEPS='"7"').message == (
        "env FABRIC_BUDGET__MAX_STEPS: budget.max_steps must be a whole number, got text"
    )


def test_what_is_missing_from_a_model_is_named() -> None:
    message = problem(FABRIC_MODELS__BIG__BACKEND="generic").message
    assert message == "environment: models.big needs `base_url`, the address of the server"


def test_all_wrong_variables_are_reported_together() -> None:
    message = problem(FABRIC_ZZZZZZZZ="1", FABRIC_BUDGET__MAX_STEPS="x").message
    assert "FABRIC_ZZZZZZZZ" in message
    assert "FABRIC_BUDGET__MAX_STEPS" in message


def test_half_a_character_in_a_variable_is_refused() -> None:
    assert "half a character" in problem(FABRIC_MODELS__FAST__MODEL="\udcff").message
