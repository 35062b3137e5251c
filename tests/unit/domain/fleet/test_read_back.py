"""What was changed on a machine counts as done when it was read afterwards, there."""

from typing import Any

import pytest

from agent_fabric.domain.fleet.commands import CommandStatus, NodeCommand
from agent_fabric.domain.fleet.nodes import NodeId
from agent_fabric.domain.fleet.read_back import not_read_back, surely_reads

RAN = {"status": "error", "exit_code": 1, "duration_ms": 3.0}


class Made:
    """Commands, one after the other."""

    def __init__(self) -> None:
        self.commands: list[NodeCommand] = []

    def __call__(
        self, node: str, command: str, status: CommandStatus = CommandStatus.SUCCESS, result: Any = None
    ) -> "Made":
        number = len(self.commands)
        self.commands.append(
            NodeCommand(
                execution_id=f"e{number}",
                agent_id=NodeId(node),
                tool_name="run_command",
                arguments={"command": command},
                status=status,
                created_at=float(number),
                expires_at=1e12,
                policy_version="",
                bound_hash="",
                args_hash="",
                requested_by="",
                result=result,
            )
        )
        return self


@pytest.mark.proves("FL-25")
def test_a_change_needs_a_later_reading_on_the_same_machine() -> None:
    restart, look = "systemctl restart nginx", "systemctl is-active nginx"
    assert not_read_back(Made()("a", look).commands) == []
    assert not_read_back(Made()("a", restart).commands) == ["a"]
    assert not_read_back(Made()("a", restart)("a", look).commands) == []
    assert not_read_back(Made()("a", look)("a", restart).commands) == ["a"]
    assert not_read_back(Made()("a", restart)("b", restart)("b", look).commands) == ["a"]
    assert not_read_back(Made()("a", restart)("a", look, CommandStatus.ERROR, RAN).commands) == ["a"]


def test_what_may_have_happened_counts_and_what_was_refused_does_not() -> None:
    restart = "systemctl restart nginx"
    assert not_read_back(Made()("a", restart, CommandStatus.IN_DOUBT).commands) == ["a"]
    assert not_read_back(Made()("a", restart, CommandStatus.ERROR, RAN).commands) == ["a"]
    assert not_read_back(Made()("a", restart, CommandStatus.ERROR, {"code": -32002}).commands) == []
    for status in (CommandStatus.DENIED, CommandStatus.BLOCKED, CommandStatus.EXPIRED):
        assert not_read_back(Made()("a", restart, status).commands) == []


def test_reading_is_what_changes_nothing() -> None:
    assert surely_reads("system_info", {})
    assert surely_reads("run_command", {"command": "df -h"})
    assert surely_reads("run_command", {"command": "cat /etc/nginx/nginx.conf"})
    assert not surely_reads("run_command", {"command": "df -h > /etc/passwd"})
    assert not surely_reads("write_file", {"path": "/a", "content": ""})
    assert not surely_reads("unknown", {})
