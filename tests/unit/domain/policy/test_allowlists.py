"""Allowlists of commands, paths and domains, for everybody and per agent."""

import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.domain.policy.rules import Rule
from agent_fabric.domain.policy.verdicts import Ruling, Verdict
from agent_fabric.domain.tools.allowlists import Allowlists
from agent_fabric.domain.tools.specs import Effect

pytestmark = pytest.mark.proves("A33-084", "A33-085")

DOCS = Allowlists(paths=("docs/**", "README.md"))
GIT = Allowlists(commands=("git", "py*"))
ORG = Allowlists(domains=("example.org", "*.cdn.example"))
EVERYTHING = Rule(id="all", verdict=Verdict.ALLOW, tools=("*",))


def judge(*, floor: Allowlists = Allowlists(), own: tuple[Allowlists, ...] = (), **call: Any) -> Ruling:  # noqa: B008
    more: Mapping[str, Any] = {"tool": "shell", "args": {}, "effect": Effect.READS, "sandbox": "A", **call}
    policy = RulePolicy(floor=floor, agent_allowlists={"docs-agent": DOCS}, rules=(EVERYTHING,))
    return policy.judge(ProposedCall(**more, workspace="/w", limits=own))


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("docs/a.md", True),
        ("docs", True),
        ("./docs//b/../a.md", True),
        ("/w/docs/a.md", True),
        ("README.md", True),
        ("src/a.py", False),
        ("docs/../src/a.py", False),
        ("/etc/passwd", False),
        (".", False),
    ],
)
def test_file_tools_keep_to_the_paths(path: str, allowed: bool) -> None:
    ruling = judge(floor=DOCS, tool="read_file", paths=(path,))
    assert ruling.verdict is (Verdict.ALLOW if allowed else Verdict.BLOCK)
    if not allowed:
        assert ruling.rule == "allowlist:paths"
        assert "docs/**" in ruling.reason


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("cat docs/a.md", Verdict.ALLOW),
        ("cat docs/*.md", Verdict.ALLOW),
        ("echo x > docs/a.md", Verdict.ALLOW),
        ("make", Verdict.ALLOW),
        ("cat src/a.py", Verdict.BLOCK),
        ("cat docs/a.md src/a.py", Verdict.BLOCK),
        ("echo x > a.md", Verdict.BLOCK),
        ("python3 src/a.py", Verdict.BLOCK),
        ("ls", Verdict.BLOCK),
        ("cd src", Verdict.BLOCK),
        ("cat ../x", Verdict.BLOCK),
        ("rm src/a.py", Verdict.BLOCK),
        ("bash -c 'cat src/a.py'", Verdict.BLOCK),
        ("cat $FILE", Verdict.ASK),
        ("cat ~/x", Verdict.ASK),
        ("find docs | xargs cat", Verdict.ASK),
    ],
)
def test_commands_keep_to_the_paths_as_far_as_their_words_tell(command: str, verdict: Verdict) -> None:
    ruling = judge(floor=DOCS, command=command)
    assert ruling.verdict is verdict, ruling
    if verdict is not Verdict.ALLOW:
        assert ruling.rule == "allowlist:paths"


@pytest.mark.parametrize(
    ("command", "allowed"),
    [("git log", True), ("pytest -q && git log", True), ("echo x", True), ("ls", False), ("git log | less", False)],
)
def test_only_listed_commands_run(command: str, allowed: bool) -> None:
    ruling = judge(floor=GIT, command=command)
    assert ruling.verdict is (Verdict.ALLOW if allowed else Verdict.BLOCK)
    if not allowed:
        assert ruling.rule == "allowlist:commands"


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://example.org/x", True),
        ("https://www.example.org", True),
        ("https://a.cdn.example/x", True),
        ("https://cdn.example/x", False),
        ("https://badexample.org/", False),
        ("https://example.org@evil.example/", False),
        ("https://example.org\\@evil.example/", True),
        ("not an address", False),
    ],
)
@pytest.mark.parametrize("tool", ["fetch_url", "http_request", "browser_open"])
def test_only_listed_domains_are_reached(tool: str, url: str, allowed: bool) -> None:
    ruling = judge(floor=ORG, tool=tool, urls=(url,))
    assert ruling.verdict is (Verdict.ALLOW if allowed else Verdict.BLOCK)
    if not allowed:
        assert ruling.rule == "allowlist:domains"


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("curl https://example.org/x", Verdict.ALLOW),
        ("curl https://evil.example", Verdict.BLOCK),
        ("curl evil.example", Verdict.BLOCK),
        ("git clone https://evil.example/x", Verdict.BLOCK),
        ("curl $URL", Verdict.ASK),
        ("python3 setup.py", Verdict.ALLOW),
    ],
)
def test_commands_keep_to_the_domains(command: str, verdict: Verdict) -> None:
    assert judge(floor=ORG, command=command).verdict is verdict


def test_lists_of_an_agent_narrow_the_floor_and_never_widen_it() -> None:
    """For every pair of lists: what both allow is allowed, everything else is not."""
    hosts = ("example.org", "a.example.org", "evil.example")
    lists = [(), ("example.org",), ("a.example.org",), ("evil.example",), ("*.example.org", "evil.example")]
    for floor, own, host in itertools.product(lists, lists, hosts):
        url = (f"https://{host}/",)
        alone = [
            judge(floor=Allowlists(domains=each), tool="fetch_url", urls=url).verdict is Verdict.ALLOW
            for each in (floor, own)
        ]
        both = judge(
            floor=Allowlists(domains=floor), own=(Allowlists(domains=own),), tool="fetch_url", urls=url
        ).verdict
        assert (both is Verdict.ALLOW) is all(alone), (floor, own, host)


def test_an_agent_named_in_the_configuration_is_limited_and_others_are_not() -> None:
    assert judge(tool="read_file", paths=("src/a",), agent="docs-agent").verdict is Verdict.BLOCK
    assert judge(tool="read_file", paths=("src/a",), agent="coder").verdict is Verdict.ALLOW
