"""What operators learn about runs, and what they do not."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from agent_fabric.domain.events import Event, ModelFailed, PackFailed, RunCancelled, RunFailed, SecurityViolated
from agent_fabric.domain.ids import CallId, LaneId, RunId, SpecialistId
from agent_fabric.infrastructure.observability.lifecycle_log import RunLifecycleLog
from unit.infrastructure.runs.log.every_kind import RUN, all_ends, rich_run

pytestmark = pytest.mark.proves("AF-149")


@dataclass
class Recorded:
    """OperationsLog that remembers."""

    lines: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)

    def debug(self, event: str, /, **fields: object) -> None:
        self.lines.append(("debug", event, fields))

    def info(self, event: str, /, **fields: object) -> None:
        self.lines.append(("info", event, fields))

    def warning(self, event: str, /, **fields: object) -> None:
        self.lines.append(("warning", event, fields))

    def error(self, event: str, /, **fields: object) -> None:
        self.lines.append(("error", event, fields))


def test_of_an_encrypted_run_no_text_is_told_that_may_quote_it() -> None:
    log = Recorded()
    lifecycle = RunLifecycleLog(log)
    lifecycle.discreet_about = {RUN}
    failed = RunFailed(code="model_refused", message="'my secret prompt' is too long", hint="")
    lifecycle.publish(RUN, [Event(0, 0.0, None, "", failed)])
    lifecycle.publish(RunId("another"), [Event(0, 0.0, None, "", failed)])
    assert [fields["message"] for _, _, fields in log.lines] == ["(encrypted)", failed.message]
    assert log.lines[0][2]["code"] == "model_refused"


def told(events: Sequence[Event]) -> list[tuple[str, str, dict[str, Any]]]:
    log = Recorded()
    RunLifecycleLog(log).publish(RUN, events)
    return log.lines


def test_each_turning_point_is_one_line() -> None:
    assert [(level, event) for level, event, _ in told(rich_run())] == [
        ("info", "run_created"),
        ("debug", "recruitment"),
        ("warning", "llm_error"),
        ("warning", "security_event"),
        ("warning", "run_interrupted"),
        ("info", "run_resumed"),
        ("info", "run_resumed"),
        ("info", "run_resumed"),
        ("info", "run_waiting"),
        ("info", "run_resumed"),
        ("info", "run_complete"),
    ]


@pytest.mark.parametrize(
    ("end", "level"),
    [(RunFailed(code="c", message="m", hint=""), "error"), (RunCancelled(by="me", reason="enough"), "info")],
)
def test_an_end_that_is_nobody_s_wish_is_an_error(end: RunFailed | RunCancelled, level: str) -> None:
    ((found, event, _),) = told([Event(1, 1.0, None, "", end)])
    assert (found, event) == (level, end.kind)


def test_every_line_names_its_run() -> None:
    lines = [line for events in all_ends() for line in told(events)]
    assert lines
    assert all(fields["run_id"] == RUN for _, _, fields in lines)


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (
            RunFailed(code="disk_full", message="no space", hint="free some"),
            {"code": "disk_full", "message": "no space"},
        ),
        (
            PackFailed(specialist_id=SpecialistId("research"), code="c", message="m", hint=""),
            {"code": "c", "message": "m"},
        ),
        (
            SecurityViolated(event_type="sandbox_violation", tool="shell", error_message="out", call_id=CallId("1")),
            {"event_type": "sandbox_violation", "tool": "shell", "message": "out"},
        ),
        (
            ModelFailed(
                error_type="model_busy",
                error_message="503",
                hint="",
                attempt=2,
                retryable=True,
                retry_after_s=None,
                duration_s=1,
            ),
            {"code": "model_busy", "message": "503", "attempt": 2, "retryable": True},
        ),
    ],
)
def test_a_problem_is_told_with_its_code_and_its_lane(body: Any, fields: dict[str, Any]) -> None:
    ((_, event, found),) = told([Event(3, 1.0, LaneId("research"), "step_1", body)])
    assert event == body.kind
    assert found == {"run_id": RUN, "lane": "research", **fields}


def test_nothing_of_the_task_or_its_result_is_told() -> None:
    shown = str([told(events) for events in all_ends()])
    for content in ("primes", "You are an engineer", "I look.", "cat /etc/shadow", "text 1"):
        assert content not in shown


def test_pieces_of_answers_are_not_asked_for() -> None:
    sink = RunLifecycleLog(Recorded())
    assert not sink.wants_deltas
    sink.delta(RUN, LaneId("a"), "text")
