"""Attempts that need no hub: keys that anyone can sign for, variables that change commands, floors for everyone."""

from pathlib import Path

import pytest

from agent_fabric.application.ports.node import FloorProblem
from agent_fabric.domain.fleet.node_policy import node_policy, proposed_call
from agent_fabric.domain.fleet.node_tools import NODE_TOOLS
from agent_fabric.domain.policy.verdicts import Verdict
from agent_fabric.domain.secrets import ed25519
from agent_fabric.infrastructure.fleet.signing import SigningKey, is_signed, public_key_from
from agent_fabric.infrastructure.node.floor_file import read_floor

NEUTRAL = "01" + "00" * 31


@pytest.mark.proves("FL-2", "FL-18")
def test_a_key_that_anyone_can_sign_for_is_no_key() -> None:
    assert is_signed(NEUTRAL, b"whatever", NEUTRAL + "00" * 32)  # so it must never become somebody's key
    for weak in (NEUTRAL, "00" * 32, "ec" + "ff" * 30 + "7f", "ee" + "ff" * 30 + "7f", "01" + "00" * 30 + "80"):
        assert ed25519.is_weak(bytes.fromhex(weak)), weak
        with pytest.raises(ValueError, match="anyone"):
            public_key_from(weak)
    assert not any(ed25519.is_weak(bytes.fromhex(SigningKey.new().public)) for _ in range(20))


@pytest.mark.proves("FL-16", "FL-17")
def test_variables_make_a_command_ask_unless_nothing_asks() -> None:
    rule = {"id": "look", "verdict": "allow", "commands": ["uptime"]}
    call = proposed_call(NODE_TOOLS["run_command"], {"command": "uptime", "environment": {"PATH": "/tmp"}}, "web")
    for floor, hub, verdict in (
        ({}, {}, Verdict.ASK),
        ({"rules": [rule]}, {"rules": [rule]}, Verdict.ASK),
        ({"profile": "open"}, {}, Verdict.ASK),
        ({}, {"profile": "open"}, Verdict.ASK),
        ({"profile": "open"}, {"profile": "open"}, Verdict.ALLOW),
        ({"blocked_commands": ["uptime"]}, {"profile": "open"}, Verdict.BLOCK),
    ):
        assert node_policy(floor, hub).judge(call).verdict is verdict, (floor, hub)


@pytest.mark.proves("FL-15")
def test_a_floor_that_anyone_can_write_is_none(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text("")
    path.chmod(0o646)
    with pytest.raises(FloorProblem, match="chmod o-w"):
        read_floor(path)
