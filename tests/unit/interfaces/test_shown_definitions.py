"""What a server shows of definitions is enough to see them here as they are there."""

from pathlib import Path

import pytest

from agent_fabric.domain.agents.check import KnownToAgents
from agent_fabric.infrastructure.agents.agent_files import AgentFolder
from agent_fabric.infrastructure.workflows.definition_files import check_definition, definition_text, read_definition
from agent_fabric.interfaces.cli.workflows.definition_problems import count_checked, join_checks
from agent_fabric.interfaces.views.workflows.views import checked_object, found_from, workflow_object

SOUND = """\
name: small
version: 1.0.0
description: Does little.
triggers: {manual: true, schedule: 0 9 * * *}
inputs: {who: {type: string, required: true, enum: [Ada, Bob]}, times: {type: integer, default: 2}}
outputs: {said: "{{ say.stdout }}"}
steps:
- {id: say, action: run-command, command: "echo {{ inputs.who }}"}
- id: twice
  action: for-each
  inputs: {items: [1, 2]}
  depends_on: [say]
  steps: [{id: one, action: transform, inputs: {x: 1}}]
"""
DOUBLED = """\
name: doubled
version: 1.0.0
steps:
- {id: a, action: wait}
- {id: a, action: dance}
"""


@pytest.mark.proves("C15")
@pytest.mark.parametrize("text", [SOUND, DOUBLED, "name: [", "", "steps: 5"])
def test_a_workflow_that_a_server_shows_is_the_same_here(tmp_path: Path, text: str) -> None:
    file = tmp_path / "some.yaml"
    file.write_text(text)
    there = read_definition(file)
    assert workflow_object(found_from(workflow_object(there))) == workflow_object(there)


@pytest.mark.parametrize("text", [SOUND, DOUBLED, "name: [", "", "steps: 5"])
def test_a_text_is_checked_as_the_file_that_holds_it(tmp_path: Path, text: str) -> None:
    file = tmp_path / "some.yaml"
    file.write_text(text)
    assert definition_text(file) == text
    assert check_definition(file, text) == read_definition(file)


def test_what_cannot_be_read_has_no_text(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    for name in ("missing.yaml", "binary.yaml", "notes.txt", "."):
        assert definition_text(tmp_path / name) is None
        assert read_definition(tmp_path / name).problems


def test_an_agent_may_take_the_place_of_the_one_that_has_its_name(tmp_path: Path) -> None:
    agents = AgentFolder([tmp_path], KnownToAgents())
    text = "name: greeter\nprompts: {system: You greet people.}\n"
    (tmp_path / "greeter.yaml").write_text(text)
    assert agents.check_text(Path("elsewhere/greeter.yaml"), text).definition is not None
    (problem,) = agents.check_text(Path("x.yaml"), "name: greeter\nprompts: {}\n").problems
    assert (problem.file, problem.line) == ("x.yaml", 2)
    assert [each.path.name for each in agents.all()] == ["greeter.yaml"]


def test_several_checks_are_told_as_one(tmp_path: Path) -> None:
    parts = [
        checked_object([check_definition(tmp_path / f"{number}.yaml", text)])
        for number, text in enumerate((SOUND, DOUBLED, "["))
    ]
    together = join_checks(parts)
    assert not together["valid"]
    assert [Path(file).name for file in together["files"]] == ["0.yaml", "1.yaml", "2.yaml"]
    assert count_checked(together) == "3 files checked: 2 wrong"
    assert count_checked(parts[0]) == "1 file checked: no problems"
