"""What people and scripts are shown, whatever a model wrote."""

import io
import re
import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.evidence.proofs import Proof
from agent_fabric.domain.ids import RunId, SpecialistId
from agent_fabric.domain.models.messages import Usage
from agent_fabric.domain.runs.task import RunError, RunResult, RunStatus
from agent_fabric.domain.tools.findings import ProofKind
from agent_fabric.interfaces.cli.output import colour, colourful, plain, plain_lines, shorten
from agent_fabric.interfaces.cli.runs.driving import EXIT_CODES
from agent_fabric.interfaces.cli.runs.view import LiveView, summary
from agent_fabric.wire.results import error_object, result_object
from unit.infrastructure.runs.log.every_kind import RUN, all_ends

ANYTHING = st.text(st.characters())


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def outcome(status: RunStatus = RunStatus.COMPLETED, /, **payload: object) -> RunResult:
    failed = status in (RunStatus.FAILED, RunStatus.CANCELLED)
    return RunResult(
        run_id=RunId("1234"),
        status=status,
        payload=payload,
        error=RunError(code="c", message="it broke", hint="mend it") if failed else None,
        specialist_ids=(SpecialistId("engineering"),),
        model="m",
        steps=3,
        usage=Usage(10, 5, 4),
        cost=None,
        egress=(),
        duration_s=1.25,
        proof=Proof(kind=ProofKind.PROGRAM, command="pytest", seq=3),
        routing_method="explicit",
        workspace="/w",
    )


@pytest.mark.proves("C31")
def test_every_status_has_its_exit_code() -> None:
    assert {status.value: EXIT_CODES[status] for status in RunStatus} == {
        "completed": 0,
        "failed": 1,
        "cancelled": 1,
        "waiting": 3,
        "interrupted": 130,
        "running": 130,
    }


@given(ANYTHING)
def test_plain_text_holds_nothing_that_steers_a_terminal(text: str) -> None:
    for shown in (plain(text), plain_lines(text).replace("\n", ""), shorten(text, 20)):
        assert not [char for char in shown if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")]
        shown.encode()
    assert len(shorten(text, 20)) <= 20


@given(ANYTHING)
def test_a_summary_holds_nothing_that_steers_a_terminal(text: str) -> None:
    shown = summary(outcome(summary=text, artifacts=[text], next_steps=[text], unproven=text, proposed=[text]))
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]", shown)


@pytest.mark.parametrize("status", RunStatus)
def test_a_summary_tells_how_it_ended_and_how_to_go_on(status: RunStatus) -> None:
    shown = summary(outcome(status, summary="what was done"))
    assert status.value in shown
    assert "fabric logs show 1234" in shown
    assert ("fabric resume 1234" in shown) == (not status.settled)
    assert ("it broke" in shown) == (status in (RunStatus.FAILED, RunStatus.CANCELLED))


@pytest.mark.parametrize("status", [RunStatus.WAITING, RunStatus.RUNNING])
def test_a_summary_of_what_a_server_drives_does_not_ask_anybody_to_go_on_with_it(status: RunStatus) -> None:
    shown = summary(outcome(status), served=True)
    assert "The server continues the run" in shown
    assert "--follow\n" in shown
    assert "fabric resume" not in shown
    assert "Resume with: fabric resume 1234" in summary(outcome(RunStatus.INTERRUPTED), served=True)


@pytest.mark.parametrize(
    "payload", [{"artifacts": "a text"}, {"summary": None}, {"artifacts": [1, None, {}]}, {"summary": []}]
)
def test_a_summary_takes_any_payload(payload: dict[str, object]) -> None:
    assert "completed" in summary(outcome(**payload))


@pytest.mark.proves("AF-009")
def test_a_result_is_the_payload_beside_what_we_know_about_the_run() -> None:
    shown = result_object(outcome(summary="s", _meta="mine", error="mine"), "/runs/1234")
    assert shown["summary"] == "s"
    assert shown["_meta"]["run_id"] == "1234"
    assert shown["_meta"]["run_dir"] == "/runs/1234"
    assert shown["_meta"]["usage"] == {"prompt_tokens": 10, "completion_tokens": 5, "cached_tokens": 4}
    assert (shown["_meta"]["cost"], shown["_meta"]["egress"]) == (None, [])
    assert "error" not in shown, "only we say that there was an error"
    failed = result_object(outcome(RunStatus.FAILED), "/runs/1234")
    assert failed["error"] == {"code": "c", "message": "it broke", "hint": "mend it"}


@pytest.mark.proves("C10")
def test_a_result_tells_what_it_cost_and_which_machines_were_asked() -> None:
    result = replace(outcome(), cost=0.0123, egress=("models.example",))
    meta = result_object(result, "/runs/1234")["_meta"]
    assert (meta["cost"], meta["egress"]) == (0.0123, ["models.example"])
    assert "15 tokens, 1.2 s, cost 0.0123\n" in summary(result)
    assert "models asked on other machines: models.example" in summary(result)
    assert "cost 0\n" in summary(replace(result, cost=0.0))
    assert "cost" not in summary(outcome())
    assert "other machines" not in summary(outcome())


def test_an_error_before_a_run_has_the_shape_of_a_result() -> None:
    shown = error_object(ConfigError("wrong", hint="right"))
    assert shown["error"] == {"code": "config_invalid", "message": "wrong", "hint": "right"}
    assert shown["_meta"]["status"] is None


def test_colours_are_only_for_those_who_can_and_want_to_see_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert colourful(Terminal())
    assert colour("x", "red", Terminal()) == "\x1b[31mx\x1b[0m"
    assert colour("x", "red", io.StringIO()) == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colourful(Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not colourful(Terminal())


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_every_kind_of_event_can_be_shown_live(
    stream: type[io.StringIO], verbose: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for log in all_ends():
        output = stream()
        view = LiveView(output, verbose=verbose)
        view.publish(RUN, log)
        assert view.wants_deltas == output.isatty()
        text = output.getvalue()
        assert f"run {RUN}" in text
        if not output.isatty():
            assert "\x1b" not in text
            assert "\r" not in text


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_viewer_that_has_left_does_not_hurt_the_run() -> None:
    class Gone(io.StringIO):
        def write(self, text: str, /) -> int:
            raise BrokenPipeError

    view = LiveView(Gone())
    for event in all_ends()[0]:
        view.publish(RUN, [event])
