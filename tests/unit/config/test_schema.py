"""What each setting accepts, as seen by somebody who writes it into a file."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from agent_fabric.config.loader import read_config
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.fabric import FabricConfig

MODEL = {"base_url": "https://api.example.com/v1", "model": "big"}


def load(settings: Mapping[str, Any]) -> FabricConfig:
    return read_config({}, overrides=settings).config


def problem(settings: Mapping[str, Any]) -> ConfigProblem:
    with pytest.raises(ConfigProblem) as caught:
        load(settings)
    return caught.value


def with_model(**settings: Any) -> dict[str, Any]:
    return {"models": {"cloud": {**MODEL, **settings}}}


def with_server(**settings: Any) -> dict[str, Any]:
    return {"specialists": {"engineering": {"mcp_servers": [{"name": "docs", **settings}]}}}


@pytest.mark.proves("AF-153")
def test_every_documented_field_is_accepted() -> None:
    config = load(
        {
            "models": {
                "cloud": {
                    **MODEL,
                    "backend": "generic",
                    "temperature": 0,
                    "top_p": 1,
                    "max_tokens": 100,
                    "timeout_s": 60,
                    "connect_timeout_s": 1.5,
                    "context_window": 128_000,
                    "api_key": "env:CLOUD_KEY",
                    "ca_file": "/etc/ssl/own.pem",
                    "headers": {"X-Team": "blue"},
                }
            },
            "specialists": {
                "writer": {
                    "description": "Writes.",
                    "keywords": ["write"],
                    "workflow": ["draft", "edit"],
                    "builder": "my_packs.writer:build_pack",
                    "mcp_servers": [
                        {"name": "docs", "transport": "stdio", "command": ["docs-server"], "env": {"A": "b"}}
                    ],
                    "container_image": "python:3.13",
                }
            },
            "routing_model_key": "cloud",
            "default_model_key": "cloud",
            "task_force_mode": "parallel",
            "local_llm_ensure_available": False,
            "local_llm_start_cmd": ["llama-server"],
            "auto_pull_if_missing": False,
            "run_index": {"embedding_model": "minilm", "embedding_base_url": "http://localhost:1/v1"},
            "cloud_fallback": {"model_key": "cloud", "policy": "malformed_args"},
            "telemetry": {"enabled": True, "exporter": "otlp", "otlp_endpoint": "http://localhost:4318"},
            "budget": {"max_steps": 1000, "max_tokens": 5, "max_seconds": 0.5},
            "shell": {"allowed_commands": [], "extra_commands": ["rg"], "timeout_s": 5},
        }
    )
    assert config.models["cloud"].context_window == 128_000
    assert config.specialists["writer"].mcp_servers[0].command == ("docs-server",)
    assert config.shell.allowed_commands == ()


def test_a_model_needs_only_an_address_and_a_name() -> None:
    model = load(with_model()).models["cloud"]
    assert (model.backend, model.top_p, model.max_tokens) == ("auto", 0.9, 2048)


def test_a_slash_at_the_end_of_an_address_does_not_matter() -> None:
    assert load(with_model(base_url="http://gpu:8000/v1/")).models["cloud"].base_url == "http://gpu:8000/v1"


@pytest.mark.parametrize(
    "address",
    ["localhost:11434/v1", "ftp://x/y", "http://", "http://[", "http://a:99999", "http://a b", "", "file:///x"],
)
def test_an_address_must_be_http(address: str) -> None:
    assert problem(with_model(base_url=address)).message == (
        "flag: models.cloud.base_url must be an http:// or https:// address, such as 'http://localhost:11434/v1'"
    )


def test_an_address_must_not_carry_a_password() -> None:
    found = problem(with_model(base_url="https://me:hunter2@example.com/v1"))
    assert "must not contain a user name or password" in found.message
    assert "hunter2" not in found.message + found.hint


def test_an_address_to_which_paths_are_added_takes_no_query() -> None:
    assert "must not contain '?' or '#'" in problem(with_model(base_url="http://a/v1?x=1")).message


@pytest.mark.parametrize("key", ["sk-live-12345", "env:", "env:1X", "env:A B", "$OPENAI_API_KEY", ""])
def test_a_key_itself_is_refused_and_never_repeated(key: str) -> None:
    found = problem(with_model(api_key=key))
    assert found.message == (
        "flag: models.cloud.api_key must be a reference such as 'env:OPENAI_API_KEY', never the key itself"
    )
    assert "environment variable" in found.hint
    assert "sk-live" not in found.message + found.hint


def test_a_key_in_the_wrong_place_is_not_repeated_by_the_models_either() -> None:
    with pytest.raises(ValueError, match="never the key itself") as caught:
        FabricConfig.model_validate({"models": {"a": {**MODEL, "api_key": "sk-live-1"}}, "specialists": {}})
    assert "sk-live" not in str(caught.value)


def test_a_certificate_file_must_be_an_absolute_path() -> None:
    assert "must be an absolute path" in problem(with_model(ca_file="own.pem")).message


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"routing_model_key": "tiny"}, "flag: routing_model_key is 'tiny', but no model has this key"),
        ({"default_model_key": "tiny"}, "flag: default_model_key is 'tiny', but no model has this key"),
        (
            {"cloud_fallback": {"model_key": "tiny"}},
            "flag: cloud_fallback.model_key is 'tiny', but no model has this key",
        ),
    ],
)
def test_a_model_key_must_name_a_model(settings: dict[str, Any], said: str) -> None:
    found = problem(settings)
    assert found.message == said
    assert found.hint == "Models: fast, quality."


def test_all_wrong_model_keys_are_reported_together() -> None:
    message = problem({"routing_model_key": "a", "default_model_key": "b"}).message
    assert "routing_model_key is 'a'" in message
    assert "default_model_key is 'b'" in message


@pytest.mark.proves("AF-154")
@pytest.mark.parametrize(
    ("server", "said"),
    [
        ({}, "needs 'command' because its transport is 'stdio'"),
        ({"transport": "http", "command": ["x"]}, "needs 'url' because its transport is 'http'"),
        ({"transport": "sse"}, "needs 'url' because its transport is 'sse'"),
    ],
)
def test_an_mcp_server_needs_what_its_transport_needs(server: dict[str, Any], said: str) -> None:
    assert problem(with_server(**server)).message == f"flag: specialists.engineering.mcp_servers[0] {said}"


@pytest.mark.proves("AF-154")
def test_an_mcp_server_is_started_or_connected_to() -> None:
    started = load(with_server(command=["docs", "--stdio"])).specialists["engineering"].mcp_servers[0]
    assert (started.name, started.transport, started.command, started.url) == (
        "docs",
        "stdio",
        ("docs", "--stdio"),
        None,
    )
    connected = load(with_server(transport="http", url="https://mcp.example.com/?a=b")).specialists["engineering"]
    assert connected.mcp_servers[0].url == "https://mcp.example.com/?a=b"


@pytest.mark.parametrize("name", ["a__b", "", "a b", "x_", "a" * 65])
def test_an_mcp_server_name_must_fit_into_tool_names(name: str) -> None:
    assert "without two _ in a row" in problem(with_server(name=name, command=["x"])).message


def test_two_mcp_servers_of_one_specialist_must_differ_in_name() -> None:
    servers = [{"name": "docs", "command": ["a"]}, {"name": "docs", "command": ["b"]}]
    message = problem({"specialists": {"engineering": {"mcp_servers": servers}}}).message
    assert message == "flag: specialists.engineering has more than one MCP server named 'docs'"


def test_traces_need_an_address_to_go_to() -> None:
    assert "telemetry needs 'otlp_endpoint'" in problem({"telemetry": {"enabled": True}}).message
    assert load({"telemetry": {"enabled": True, "exporter": "console"}}).telemetry is not None


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"budget": {"max_steps": "40"}}, "budget.max_steps must be a whole number, got text"),
        ({"budget": {"max_steps": True}}, "budget.max_steps must be a whole number, got true or false"),
        ({"budget": {"max_steps": 1.5}}, "budget.max_steps must be a whole number, got a number"),
        ({"budget": {"max_steps": 0}}, "budget.max_steps must be at least 1, got 0"),
        ({"budget": {"max_steps": 1001}}, "budget.max_steps must be at most 1000, got 1001"),
        ({"budget": {"max_seconds": 0}}, "budget.max_seconds must be greater than 0, got 0"),
        ({"budget": {"max_seconds": float("inf")}}, "budget.max_seconds must be a finite number"),
        ({"budget": {"max_tokens": 10**5000}}, "budget.max_tokens is too large a number"),
        ({"shell": {"timeout_s": 1e300}}, "shell.timeout_s must be at most 86400, got a number"),
        ({"budget": 5}, "budget must be a mapping, got a whole number"),
        ({"budget": None}, "budget must be a mapping, got nothing (null)"),
        ({"models": []}, "models must be a mapping, got a list"),
        ({"models": {"fast": None}}, "models.fast must be a mapping, got nothing (null)"),
        ({"models": {"fast": {"temperature": "hot"}}}, "models.fast.temperature must be a number, got text"),
        ({"models": {"fast": {"model": ""}}}, "models.fast.model must not be empty"),
        ({"models": {"fast": {"headers": {"A": 1}}}}, "models.fast.headers.A must be text, got a whole number"),
        ({"models": {"fast": {"headers": {"A": "b\nc"}}}}, "models.fast.headers.A must be a single line"),
        ({"models": {"fast": {"headers": {"A B": "c"}}}}, "models.fast.headers.A B is not a usable header name"),
        ({"models": {"fast": {"ca_file": 5}}}, "models.fast.ca_file must be text, got a whole number"),
        ({"models": {"cloud": {"backend": "generic"}}}, "models.cloud needs `base_url`, the address of the server"),
        ({"local_llm_ensure_available": 1}, "local_llm_ensure_available must be true or false, got a whole number"),
        ({"local_llm_start_cmd": "ollama serve"}, "local_llm_start_cmd must be a list, got text"),
        ({"local_llm_start_cmd": []}, "local_llm_start_cmd must not be empty"),
        ({"task_force_mode": "paralel"}, "task_force_mode must be 'sequential' or 'parallel', got 'paralel'"),
        (
            {"specialists": {"engineering": {"keywords": ["a", 2]}}},
            "specialists.engineering.keywords[1] must be text, got a whole number",
        ),
        (
            {"specialists": {"engineering": {"builder": "packs.build"}}},
            "specialists.engineering.builder must be 'module:function', such as 'my_packs.custom:build_pack'",
        ),
    ],
)
def test_a_wrong_value_is_named_with_its_path_and_what_was_expected(settings: dict[str, Any], said: str) -> None:
    assert problem(settings).message == f"flag: {said}"


def test_a_new_key_must_be_a_usable_name() -> None:
    message = problem({"models": {"My Model": MODEL}}).message
    assert message.startswith("flag: models.My Model is not a usable name")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda file: file | {"modles": {}}, "unknown key 'modles'; did you mean 'models'?"),
        (
            lambda file: file | {"models": {"fast": {"base_ulr": 1}}},
            "unknown key 'base_ulr' in models.fast; did you mean 'base_url'?",
        ),
        (lambda file: file | {"xyzzy": 1}, "unknown key 'xyzzy'"),
        (lambda file: file | {"[key]": 1}, "unknown key '[key]'"),
        (lambda file: file | {"Budget": {}}, "unknown key 'Budget'; did you mean 'budget'?"),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_valid_one(
    change: Callable[[dict[str, Any]], dict[str, Any]], said: str
) -> None:
    found = problem(change({}))
    assert found.message == f"flag: {said}"
    assert found.hint.startswith("Valid keys here: ")


def test_settings_survive_a_round_trip_through_json() -> None:
    config = load(with_model(ca_file="/etc/own.pem", headers={"A": "b"}))
    assert load(json.loads(config.model_dump_json())) == config


@pytest.mark.parametrize("path", ["models/some.gguf", "./some.gguf", "../some.gguf"])
def test_embedded_model_is_not_named_by_a_path_that_means_another_file_in_another_folder(path: str) -> None:
    with pytest.raises(ConfigProblem, match="absolute path"):
        read_config({}, overrides={"models": {"quality": {"backend": "embedded", "model": path}}})


@pytest.mark.parametrize("dialect", ["schema", "text"])
def test_only_native_calls_and_another_dialect_contradict_each_other(dialect: str) -> None:
    with pytest.raises(ConfigProblem, match="strict_native"):
        read_config({}, overrides={"models": {"quality": {"dialect": dialect, "strict_native": True}}})
