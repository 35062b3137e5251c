"""Whoever gets a result, through whichever door, gets what bears it out."""

import io
from dataclasses import replace
from typing import Any

import pytest

from agent_fabric.domain.evidence.proofs import NO_PROOF, Proof
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.models.messages import Usage
from agent_fabric.domain.runs.effects import Effects, NotedCall
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.domain.tools.findings import ProofKind, TestCount
from agent_fabric.interfaces.cli.runs.result_lines import evidence_lines
from agent_fabric.interfaces.http.a2a.objects import Shown, artifact_object, told_as
from agent_fabric.interfaces.http.openai.answers import Told, marked_answer
from agent_fabric.interfaces.mcp.tools import outcome_object
from agent_fabric.wire.results import result_object

RESULT = RunResult(
    run_id=RunId("r1"),
    status=RunStatus.COMPLETED,
    payload={"summary": "Fixed."},
    error=None,
    specialist_ids=(),
    model="m",
    steps=1,
    usage=Usage(0, 0),
    duration_s=1.0,
    proof=Proof(kind=ProofKind.TESTS, command="pytest", seq=9, tests=TestCount(ran=2, passed=2, failed=0)),
    routing_method="",
    workspace="",
)
MARKED = replace(RESULT, payload={"summary": "Fixed.", "unproven": "nothing was changed"}, proof=NO_PROOF)


def as_task(result: RunResult) -> dict[str, Any]:
    running = Shown("r1", "c1", RunStatus.RUNNING, 0.0)
    return artifact_object(told_as(running, Told(result, "Fixed."), at=0))


@pytest.mark.parametrize(
    "proof_of",
    [
        pytest.param(lambda result: result_object(result, "")["_meta"]["proof"], id="HTTP, SSE and --json"),
        pytest.param(lambda result: outcome_object(result)["proof"], id="MCP"),
        pytest.param(lambda result: Told(result, "Fixed.").note["proof"], id="OpenAI"),
        pytest.param(lambda result: as_task(result)["metadata"]["proof"], id="A2A"),
    ],
)
@pytest.mark.proves("AF-124")
def test_every_door_says_what_was_shown(proof_of: Any) -> None:
    shown = proof_of(RESULT)
    assert {key: shown[key] for key in ("kind", "command", "seq", "tests")} == {
        "kind": "tests",
        "command": "pytest",
        "seq": 9,
        "tests": {"ran": 2, "passed": 2, "failed": 0},
    }
    assert proof_of(MARKED)["kind"] == "none"


@pytest.mark.proves("AF-124")
def test_every_door_says_why_nothing_was_shown() -> None:
    reason = MARKED.payload["unproven"]
    assert result_object(MARKED, "")["unproven"] == reason
    assert outcome_object(MARKED)["result"]["unproven"] == reason
    assert Told(MARKED, "").note["unproven"] == reason
    assert as_task(MARKED)["parts"][1]["data"]["unproven"] == reason


@pytest.mark.proves("DB-1")
def test_a_push_that_failed_is_told_once() -> None:
    pushed = "the summary says that it was pushed, but no `git push` succeeded"
    failed = Effects(failed=(NotedCall(what="git -C app push origin main", why="exit code 1"),))
    told = replace(MARKED, payload={"summary": "Pushed.", "unproven": pushed}, effects=failed)
    more = replace(told, payload={"summary": "Pushed.", "unproven": f"nothing was changed; {pushed}"})
    tried_otherwise = replace(told, effects=Effects(failed=(NotedCall(what="git fetch"),)))
    lines = [[*evidence_lines(each, io.StringIO())] for each in (told, more, tried_otherwise)]
    assert lines == [[], ["unproven: nothing was changed"], [f"unproven: {pushed}"]]
    assert [marked_answer(each.payload, each.effects) for each in (told, tried_otherwise)] == [
        "Pushed.",
        f"Pushed.\n\nunproven: {pushed}",
    ]
