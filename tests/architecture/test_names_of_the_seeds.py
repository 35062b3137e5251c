"""What the three earlier systems called things is found here: under the same name, or where the glossary says."""

import ast
import re
from pathlib import Path

import pytest

from agent_fabric.domain.fleet.protocol import Method
from agent_fabric.infrastructure.persistence.schema import read_steps
from requirements import requirements

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/agent_fabric"
GLOSSARY = (ROOT / "docs/reference/glossary.md").read_text()
PLACE = re.compile(r"`([a-z_]+(?:/[a-z_0-9]+)+(?:\.py)?)(?::(\w+))?`")


def rows(heading: str) -> dict[str, str]:
    """Return the rows of a table below a heading: the first cell, and all that follow."""
    text = GLOSSARY.partition(heading)[2].partition("\n## ")[0]
    cells = re.findall(r"^\| `?([^|`]+?)`? \| (.+) \|$", text, re.MULTILINE)
    return {name: rest for name, rest in cells if name != "---"}


def named_in(part: str, requirement: str) -> list[str]:
    """Return the names that a requirement lists."""
    text = requirements()[part][requirement].partition(" ")[2]
    leave_out = {"Named", "functions", "Package", "layout", "src", "agent_fabric", "with", "the", "listed", "files"}
    return [word for word in re.findall(r"\w+", text) if word not in leave_out]


@pytest.mark.proves("AF-010", "AF-011", "A33-001")
@pytest.mark.parametrize(
    ("part", "requirement", "count"),
    [("agent-fabric", "AF-010", 9), ("agent-fabric", "AF-011", 11), ("AGENT-33", "A33-001", 12)],
)
def test_everything_that_was_named_has_a_place_and_the_place_has_it(part: str, requirement: str, count: int) -> None:
    table = rows("## Names of the three systems")
    names = named_in(part, requirement)
    assert len(names) == count, names
    for name in names:
        places = PLACE.findall(table[name])
        assert places, f"{name}: no place"
        for place, wanted in places:
            path = SOURCE / place
            assert path.exists(), f"{name}: {place} was moved"
            assert not wanted or wanted in defined_in(path), f"{name}: {place} defines no {wanted}"


def defined_in(path: Path) -> set[str]:
    """Return the functions and classes at the top of a module."""
    body = ast.parse(path.read_text()).body
    return {each.name for each in body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}


@pytest.mark.proves("C12")
def test_pack_agent_node_and_run_each_mean_one_thing() -> None:
    words = rows("# Glossary")
    assert "prompt, tools and a way to finish" in words["pack"]
    assert "definition file" in words["agent"]
    assert "machine that has joined" in words["node"]
    assert "from its beginning to its end" in words["run"]
    # What FabriCore calls agent keeps that name where its programs see it: on the wire and in the tables.
    assert {Method.IDENTIFY, Method.HEARTBEAT} <= {each for each in Method if each.startswith("agent.")}
    assert any("CREATE TABLE agents" in step for step in read_steps())
