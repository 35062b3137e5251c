"""Each kind of mistake with what its author is told: the exact words, because they are the product.

The mistakes stand in `tests/data/workflows/broken.txt`: a title, the file, and what is said about it.
"""

from pathlib import Path

import pytest

from agent_fabric.domain.definitions.parameter import Parameter
from agent_fabric.domain.workflows.checks.check import AgentShape, KnownNames
from agent_fabric.infrastructure.workflows.definition_files import read_definition

KNOWN = KnownNames(
    agents={
        "writer": AgentShape(
            inputs={"text": Parameter(type="string", required=True), "count": Parameter(type="integer")},
            outputs={"draft": Parameter(type="string")},
        )
    },
    workflows=frozenset({"release-notes"}),
    actions=frozenset({"send-mail"}),
)
CASES = (Path(__file__).parents[3] / "data" / "workflows" / "broken.txt").read_text(encoding="utf-8").split("=== ")[1:]


@pytest.mark.proves("A33-040", "A33-041", "A33-042", "A33-043")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.partition("\n")[0])
def test_each_mistake_is_told_with_its_line_and_what_to_change(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition, _, told = case.partition("\n")[2].rpartition("\n--- ")
    name, _, told = told.partition("\n")
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(definition + "\n", encoding="utf-8")
    found = read_definition(Path(name), KNOWN)
    assert "\n".join(map(str, found.problems)) == told.rstrip("\n")
    assert found.definition is None


def test_there_are_more_than_ten_ways_to_break_a_workflow() -> None:
    assert len(CASES) > 100
