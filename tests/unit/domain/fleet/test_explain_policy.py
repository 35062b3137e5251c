"""Each rule on a node is told with where it stands and whether something stricter decides."""

from typing import Any

import pytest

from agent_fabric.domain.fleet.explain_policy import ExplainPolicy, PolicySource
from agent_fabric.domain.fleet.node_policy import node_policy, proposed_call
from agent_fabric.domain.fleet.node_tools import NODE_TOOLS
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.domain.policy.profiles import Profile
from agent_fabric.domain.policy.rules import CommandPattern, Rule
from agent_fabric.domain.policy.verdicts import Verdict

RESTART = {"id": "restart", "verdict": "allow", "commands": ["systemctl restart nginx"]}
NO_DOCKER = Rule(
    id="no-docker", verdict=Verdict.BLOCK, commands=(CommandPattern(text="docker"),), nodes=("db-*",), reason=""
)


def explained(
    floor: dict[str, Any], hub: dict[str, Any], *rules: Rule, node: str = "web-1"
) -> tuple[ExplainPolicy, list[tuple[str, str, bool]]]:
    why = ExplainPolicy(node, node_policy(floor, hub), RulePolicy(profile=Profile.OPEN, rules=rules))
    return why, [(each.source.value, each.id, each.effective) for each in why.rules]


@pytest.mark.proves("FL-16")
def test_a_rule_that_allows_has_no_effect_until_both_sides_have_it() -> None:
    why, rules = explained({}, {"rules": [RESTART]})
    assert rules == [("hub", "restart", False)]
    assert why.rules[0].note.startswith("the node's own file asks about it")
    assert why.otherwise is Profile.NODE
    assert why.otherwise_by == (PolicySource.FLOOR, PolicySource.HUB)
    _, rules = explained({"rules": [RESTART]}, {"rules": [RESTART]})
    assert rules == [("floor", "restart", True), ("hub", "restart", True)]


@pytest.mark.proves("FL-16")
def test_a_question_about_what_is_blocked_anyway_has_no_effect_and_the_strictest_comes_first() -> None:
    why, rules = explained({"blocked_commands": ["docker"]}, {"requires_approval_for": ["docker", "read_file"]})
    assert rules == [
        ("floor", "blocked_commands.0", True),
        ("hub", "requires_approval_for.0", False),
        ("hub", "requires_approval_for.1", True),
    ]
    assert why.rules[1].note == "the node's own file blocks it (blocked_commands.0)"
    assert why.rules[0].about == ("docker",)


def test_rules_for_all_machines_are_told_where_they_name_the_machine() -> None:
    assert explained({}, {}, NO_DOCKER)[1] == []
    assert explained({}, {}, NO_DOCKER, node="db-1")[1] == [("all_nodes", "no-docker", True)]


@pytest.mark.proves("FL-16")
def test_what_is_said_about_a_call_names_each_side_and_who_decides() -> None:
    why, _ = explained({"blocked_commands": ["docker"], "profile": "open"}, {"profile": "open"})
    call = proposed_call(NODE_TOOLS["run_command"], {"command": "uptime; docker"}, "web-1")
    said = why.said_about(call, why.in_force.judge(call))
    deciding = [(each.source, each.verdict, each.rule, each.subject) for each in said if each.decides]
    assert deciding == [(PolicySource.FLOOR, Verdict.BLOCK, "blocked_commands.0", "docker")]
    assert {each.source for each in said} == {PolicySource.FLOOR, PolicySource.HUB}
    assert said[0].decides
