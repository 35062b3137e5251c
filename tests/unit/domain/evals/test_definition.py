"""Eval files: what is wrong with them, and what becomes of those that are right."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_fabric.domain.evals.check import problems_in_eval
from agent_fabric.domain.evals.definition import (
    CaseFile,
    EvalCase,
    EvalDefinition,
    definition_from,
    is_inside,
    plain_definition,
)
from agent_fabric.domain.evals.trials import Arm, Trial, trial_run_id, trials_of
from agent_fabric.domain.ids import EvalId

CASE = {"id": "a", "prompt": "Do it.", "check": "true"}


def messages(plain: object, **more: Any) -> list[str]:
    return [f"{'.'.join(map(str, each.path))}: {each.message}" for each in problems_in_eval(plain, **more)]


def test_the_least_that_is_needed() -> None:
    assert problems_in_eval({"cases": [CASE]}) == []
    definition = definition_from({"cases": [CASE], "name": None, "k": None, "models": None})
    assert (definition.name, definition.k, definition.models, definition.at_once) == ("eval", 1, (), 1)


@pytest.mark.parametrize(
    ("plain", "said"),
    [
        ([], ": an eval must be a mapping, not a list"),
        ({}, ": 'cases' is missing"),
        ({"cases": []}, "cases: cases must hold at least one case"),
        ({"cases": [{**CASE, "chekc": "x"}]}, "cases.0.chekc: 'cases[0].chekc' is not known here"),
        ({"cases": [CASE, CASE]}, "cases.1.id: the id 'a' is used twice"),
        ({"cases": [CASE], "models": ["m", "m"]}, "models.1: models names 'm' twice"),
        ({"cases": [{**CASE, "files": {"a": "x", "a/b": "y"}}]}, "cases.0.files.a/b: 'a' is a file and the folder"),
        ({"cases": [{**CASE, "files": {"a": {"base64": "%%"}}}]}, "cases.0.files.a.base64: cases[0].files.a is not"),
        ({"cases": [{**CASE, "files": {"a": {}}}]}, "cases.0.files.a: cases[0].files.a needs either `text`"),
        ({"cases": [{**CASE, "id": "a b"}]}, "cases.0.id: cases[0].id must be an id"),
        ({"cases": [{**CASE, "check": "tr\0ue"}]}, "cases.0.check: cases[0].check contains a NUL character"),
        ({"cases": [CASE], "k": 101}, "k: k must be a whole number from 1 to 100"),
        ({"cases": [CASE] * 1_001}, "cases: cases must hold at most 1000 cases"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(plain: object, said: str) -> None:
    assert any(each.startswith(said) for each in messages(plain)), messages(plain)


def test_too_many_trials_and_too_many_bytes_are_refused() -> None:
    cases = [{**CASE, "id": f"c{n}"} for n in range(200)]
    assert messages({"cases": cases}) == []
    assert "cases: this makes 20,000 trials, more than 10,000" in messages({"cases": cases, "k": 100})
    large = {"cases": [{**CASE, "files": {"a": "x" * 6_000_000, "b": "x" * 6_000_000}}]}
    assert any("more than 10,000,000" in each for each in messages(large))


def test_a_folder_can_be_named_in_a_file_only() -> None:
    plain = {"cases": [{**CASE, "folder": "here"}]}
    assert messages(plain) == []
    assert messages(plain, with_folders=False) == [
        "cases.0.folder: cases[0].folder: a folder can be named in a file only"
    ]


@pytest.mark.parametrize(
    "name", ["", "/a", "a/", "../a", "a/../b", "a//b", "./a", "a\\b", "a\0b", ".fabric/x", " a", "a" * 300, "\ud800"]
)
def test_names_that_leave_the_workspace_are_refused(name: str) -> None:
    assert not is_inside(name)
    assert problems_in_eval({"cases": [{**CASE, "files": {name: "x"}}]})
    assert problems_in_eval({"cases": [{**CASE, "check_files": {name: "x"}}]})


@given(st.binary(max_size=50), st.booleans(), st.text(alphabet="abé|\n\r\0", max_size=8))
def test_a_definition_survives_being_written(data: bytes, executable: bool, text: str) -> None:
    files = {"a/b": CaseFile(data=data, executable=executable), "c": CaseFile(data=text.encode())}
    case = EvalCase(case_id="a", prompt="Do it.", check="true", files=files, check_files={"t": CaseFile(data=data)})
    definition = EvalDefinition(name="x", cases=(case,), models=("m",), k=2, max_steps=3, network=True)
    plain = plain_definition(definition)
    assert problems_in_eval(plain, with_folders=False) == []
    assert definition_from(plain) == definition


def test_the_digest_changes_with_anything_that_matters() -> None:
    case = EvalCase(case_id="a", prompt="p", check="c")
    others = [
        EvalCase(case_id="a", prompt="q", check="c"),
        EvalCase(case_id="a", prompt="p", check="d"),
        EvalCase(case_id="a", prompt="p", check="c", files={"f": CaseFile(data=b"")}),
        EvalCase(case_id="a", prompt="p", check="c", check_files={"f": CaseFile(data=b"")}),
        EvalCase(case_id="a", prompt="p", check="c", files={"f": CaseFile(data=b"", executable=True)}),
    ]
    assert len({each.digest for each in (case, *others)}) == 6


def test_trials_go_model_by_model_and_each_has_a_run_of_its_own_for_ever() -> None:
    cases = tuple(EvalCase(case_id=name, prompt="p", check="c") for name in "ab")
    definition = EvalDefinition(name="x", cases=cases, models=("m", "n"), packs=("e",), k=2)
    trials = trials_of(definition)
    assert len(trials) == 8
    assert [trial.arm.model for trial in trials] == ["m"] * 4 + ["n"] * 4
    assert [(trial.attempt, trial.case_id) for trial in trials[:4]] == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]
    ids = {trial_run_id(EvalId("e"), trial) for trial in trials}
    assert len(ids) == 8
    trial = Trial("a", Arm("m", "e"), 1)
    assert trial_run_id(EvalId("e"), trial) in ids
    assert trial_run_id(EvalId("e"), trial, retry=1) not in ids
