"""Reading by HTTP needs no question; sending does, unless a rule allows the host."""

from typing import Any

import pytest

from agent_fabric.application.tools.call_site import CallSite
from agent_fabric.application.tools.proposed_call import propose
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.domain.policy.labels import Flow
from agent_fabric.domain.policy.profiles import Profile
from agent_fabric.domain.policy.rules import Rule
from agent_fabric.domain.policy.verdicts import Ruling, Verdict
from agent_fabric.infrastructure.tools.http import HTTP_REQUEST

ALLOWED = Rule(id="hooks", verdict=Verdict.ALLOW, domains=("hooks.example.org",))


def judged(
    args: dict[str, Any],
    *rules: Rule,
    untrusted: tuple[str, ...] = (),
    private: tuple[str, ...] = (),
    profile: Profile = Profile.WORKSPACE,
) -> Ruling:
    site = CallSite(
        run_id=RunId("r"),
        lane=LaneId("l"),
        step=0,
        agent="workflow",
        target="/w",
        scopes=frozenset(),
        flow=Flow(exposed=untrusted, private=private),
    )
    call = propose(HTTP_REQUEST, {"url": "https://api.example.org/x", **args}, site, "A")
    return RulePolicy(rules=rules, profile=profile).judge(call)


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"method": "get"},
        {"method": "HEAD"},
        {"query": {"page": 2}, "headers": {"Accept": "application/json"}, "timeout": 3},
    ],
)
def test_reading_needs_no_question(args: dict[str, Any]) -> None:
    assert judged(args).verdict is Verdict.ALLOW
    assert judged(args, untrusted=("web: x",)).verdict is Verdict.ALLOW


SENDING: list[dict[str, Any]] = [
    {"method": "POST"},
    {"method": "delete"},
    {"method": "PUT", "body": "x"},
    {"json": None},
    {"form": {}},
    {"method": "GET", "body": "x"},
    {"headers": {"Authorization": "Bearer ${secret:TOKEN}"}},
    {"query": {"key": "${secret:TOKEN}"}},
    {"headers": {"X-Data": "x" * 300}},
    {"headers": {"X-HTTP-Method-Override": "DELETE"}},
    {"method": "HEAD", "headers": {"x-http-method": "PUT"}},
    {"url": "${secret:HOOK}"},
    {"url": "https://hooks.slack.com/${secret:HOOK}"},
]


@pytest.mark.parametrize("args", SENDING)
def test_sending_asks(args: dict[str, Any]) -> None:
    ruling = judged(args)
    assert ruling.verdict is Verdict.ASK
    assert ruling.rule == "leaves_sandbox"
    assert judged(args, untrusted=("web: x",)).verdict is Verdict.ASK


@pytest.mark.parametrize("args", [args for args in SENDING if "url" not in args])
@pytest.mark.parametrize("untrusted", [(), ("web: https://strangers.test",)])
def test_a_rule_allows_to_send_to_its_hosts_and_to_no_others(args: dict[str, Any], untrusted: tuple[str, ...]) -> None:
    sent = {**args, "url": "https://hooks.example.org/services/1"}
    assert judged(sent, ALLOWED, untrusted=untrusted).verdict is Verdict.ALLOW
    for url in (
        "https://evil.test/",
        "https://hooks.example.org.evil.test/",
        "https://evil.test/hooks.example.org",
        "https://hooks.example.org@evil.test/",
    ):
        assert judged({**args, "url": url}, ALLOWED, untrusted=untrusted).verdict is Verdict.ASK


def test_after_untrusted_text_and_private_data_a_composed_address_asks() -> None:
    composed = {"query": {"data": "x"}}
    assert judged(composed).verdict is Verdict.ALLOW
    assert judged(composed, untrusted=("web: x",)).verdict is Verdict.ALLOW
    assert judged(composed, untrusted=("web: x",), private=("files",)).rule == "private_data"


def test_what_is_agreed_to_for_a_run_is_one_method_at_one_host() -> None:
    post, delete, elsewhere = (
        judged(args).alike
        for args in ({"method": "POST"}, {"method": "DELETE"}, {"method": "POST", "url": "https://b.test/"})
    )
    assert len({post, delete, elsewhere}) == 3
    assert judged({"method": "POST", "json": {"other": 1}}).alike == post


def test_the_question_shows_method_and_address() -> None:
    assert "http_request POST https://api.example.org/x?a=1" in judged({"method": "POST", "query": {"a": 1}}).subject


def test_a_rule_can_block_a_host_for_reading_too() -> None:
    rule = Rule(id="no", verdict=Verdict.BLOCK, domains=("api.example.org",))
    assert judged({}, rule).verdict is Verdict.BLOCK
    assert judged({"method": "POST"}, rule).verdict is Verdict.BLOCK


def test_an_open_profile_does_not_ask() -> None:
    assert judged({"method": "POST"}, profile=Profile.OPEN).verdict is Verdict.ALLOW
