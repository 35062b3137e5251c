"""Runs as tasks of A2A, calls, and answers to what tasks ask."""

import json
from typing import Any

import pytest

from agent_fabric.domain.approvals.answers import Decision
from agent_fabric.domain.evidence.proofs import NO_PROOF
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.models.messages import Usage
from agent_fabric.domain.runs.task import RunError, RunResult, RunStatus
from agent_fabric.interfaces.http.a2a.calls import (
    Method,
    Reply,
    Sending,
    body_in,
    call_in,
    checked_text,
    id_in,
    reply_in,
    says_go_on,
    whole_numbers,
)
from agent_fabric.interfaces.http.a2a.error_shape import Code, RpcError, code_for, problem_answer, status_for
from agent_fabric.interfaces.http.a2a.objects import (
    Shown,
    artifact_update,
    status_update,
    statuses_in,
    task_object,
    told_as,
)
from agent_fabric.interfaces.http.a2a.routes import card
from agent_fabric.interfaces.http.openai.answers import Told
from agent_fabric.interfaces.http.openai.models import Offered

RUNNING = Shown("r1", "c1", RunStatus.RUNNING, 0.0, skill="pack/x", prompt="do it")


def told(status: RunStatus, text: str = "", **more: Any) -> Told:
    """Return what came of a run."""
    approvals = more.pop("approvals", ())
    given: dict[str, Any] = {"payload": {}, "error": None, **more}
    result = RunResult(
        run_id=RunId("r1"),
        status=status,
        specialist_ids=(),
        model="m",
        steps=1,
        usage=Usage(0, 0),
        duration_s=1.0,
        proof=NO_PROOF,
        routing_method="",
        workspace="",
        **given,
    )
    return Told(result, text, approvals)


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (RunStatus.RUNNING, "TASK_STATE_WORKING"),
        (RunStatus.WAITING, "TASK_STATE_INPUT_REQUIRED"),
        (RunStatus.INTERRUPTED, "TASK_STATE_INPUT_REQUIRED"),
        (RunStatus.COMPLETED, "TASK_STATE_COMPLETED"),
        (RunStatus.FAILED, "TASK_STATE_FAILED"),
        (RunStatus.CANCELLED, "TASK_STATE_CANCELED"),
    ],
)
def test_where_a_run_stands_is_a_state(status: RunStatus, state: str) -> None:
    event = status_update(told_as(RUNNING, told(status), at=1.5))
    shown = event["statusUpdate"]["status"]
    assert (shown["state"], shown["timestamp"]) == (state, "1970-01-01T00:00:01.500Z")
    statuses = statuses_in(state)
    assert statuses is not None
    assert status in statuses


def test_there_are_states_that_no_run_is_in_and_words_that_are_none() -> None:
    assert statuses_in("TASK_STATE_REJECTED") == statuses_in("TASK_STATE_AUTH_REQUIRED") == ()
    assert statuses_in("sleepy") is None
    assert statuses_in("working") is None


def test_what_came_of_a_run_is_an_artifact_of_words_and_data() -> None:
    payload = {"action": "finish", "summary": "Done.", "n": 3}
    ended = told_as(RUNNING, told(RunStatus.COMPLETED, "Done.", payload=payload), at=0)
    task = task_object(ended, history=None)
    (artifact,) = task["artifacts"]
    assert [part.get("text", part.get("data")) for part in artifact["parts"]] == ["Done.", {"summary": "Done.", "n": 3}]
    assert artifact_update(ended)["artifactUpdate"]["artifact"] == artifact
    assert task["history"][0]["role"] == "ROLE_USER"
    assert "history" not in task_object(ended, history=0)
    assert "artifacts" not in task_object(ended, artifacts=False)


def test_a_run_says_what_it_asks_and_why_it_failed() -> None:
    waits = told_as(RUNNING, told(RunStatus.WAITING, "May I?", approvals=("a1",)), at=0)
    parts = task_object(waits)["status"]["message"]["parts"]
    assert parts[0]["text"].startswith("May I?\n\nSend a message to this task")
    assert parts[1]["data"] == {"approvals": [{"id": "a1"}]}
    error = RunError(code="x", message="It broke", hint="Mend it.")
    failed = told_as(RUNNING, told(RunStatus.FAILED, error=error), at=0)
    assert task_object(failed)["status"]["message"]["parts"] == [{"text": "It broke. Mend it."}]
    assert "message" not in task_object(RUNNING)["status"]


