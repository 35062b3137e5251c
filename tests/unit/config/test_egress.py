"""What commands and the browser may reach, as the configuration says it."""

import pytest

from agent_fabric.config.formats.yaml_text import parse_yaml
from agent_fabric.config.loader import read_config
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.infrastructure.sandbox.egress.policy import browser_policy, shell_policy


def load(text: str) -> FabricConfig:
    return read_config({}, overrides=parse_yaml(text)).config


def test_commands_reach_nothing_by_default() -> None:
    config = load("offline: true")
    assert config.shell.network == "off"
    policy = shell_policy(config.egress)
    assert policy.allow_domains == ()
    assert policy.allow_hosts == ()
    assert policy.ports == frozenset({80, 443})
    assert not config.browser.enabled


def test_off_means_off_in_yaml_too() -> None:
    assert load("shell: {network: off}").shell.network == "off"
    assert load("shell: {network: allowlist}").shell.network == "allowlist"


@pytest.mark.parametrize("value", ["on", "true", "all", "1"])
def test_there_is_no_way_to_allow_everything(value: str) -> None:
    with pytest.raises(ConfigProblem, match="network"):
        load(f"shell: {{network: {value}}}")


@pytest.mark.parametrize(
    ("entry", "kept"),
    [
        ("pypi.org", "pypi.org"),
        ("PyPI.org.", "pypi.org"),
        ("*.Example.org", "*.example.org"),
        ("a_b.example.org", "a_b.example.org"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("93.184.216.34", "93.184.216.34"),
        ("2606:4700:0:0::1111", "2606:4700::1111"),
    ],
)
def test_a_domain_is_kept_in_its_one_form(entry: str, kept: str) -> None:
    assert load(f"egress: {{allow_domains: ['{entry}']}}").egress.allow_domains == (kept,)


@pytest.mark.parametrize(
    "entry",
    [
        *("", "*", "*.org", "*.*.org", "a.*.org", "https://pypi.org", "pypi.org/simple", "pypi.org:443", "localhost"),
        *("user@pypi.org", "bücher.example", "pypi..org", ".pypi.org", "-a.org", "1.2.3", "0x7f.1", "a b.org"),
    ],
)
def test_what_is_no_domain_is_refused(entry: str) -> None:
    with pytest.raises(ConfigProblem, match="allow_domains"):
        load(f"egress: {{allow_domains: ['{entry}']}}")


def test_the_browser_goes_where_fetch_url_goes_unless_it_is_held_to_some_hosts() -> None:
    config = load("{web: {allow_hosts: [wiki.corp]}}")
    everywhere = browser_policy(config.browser, config.web.allow_hosts)
    assert (everywhere.allow_domains, everywhere.ports, everywhere.allow_hosts) == (None, None, ("wiki.corp",))
    held = load("browser: {enabled: true, allow_domains: ['*.example.org']}").browser
    assert browser_policy(held, ()).allow_domains == ("*.example.org",)


def test_a_problem_says_what_to_write() -> None:
    with pytest.raises(ConfigProblem) as problem:
        load("egress: {allow_domains: ['https://pypi.org']}")
    assert "'*.example.org' for everything below it" in str(problem.value)
    assert "no http://" in problem.value.hint
