"""The settings of web access, as seen by somebody who writes them into a file."""

import json
from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network

import pytest

from agent_fabric.config.loader import Loaded, read_config
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.sandbox import AllowedHost, allowed_host
from agent_fabric.config.schema.tools import WebConfig


def test_without_settings_nothing_private_may_be_read() -> None:
    web = read_config({}).config.web
    assert web == WebConfig()
    assert (web.allow_hosts, web.search_url, web.search_provider) == ((), None, "auto")
    assert (web.max_bytes, web.timeout_s, web.max_redirects) == (5_000_000, 20.0, 5)


def test_every_setting_can_be_written(chosen: Callable[..., Loaded]) -> None:
    settings = {
        "search_provider": "searxng",
        "search_url": "http://localhost:8888/",
        "allow_hosts": ["wiki.corp", "10.0.0.0/8"],
        "max_bytes": 1_000,
        "timeout_s": 3,
        "max_redirects": 0,
        "user_agent": "otter",
    }
    web = chosen(json.dumps({"web": settings})).config.web
    assert web.search_url == "http://localhost:8888"
    assert web.allow_hosts == ("wiki.corp", "10.0.0.0/8")
    assert (web.max_bytes, web.timeout_s, web.max_redirects, web.user_agent) == (1_000, 3.0, 0, "otter")


def test_hosts_can_be_allowed_by_an_environment_variable() -> None:
    loaded = read_config({"FABRIC_WEB__ALLOW_HOSTS": '["localhost:8080"]', "FABRIC_WEB__SEARCH_URL": "http://s.corp"})
    assert loaded.config.web.allow_hosts == ("localhost:8080",)
    assert loaded.config.web.search_url == "http://s.corp"


@pytest.mark.parametrize(
    ("entry", "host", "port"),
    [
        ("wiki.corp", "wiki.corp", None),
        ("WIKI.corp.", "wiki.corp", None),
        ("localhost:8080", "localhost", 8080),
        ("my_host-1", "my_host-1", None),
        ("xn--bcher-kva.example", "xn--bcher-kva.example", None),
        ("10.1.2.3", IPv4Network("10.1.2.3/32"), None),
        ("127.0.0.1:8080", IPv4Network("127.0.0.1/32"), 8080),
        ("10.0.0.0/8", IPv4Network("10.0.0.0/8"), None),
        ("::1", IPv6Network("::1/128"), None),
        ("[::1]", IPv6Network("::1/128"), None),
        ("[::1]:8080", IPv6Network("::1/128"), 8080),
        ("fd00::/8", IPv6Network("fd00::/8"), None),
    ],
)
def test_a_host_is_a_name_an_address_or_a_network(
    entry: str, host: str | IPv4Network | IPv6Network, port: int | None
) -> None:
    assert allowed_host(entry) == AllowedHost(host, port)


@pytest.mark.parametrize(
    "entry",
    [
        *("", "http://wiki.corp", "*.corp", "*", "wiki.corp/a", "a b", "a..b", "a:", ":80", "a:0", "a:65536", "a:x"),
        *("127.1", "2130706433", "0x7f.1", "256.1.1.1", "10.0.0.1/8", "[::1", "::g", "a:80:90", "bücher.example"),
        "a" * 64,
    ],
)
def test_anything_else_is_explained(entry: str) -> None:
    with pytest.raises(ConfigProblem) as caught:
        read_config({}, overrides={"web": {"allow_hosts": ["ok.corp", entry]}})
    assert caught.value.message.startswith("flag: web.allow_hosts[1] must be a host, an IP address or a network")


def test_asking_searxng_needs_its_address() -> None:
    with pytest.raises(ConfigProblem, match="web needs 'search_url' because its search_provider is 'searxng'"):
        read_config({}, overrides={"web": {"search_provider": "searxng"}})


@pytest.mark.parametrize(
    "settings",
    [
        *({"user_agent": "a\r\nb: c"}, {"user_agent": ""}, {"max_bytes": 0}, {"timeout_s": 0}, {"max_redirects": -1}),
        *({"search_provider": "google"}, {"search_url": "localhost"}, {"allow_hosts": "wiki.corp"}),
    ],
)
def test_a_wrong_value_is_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigProblem, match=rf"web\.{next(iter(settings))}"):
        read_config({}, overrides={"web": settings})