@pytest.mark.parametrize(
    ("text", "data", "reply"),
    [
        ("approve", None, Reply(Decision.APPROVE)),
        (" Yes! ", None, Reply(Decision.APPROVE)),
        ("NO.", None, Reply(Decision.DENY)),
        ("deny: too early: wait", None, Reply(Decision.DENY, "too early: wait")),
        ("done", None, Reply(Decision.DONE)),
        ("", {"count": 3}, Reply(Decision.APPROVE, args={"count": 3})),
        ("", {"decision": "deny", "reason": "x", "approval": "a"}, Reply(Decision.DENY, "x", None, "a")),
        ("no", {"decision": "approve", "args": {}}, Reply(Decision.APPROVE, args={})),
    ],
)
def test_an_answer_is_read_from_plain_words_or_data(text: str, data: Any, reply: Reply) -> None:
    assert reply_in(text, data) == reply


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("yes, but not to main", None),
        ("approve: everything", None),
        ("", None),
        ("I do not approve", None),
        ("x", {"decision": "perhaps"}),
        ("x", {"decision": "expired"}),
        ("x", {"decision": ["approve"]}),
        ("x", {"decision": "approve", "args": 3}),
        ("x", {"decision": "deny", "reason": 3}),
    ],
)
def test_what_is_not_clear_is_no_agreement(text: str, data: Any) -> None:
    with pytest.raises(RpcError) as refused:
        reply_in(text, data)
    assert refused.value.code == Code.INVALID_PARAMS


def test_an_interrupted_run_goes_on_only_when_told_so() -> None:
    assert says_go_on(" Go  on. ")
    assert not says_go_on("do not resume")


@pytest.mark.parametrize("version", ["0.3", "2.0", "x"])
def test_another_version_of_the_protocol_is_refused(version: str) -> None:
    assert call_in({"jsonrpc": "2.0", "id": "x", "method": "SendMessage"}, "1.0") == ("x", Method.SEND, {})
    with pytest.raises(RpcError) as refused:
        call_in({"jsonrpc": "2.0", "id": 1, "method": "SendMessage"}, version)
    assert refused.value.code == Code.VERSION_NOT_SUPPORTED


def test_a_call_of_version_0_3_is_told_what_there_is() -> None:
    with pytest.raises(RpcError) as refused:
        call_in({"jsonrpc": "2.0", "id": 1, "method": "message/send"})
    assert refused.value.code == Code.METHOD_NOT_FOUND
    assert refused.value.hint.startswith("A2A 1.0 has: SendMessage, ")


def test_only_an_id_that_can_be_repeated_is() -> None:
    assert [id_in({"id": each}) for each in ("a", 7, -7)] == ["a", 7, -7]
    others: list[Any] = [None, True, 1.5, [], 2**60, "x" * 2_000]
    assert [id_in({"id": each}) for each in others] == [None] * 6
    assert id_in([]) is None
    with pytest.raises(RpcError, match="no JSON"):
        body_in(b"NaN")


def test_text_and_data_of_a_message_are_one_task() -> None:
    parts = [{"text": "Look:"}, {"data": {"n": 3.0, "x": [1.5, 2.0]}}]
    sending = Sending.model_validate(
        {"message": {"role": "ROLE_USER", "parts": parts}, "metadata": {"pack": "research"}}
    )
    assert checked_text(sending.message) == 'Look:\n{"n": 3, "x": [1.5, 2]}'
    assert (sending.skill, sending.options.waits) == ("pack/research", True)
    assert whole_numbers(1e300) == 1e300


def test_a_caller_may_say_that_it_does_not_wait() -> None:
    wish = {"message": {"parts": [{"text": "x"}]}, "configuration": {"returnImmediately": True}}
    assert not Sending.model_validate(wish).options.waits


@pytest.mark.parametrize(
    ("status", "code", "number", "http"),
    [
        (404, "run_not_found", Code.TASK_NOT_FOUND, 200),
        (404, "model_not_found", Code.INVALID_PARAMS, 200),
        (422, "inputs_invalid", Code.INVALID_PARAMS, 200),
        (403, "forbidden", Code.REFUSED, 403),
        (429, "too_many_requests", Code.REFUSED, 429),
        (409, "run_held", Code.REFUSED, 409),
        (413, "body_too_large", Code.INVALID_REQUEST, 200),
        (503, "server_busy", Code.INTERNAL_ERROR, 503),
    ],
)
def test_each_problem_has_a_number_and_only_circumstances_have_a_status(
    status: int, code: str, number: int, http: int
) -> None:
    problem = {"status": status, "code": code, "detail": "No", "hint": "Ask."}
    assert (code_for(problem), status_for(problem)) == (number, http)
    error = problem_answer(problem, 7)["error"]
    assert error["message"] == "No. Ask."
    assert error["data"][0]["metadata"] == {"code": code, "hint": "Ask."}


def test_the_card_names_the_address_and_the_skills() -> None:
    shown = card("https://h:1", [Offered("fabric", "Chooses."), Offered("workflow/w", "")])
    assert [(each["protocolVersion"], each["url"]) for each in shown["supportedInterfaces"]] == [
        ("1.0", "https://h:1/a2a")
    ]
    assert [(each["id"], each["name"], each["tags"]) for each in shown["skills"]] == [
        ("fabric", "fabric", ["recruitment"]),
        ("workflow/w", "w", ["workflow"]),
    ]
    assert shown["skills"][1]["description"] == "The workflow w."
    assert [name for scheme in shown["securitySchemes"].values() for name in scheme] == [
        "httpAuthSecurityScheme",
        "apiKeySecurityScheme",
    ]
    assert json.loads(json.dumps(shown)) == shown
