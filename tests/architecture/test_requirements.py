"""Tests and requirements refer to each other by ids that exist."""

import re

import pytest

from requirements import Proof, proofs, proofs_in, requirements, unknown

SHAPES = {
    "agent-fabric": r"AF-\d{3}",
    "AGENT-33": r"A33-\d{3}",
    "FabriCore": r"FC-\d{3}",
    "contradictions": r"C\d{2}",
    "walls": r"WA-\d{1,2}",
    "daily-use": r"DU-\d{1,2}",
    "scale-out": r"SC-\d{1,2}",
    "conversations": r"CO-\d{1,2}",
    "fleet": r"FL-\d{1,2}",
    "automation": r"AU-\d{1,2}",
    "memory": r"ME-\d{1,2}",
    "walls-2": r"WB-\d{1,2}",
    "companion": r"CP-\d{1,2}",
    "daily-use-2": r"DB-\d{1,2}",
    "page": r"PG-\d{1,2}",
    "release": r"RL-\d{1,2}",
    "remainders": r"RE-\d{1,2}",
    "rooms": r"RM-\d{1,2}",
    "small-models": r"SM-\d{1,2}",
    "speed": r"SP-\d{1,2}",
    "time-travel": r"TT-\d{1,2}",
}


def test_every_mark_names_a_known_requirement() -> None:
    assert unknown(proofs()) == []


def test_every_requirement_has_an_id_of_its_part_and_one_line() -> None:
    parts = requirements()
    assert parts.keys() == SHAPES.keys()
    for part, ids in parts.items():
        for requirement, summary in ids.items():
            assert re.fullmatch(SHAPES[part], requirement)
            assert summary
            assert "\n" not in summary


def test_marks_are_found_on_functions_classes_modules_and_parameters() -> None:
    source = """
pytestmark = [pytest.mark.slow, pytest.mark.proves("C01")]

@pytest.mark.proves("AF-001", "AF-002")
async def test_one(): ...

@pytest.mark.proves("AF-003")
class TestTwo:
    @pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.proves("AF-004"))])
    def test_three(self, x): ...
"""
    assert proofs_in(source, "t.py") == [
        Proof("C01", "t.py", 2),
        Proof("AF-001", "t.py::test_one", 4),
        Proof("AF-002", "t.py::test_one", 4),
        Proof("AF-003", "t.py::TestTwo", 7),
        Proof("AF-004", "t.py::TestTwo::test_three", 9),
    ]


def test_a_mark_with_an_unknown_id_is_told_apart() -> None:
    wrong = Proof("AF-999", "t.py::test_one", 1)
    assert unknown([Proof("AF-001", "t.py::test_one", 1), wrong]) == [wrong]


@pytest.mark.parametrize("mark", ["proves()", "proves(AN_ID)", "proves(*IDS)"])
def test_a_mark_that_hides_its_id_is_refused(mark: str) -> None:
    with pytest.raises(ValueError, match="line 1"):
        proofs_in(f"@pytest.mark.{mark}\ndef test_one(): ...", "t.py")
