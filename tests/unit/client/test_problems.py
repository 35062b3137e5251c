"""What a server tells becomes the error that the same thing is on this machine."""

from collections.abc import Iterator

import pytest

from agent_fabric.client.problems import error_from
from agent_fabric.domain.errors import FabricError, MissingExtra, ModelBusy, RunNotFound, TooManyRequests
from agent_fabric.interfaces.http.errors import STATUSES


def family(parent: type[FabricError]) -> Iterator[type[FabricError]]:
    yield parent
    for child in parent.__subclasses__():
        yield from family(child)


def test_every_error_that_a_server_tells_comes_back_as_its_own_class() -> None:
    known = {each.code for each in family(FabricError)}
    for code in STATUSES:
        error = error_from({"code": code, "detail": "what happened", "hint": "what to do"})
        assert (error.code, error.message, error.hint) == (code, "what happened", "what to do")
        assert str(error) == "what happened"
        if code in known:
            assert any(type(error) is each for each in family(FabricError)), code


def test_some_classes() -> None:
    assert type(error_from({"code": "run_not_found", "detail": "no"})) is RunNotFound
    assert type(error_from({"code": "extra_missing", "detail": "no"})) is MissingExtra
    late = error_from({"code": "too_many_requests", "detail": "slow down"}, retry_after="7")
    assert isinstance(late, TooManyRequests)
    assert late.retry_after_s == 7.0
    busy = error_from({"code": "model_busy", "message": "busy"}, retry_after="soon")
    assert isinstance(busy, ModelBusy)
    assert busy.retry_after_s is None


@pytest.mark.parametrize("told", [{}, {"code": None}, {"code": 7, "detail": ["x"], "hint": 3}, {"title": "Conflict"}])
def test_whatever_is_told_there_is_an_error(told: dict[str, object]) -> None:
    error = error_from(told)
    assert isinstance(error, FabricError)
    assert error.message


def test_a_code_of_a_newer_server_is_kept() -> None:
    error = error_from({"code": "from_the_future", "detail": "strange", "hint": "wait"})
    assert isinstance(error, FabricError)
    assert (error.code, error.hint) == ("from_the_future", "wait")
    assert type(error) is type(error_from({"code": "from_the_future"}))
