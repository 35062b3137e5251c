"""What is typed about a schedule, as the API takes it."""

import pytest

from agent_fabric.domain.errors import ConfigError
from agent_fabric.interfaces.cli.automation.schedule_texts import Target, wish_from


@pytest.mark.proves("AU-3", "C16")
@pytest.mark.parametrize(
    ("target", "do", "wish"),
    [
        (Target(), "Tidy up.", {"task_instruction": "Tidy up."}),
        (Target(workflow="triage"), None, {"target_kind": "workflow", "target": "triage"}),
        (Target(agent="reader"), "x", {"target_kind": "agent", "target": "reader", "task_instruction": "x"}),
        (
            Target(node="web-1"),
            "df -h",
            {"target_kind": "node_command", "target": "web-1", "task_instruction": "df -h"},
        ),
        (Target(chat="new"), "x", {"target_kind": "chat", "use_persistent_chat": False, "task_instruction": "x"}),
        (Target(chat="same"), "x", {"target_kind": "chat", "use_persistent_chat": True, "task_instruction": "x"}),
        (
            Target(chat="a1b2"),
            "x",
            {
                "target_kind": "chat",
                "use_persistent_chat": True,
                "chat_session_id": "a1b2",
                "task_instruction": "x",
            },
        ),
        (
            Target(chat="ann@telegram"),
            "x",
            {"target_kind": "channel", "target": "ann@telegram", "task_instruction": "x"},
        ),
    ],
)
def test_each_target_is_asked_for_by_its_option(target: Target, do: str | None, wish: dict[str, object]) -> None:
    assert wish_from(None, None, None, do, target, None, None) == wish


@pytest.mark.parametrize(
    ("target", "do"),
    [
        (Target(workflow="a", agent="b"), None),
        (Target(workflow="a"), "x"),
        (Target(workflow="a", chat="new"), None),
        (Target(node="a", agent="b"), "x"),
    ],
)
def test_two_targets_are_refused(target: Target, do: str | None) -> None:
    with pytest.raises(ConfigError):
        wish_from(None, None, None, do, target, None, None)


def test_settings_are_read_and_can_be_taken_away() -> None:
    more = ["max_late_s=2h", "daily_runs=", "ends_at=", "max_catch_up=3", "overlap=queue"]
    assert wish_from(None, None, None, None, Target(), None, more) == {
        "max_late_s": 7200.0,
        "daily_runs": None,
        "ends_at": None,
        "max_catch_up": 3,
        "overlap": "queue",
    }
    for wrong in ("max_catch_up=", "jitter_s=soon", "unknown=1"):
        with pytest.raises(ConfigError):
            wish_from(None, None, None, None, Target(), None, [wrong])
