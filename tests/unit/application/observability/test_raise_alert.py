"""People are told once that something is wrong and once that it is over, whatever does not answer."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

from agent_fabric.application.observability.raise_alert import EVERY_S, RETRIES_S, RaiseAlerts, alert_rules
from agent_fabric.config.schema.observability import AlertConfig
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.events import Event, RunCompleted, RunFailed, SecurityViolated
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.observability.alerts import BUILT_IN, AlertRule, Stage, condition_of
from agent_fabric.infrastructure.cluster.bus.in_process import InProcessBus
from agent_fabric.testing.fakes import FrozenClock
from unit.infrastructure.observability.test_lifecycle_log import Recorded

pytestmark = pytest.mark.proves("A33-110")
HOOK = "https://example.org/hook"


class ListPost:
    """AlertPost that fails for a while, and remembers."""

    def __init__(self, *problems: Exception) -> None:
        self.problems = list(problems)
        self.sent = list[Mapping[str, Any]]()

    async def post(self, address: str, message: Mapping[str, Any]) -> None:
        if self.problems:
            raise self.problems.pop(0)
        self.sent.append({"to": address, **message})


def raising(*rules: AlertRule, post: ListPost | None = None) -> tuple[RaiseAlerts, FrozenClock, Recorded, list[Any]]:
    clock, log, bus, heard = FrozenClock(), Recorded(), InProcessBus(), list[Any]()
    bus.subscribe("agent33.alert.*", lambda subject, message: heard.append((subject, message["status"])))
    return RaiseAlerts(rules, clock, log, bus, post or ListPost()), clock, log, heard


def failed(code: str = "x") -> Event:
    return Event(0, 0.0, None, "", RunFailed(code=code, message="m", hint=""))


DONE = Event(0, 0.0, None, "", RunCompleted(run_id=RunId("r"), specialist_ids=(), task_force_mode="", payload={}))
BAD = Event(0, 0.0, None, "", SecurityViolated(event_type="x", tool="t", error_message="m", call_id=CallId("c")))


async def test_many_failed_runs_are_told_once_and_that_it_is_over() -> None:
    rule = next(rule for rule in BUILT_IN if rule.name == "many-runs-fail")
    alerts, clock, log, heard = raising(rule)
    alerts.publish(RunId("r"), [DONE, *(failed() for _ in range(9))])
    for _ in range(30):  # 7.5 minutes
        await alerts.look({})
        clock.time += EVERY_S
    assert heard == [("agent33.alert.many-runs-fail", "firing")]
    for _ in range(40):
        await alerts.look({})
        clock.time += EVERY_S
    assert heard[1:] == [("agent33.alert.many-runs-fail", "resolved")]
    assert [line[1] for line in log.lines] == ["alert_firing", "alert_resolved"]


async def test_one_failed_run_is_not_half_of_the_runs() -> None:
    alerts, _, _, heard = raising(AlertRule(name="f", when=condition_of("runs_failed_ratio > 0.5")))
    alerts.publish(RunId("r"), [failed()])
    await alerts.look({})
    assert heard == []


async def test_a_storm_of_events_is_one_alert() -> None:
    alerts, _, _, heard = raising(AlertRule(name="s", when=condition_of("event security_event")))
    for _ in range(1_000):
        alerts.publish(RunId("r"), [BAD])
    assert heard == [("agent33.alert.s", "firing")]
    ((_, alert, _),) = alerts.standing()
    assert (alert.stage, alert.value) == (Stage.FIRING, 1_000)


async def delivered(post: ListPost) -> tuple[FrozenClock, Recorded]:
    """Let one alert fire, and its webhook be tried until nothing is left to do."""
    alerts, clock, log, _ = raising(
        AlertRule(name="a", when=condition_of("event security_event"), notify=(HOOK,)), post=post
    )

    async def vitals() -> Mapping[str, float]:
        await asyncio.sleep(0.005)
        return {}

    watching = asyncio.create_task(alerts(vitals))
    alerts.publish(RunId("r"), [BAD])
    async with asyncio.timeout(60):
        while not post.sent and not log.lines:
            await asyncio.sleep(0.001)
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching
    return clock, log


async def test_a_webhook_that_does_not_answer_is_tried_again_and_then_given_up() -> None:
    post = ListPost(ConnectionError("busy"), TimeoutError("late"))
    await delivered(post)
    assert [(each["to"], each["status"], each["run_id"]) for each in post.sent] == [(HOOK, "firing", "r")]
    post = ListPost(*(ConnectionError("busy") for _ in range(len(RETRIES_S) + 1)))
    _, log = await delivered(post)
    assert [line[1] for line in log.lines] == ["alert_not_delivered"]
    assert post.problems == []


async def test_a_webhook_that_refuses_is_not_asked_again() -> None:
    post = ListPost(ValueError("404"))
    _, log = await delivered(post)
    assert ([line[1] for line in log.lines], post.sent) == (["alert_not_delivered"], [])


def test_configured_rules_change_the_built_in_ones() -> None:
    rules = {
        rule.name: rule
        for rule in alert_rules(
            [
                AlertConfig(name="disk-nearly-full", notify=("log", HOOK)),
                AlertConfig(name="many-runs-fail", enabled=False),
                AlertConfig(name="mine", when="runs_queued >= 10", for_s=30, severity="critical"),
            ]
        )
    }
    assert rules["disk-nearly-full"].notify == ("log", HOOK)
    assert str(rules["disk-nearly-full"].when) == "disk_free_ratio < 0.05"
    assert "many-runs-fail" not in rules
    assert (rules["mine"].for_s, rules["mine"].severity) == (30, "critical")


@pytest.mark.parametrize(
    "wrong",
    [
        [AlertConfig(name="a")],
        [AlertConfig(name="a", when="nonsense")],
        [AlertConfig(name="a", when="unheard_of > 1")],
        [AlertConfig(name="a", when="runs_queued > 1"), AlertConfig(name="a", when="runs_queued > 2")],
    ],
)
def test_a_rule_that_is_none_is_refused_with_a_hint(wrong: list[AlertConfig]) -> None:
    with pytest.raises(ConfigError) as caught:
        alert_rules(wrong)
    assert caught.value.hint
