"""Errors as answers: one table, one shape."""

import json
from collections.abc import Iterator

import pytest

from agent_fabric.domain.errors import FabricError, RunNotFound, ServerBusy, StoreFull
from agent_fabric.domain.ids import RunId
from agent_fabric.interfaces.http.errors import STATUSES, InternalError, problem, refusal


def family(kind: type[FabricError]) -> Iterator[type[FabricError]]:
    for child in kind.__subclasses__():
        yield child
        yield from family(child)


def test_every_error_of_the_family_has_its_status() -> None:
    ours = {
        kind.code
        for kind in family(FabricError)
        if kind.__module__.startswith("agent_fabric.") and not kind.__module__.startswith("agent_fabric.client.")
    }  # what happens to clients, no server tells
    assert ours - {InternalError.code} <= STATUSES.keys()


def test_an_error_tells_program_and_person_what_they_need() -> None:
    answer = problem(RunNotFound("There is no run 'x'", hint="Look elsewhere."), run_id=RunId("x"))
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["location"] == "/runs/x"
    assert json.loads(bytes(answer.body)) == {
        "type": "urn:agent-fabric:problem:run_not_found",
        "title": "Not Found",
        "status": 404,
        "code": "run_not_found",
        "detail": "There is no run 'x'",
        "hint": "Look elsewhere.",
        "run_id": "x",
    }


def test_who_should_come_back_is_told_when() -> None:
    assert int(problem(ServerBusy("full")).headers["retry-after"]) > 0
    assert "retry-after" not in problem(StoreFull("full")).headers


def test_an_error_that_nobody_thought_of_is_ours() -> None:
    class New(FabricError):
        code = "never_heard_of"

    assert problem(New("?")).status_code == 500


@pytest.mark.parametrize("status", [400, 403, 404, 405, 413, 415, 418, 421, 422, 500, 502])
def test_a_status_alone_becomes_a_problem_too(status: int) -> None:
    body = json.loads(bytes(refusal(status, "no \ud800").body))
    assert (body["status"], body["detail"]) == (status, "no \ud800")
    assert body["code"]
