"""Rates and networks in the configuration."""

from typing import Any

import pytest

from agent_fabric.config.loader import read_config
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.limits import how_often


@pytest.mark.parametrize(
    ("text", "amount", "per_s"),
    [
        ("600/minute", 600, 60),
        ("10/second", 10, 1),
        ("5 / hours", 5, 3_600),
        ("100/5 minutes", 100, 300),
        ("1/day", 1, 86_400),
        ("20/MINUTE", 20, 60),
    ],
)
def test_a_rate_is_a_number_and_a_time(text: str, amount: int, per_s: int) -> None:
    assert how_often(text) == (amount, per_s)


@pytest.mark.parametrize(
    "text", ["", "600", "0/minute", "-1/minute", "600/minut", "many/minute", "1/0 minutes", "1/2/3"]
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigProblem, match="600/minute"):
        read_config({}, overrides={"limits": {"requests": text}})


def test_a_limit_can_be_taken_away() -> None:
    limits = read_config({}, overrides={"limits": {"requests": None, "concurrent_runs": None}}).config.limits
    assert limits.requests is None
    assert limits.concurrent_runs is None


@pytest.mark.parametrize("entry", ["10.0.0.0/8", "10.0.0.7", "fd00::/8", "::1"])
def test_proxies_are_addresses_or_networks(entry: str) -> None:
    assert read_config({}, overrides={"server": {"trusted_proxies": [entry]}}).config.server.trusted_proxies == (entry,)


@pytest.mark.parametrize("entry", ["proxy.example.org", "10.0.0.1/8", "10.0.0", "*"])
def test_anything_else_is_no_proxy(entry: str) -> None:
    overrides: dict[str, Any] = {"server": {"trusted_proxies": [entry]}}
    with pytest.raises(ConfigProblem, match="no address and no network"):
        read_config({}, overrides=overrides)
