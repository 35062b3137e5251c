"""An approval is good for one call: whatever of it changes makes another hash."""

from dataclasses import replace
from typing import Any

import pytest

from agent_fabric.domain.fleet.binding import BoundCall, timeout_of

CALL = BoundCall(
    agent_id="a",
    node_key="k",
    execution_id="e",
    tool_name="run_command",
    arguments={"command": "uptime", "cwd": "/srv", "environment": {"A": "1"}, "timeout_s": 5},
    uid=1000,
    policy_version="v",
    expires_at=10.0,
)


@pytest.mark.proves("FC-011")
@pytest.mark.parametrize(
    "change",
    [
        {"agent_id": "b"},
        {"node_key": "other"},
        {"execution_id": "f"},
        {"tool_name": "read_file"},
        {"uid": 0},
        {"policy_version": "w"},
        {"expires_at": 11.0},
        {"arguments": {**CALL.arguments, "command": "uptime "}},
        {"arguments": {**CALL.arguments, "cwd": "/"}},
        {"arguments": {**CALL.arguments, "environment": {"A": "2"}}},
        {"arguments": {**CALL.arguments, "timeout_s": 6}},
    ],
)
def test_every_part_of_a_call_counts(change: dict[str, Any]) -> None:
    assert replace(CALL, **change).hash != CALL.hash


def test_the_order_of_keys_does_not_count() -> None:
    turned = dict(reversed(list(CALL.arguments.items())))
    assert replace(CALL, arguments=turned).hash == CALL.hash


@pytest.mark.parametrize(("given", "means"), [({}, 60.0), ({"timeout_s": 5}, 5.0), ({"timeout_s": 1e9}, 21_600.0)])
def test_a_time_limit_is_never_missing_nor_endless(given: dict[str, Any], means: float) -> None:
    assert timeout_of(given) == means
