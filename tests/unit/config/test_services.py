"""Addresses of NATS and Redis in the configuration, and the passwords in them."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.config.loader import read_config
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.secret_references import hide_passwords, passwords_in, secrets_named_in
from agent_fabric.config.show import show_config, show_origins

pytestmark = pytest.mark.proves("SC-1")
BOTH = {
    "FABRIC_NATS__URL": "nats://fabric:n%40ts-1@a:4222,tls://tok-2@b",
    "FABRIC_REDIS__URL": "rediss://:red-3@cache:6380/1",
}


def test_one_machine_needs_neither() -> None:
    config = read_config({}).config
    assert (config.nats.url, config.nats.replicas, config.redis.url) == (None, 1, None)


def test_they_are_set_in_the_environment() -> None:
    config = read_config({**BOTH, "FABRIC_NATS__REPLICAS": "3", "FABRIC_LIMITS__STORAGE": "redis"}).config
    assert config.nats.url == BOTH["FABRIC_NATS__URL"]
    assert config.nats.replicas == 3
    assert config.redis.url == BOTH["FABRIC_REDIS__URL"]
    assert config.limits.storage == "redis"


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"nats": {"url": "http://a"}}, "nats.url"),
        ({"nats": {"url": "nats://"}}, "nats.url"),
        ({"nats": {"url": "nats://a, nats://b"}}, "nats.url"),
        ({"nats": {"url": "nats://a,"}}, "nats.url"),
        ({"nats": {"replicas": 0}}, "nats.replicas"),
        ({"redis": {"url": "redis://a:0"}}, "redis.url"),
        ({"redis": {"url": "localhost:6379"}}, "redis.url"),
        ({"limits": {"storage": "redis"}}, "redis.url"),
    ],
)
def test_what_cannot_work_is_refused_by_name(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigProblem, match=named):
        read_config({}, overrides=settings)


def test_a_refused_address_is_not_repeated() -> None:
    with pytest.raises(ConfigProblem) as refused:
        read_config({}, overrides={"redis": {"url": "http://ada:red-3@a"}})
    assert "red-3" not in f"{refused.value.message} {refused.value.hint}"


def test_passwords_are_shown_nowhere() -> None:
    loaded = read_config(BOTH)
    shown = show_config(loaded.config)
    assert shown["nats"]["url"] == "nats://fabric:***@a:4222,tls://***@b"
    assert shown["redis"]["url"] == "rediss://:***@cache:6380/1"
    everything = json.dumps(shown) + str(show_origins(loaded))
    assert not any(secret in everything for secret in ("n%40ts-1", "n@ts-1", "tok-2", "red-3"))


def test_passwords_are_known_to_who_keeps_secrets_out_of_logs_and_runs() -> None:
    named = secrets_named_in(read_config(BOTH).config.model_dump(), {})
    assert named == {"n%40ts-1", "n@ts-1", "tok-2", "red-3"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://ada@host/db", "postgresql://ada@host/db"),
        ("postgresql://ada:a:b@host/db", "postgresql://ada:***@host/db"),
        ("postgresql://host/db?user=ada&password=pw&x=1", "postgresql://host/db?user=ada&password=***&x=1"),
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("no address", "no address"),
    ],
)
def test_only_the_password_is_hidden(text: str, shown: str) -> None:
    assert hide_passwords(text) == shown
    assert bool(list(passwords_in(text))) is (text != shown)


def test_an_address_may_stand_in_a_variable_of_its_own() -> None:
    config = read_config({"FABRIC_NATS__URL": "env:QUEUE", "FABRIC_REDIS__URL": "env:COUNTERS"}).config
    environ = {"QUEUE": "nats://fabric:hush-1@a:4222", "COUNTERS": "redis://:hush-2@b/0"}
    assert config.nats.address(environ) == environ["QUEUE"]
    assert config.redis.address(environ) == environ["COUNTERS"]
    assert show_config(config)["nats"]["url"] == "env:QUEUE"
    hidden = secrets_named_in(config.model_dump(exclude_defaults=True), environ)
    assert {"hush-1", "hush-2"} <= hidden


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        ({}, "QUEUE, which is not set"),
        ({"QUEUE": "env:OTHER"}, "QUEUE, which is a reference itself"),
        ({"QUEUE": "http://a"}, "QUEUE, which must be an address such as"),
    ],
)
def test_a_variable_without_an_address_is_named(environ: dict[str, str], problem: str) -> None:
    config = read_config({"FABRIC_NATS__URL": "env:QUEUE"}).config
    with pytest.raises(ConfigProblem, match=f"nats.url refers to the environment variable {problem}"):
        config.nats.address(environ)


def test_a_file_may_count_in_redis_and_a_variable_say_where_that_is(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"limits": {"storage": "redis"}}')
    environ = {"FABRIC_CONFIG_PATH": str(file)}
    with pytest.raises(ConfigProblem, match=r"config\.json: limits\.storage needs `redis\.url`"):
        read_config(environ)
    assert read_config({**environ, "FABRIC_REDIS__URL": "redis://a"}).config.limits.storage == "redis"
