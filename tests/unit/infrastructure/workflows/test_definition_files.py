"""Folders of workflows: found by name, read again when they change, and one broken file hides no other."""

import json
import os
from pathlib import Path

import pytest

from agent_fabric.domain.definitions.problems import WorkflowInvalid
from agent_fabric.domain.errors import DefinitionNotFound, InvalidDefinition
from agent_fabric.domain.workflows.checks.check import AgentShape, KnownNames
from agent_fabric.infrastructure.definitions.files import MAX_BYTES
from agent_fabric.infrastructure.workflows.definition_files import DefinitionFolder, read_definition

SOUND = "name: {name}\nsteps:\n  - {{id: a, action: transform, inputs: {{n: 1}}}}\n"


def sound(folder: Path, name: str, file: str = "") -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    path = folder / (file or f"{name}.yaml")
    path.write_text(SOUND.format(name=name), encoding="utf-8")
    return path


@pytest.mark.proves("A33-041", "A33-142")
def test_workflows_are_found_by_the_name_in_the_file(tmp_path: Path) -> None:
    sound(tmp_path / "one", "first", "whatever.yml")
    (tmp_path / "two").mkdir()
    plain = {"name": "second", "steps": [{"id": "a", "action": "transform", "inputs": {"n": 1}}]}
    (tmp_path / "two" / "x.json").write_text(json.dumps(plain))
    (tmp_path / "two" / "README.md").write_text("no workflow")
    (tmp_path / "two" / ".hidden.yaml").write_text("{")
    folder = DefinitionFolder([tmp_path / "one", tmp_path / "two", tmp_path / "missing"])
    assert [found.name for found in folder.list()] == ["first", "second"]
    assert folder.find("second").usable().steps[0].inputs == {"n": 1}
    assert folder.find("second").plain == plain


def test_a_name_that_nobody_has_is_answered_with_one_that_is_near(tmp_path: Path) -> None:
    sound(tmp_path, "release-notes")
    folder = DefinitionFolder([tmp_path, tmp_path / "gone"])
    with pytest.raises(DefinitionNotFound) as caught:
        folder.find("release-nots")
    assert caught.value.hint == "Did you mean 'release-notes'?"
    with pytest.raises(DefinitionNotFound) as caught:
        folder.find("xyz")
    assert caught.value.hint == f"Workflows: release-notes. Looked in {tmp_path}, {tmp_path / 'gone'} (does not exist)."


def test_a_broken_file_is_listed_with_its_problems_and_hides_no_other(tmp_path: Path) -> None:
    sound(tmp_path, "good")
    (tmp_path / "syntax.yaml").write_text("name: [")
    (tmp_path / "wrong.yaml").write_text("name: wrong\nsteps: []\n")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "empty.json").write_text("")
    folder = DefinitionFolder([tmp_path])
    listed = {found.name: [problem.message for problem in found.problems] for found in folder.list()}
    assert listed == {
        "binary": ["it is not UTF-8 text"],
        "empty": ["Expecting value"],
        "good": [],
        "syntax": ["did not find expected node content"],
        "wrong": ["steps must hold at least one step"],
    }
    assert folder.find("good").definition is not None
    with pytest.raises(WorkflowInvalid) as caught:
        folder.find("wrong")
    assert caught.value.code == "workflow_invalid"
    assert isinstance(caught.value, InvalidDefinition)
    assert caught.value.message == (
        f"{tmp_path}/wrong.yaml has a problem:\n"
        f"{tmp_path}/wrong.yaml:2:1: steps must hold at least one step\n    Add one: - id: hello"
    )


def test_two_files_with_one_name_are_an_error_that_names_both(tmp_path: Path) -> None:
    first, second = sound(tmp_path, "same", "a.yaml"), sound(tmp_path, "same", "b.yaml")
    folder = DefinitionFolder([tmp_path])
    with pytest.raises(WorkflowInvalid) as caught:
        folder.find("same")
    assert str(caught.value.problems[0]) == (
        f"{first}: the name 'same' is used by another file too: {second}\n    Rename one of them, or take one away."
    )
    second.unlink()
    assert folder.find("same").path == first


def test_a_correction_counts_at_once_and_what_has_not_changed_is_not_read_again(tmp_path: Path) -> None:
    path = sound(tmp_path, "demo")
    sound(tmp_path, "other")
    folder = DefinitionFolder([tmp_path])
    before = folder.find("demo")
    assert folder.find("demo") is before
    path.write_text("name: demo\nsteps: 5\n")
    with pytest.raises(WorkflowInvalid):
        folder.find("demo")
    sound(tmp_path, "demo")
    assert folder.find("demo").definition is not None
    path.unlink()
    with pytest.raises(DefinitionNotFound):
        folder.find("demo")


def test_files_are_checked_against_one_another_and_against_agents_that_come_and_go(tmp_path: Path) -> None:
    known: dict[str, AgentShape] = {}
    folder = DefinitionFolder([tmp_path], lambda: KnownNames(agents=dict(known)))
    steps = "  - {id: a, action: workflow, workflow: called}\n  - {id: b, action: invoke-agent, agent: x}\n"
    (tmp_path / "caller.yaml").write_text(f"name: caller\nsteps:\n{steps}")
    assert [problem.message for problem in folder.list()[0].problems] == [
        "there is no workflow 'called'",
        "there is no agent 'x'",
    ]
    sound(tmp_path, "called")
    known["x"] = AgentShape()
    assert folder.find("caller").problems == ()


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    with path.open("wb") as file:
        file.truncate(10 * MAX_BYTES)
    (problem,) = read_definition(path).problems
    assert problem.message == "it is larger than 2 MiB, too large for a definition"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("missing.yaml", "there is no such file"),
        ("folder.yaml", "this is a folder"),
        ("pipe.yaml", "this is not a regular file"),
        ("flow.toml", "the name does not show the format"),
        ("null\0.yaml", "it cannot be read: embedded null byte"),
    ],
)
def test_what_cannot_be_read_is_a_problem_and_no_crash(name: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "flow.toml").write_text("")
    (problem,) = read_definition(tmp_path / name).problems
    assert problem.message == told


def test_a_folder_that_is_a_file_is_a_problem_and_hides_no_other(tmp_path: Path) -> None:
    sound(tmp_path / "good", "demo")
    (tmp_path / "file").write_text("")
    listed = DefinitionFolder([tmp_path / "file", tmp_path / "good"]).list()
    assert [(found.name, bool(found.problems)) for found in listed] == [("demo", False), ("file", True)]


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "demo.yaml"
    path.write_text(SOUND.format(name="demo"), encoding="utf-8-sig")
    assert read_definition(path).definition is not None


def test_links_that_lead_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    outside = sound(tmp_path / "elsewhere", "outside")
    inside = sound(tmp_path / "project" / "flows", "inside")
    (inside.parent / "key.yaml").symlink_to(outside)
    (inside.parent / "again.yaml").symlink_to(inside.name)
    (tmp_path / "project" / "linked").symlink_to(outside.parent)
    found = DefinitionFolder([inside.parent, tmp_path / "project" / "linked"]).list()
    refused = [each for each in found if each.plain is None]
    assert {each.path.name for each in refused} == {"key.yaml", "linked"}
    assert all("leads out" in each.problems[0].message for each in refused)
    assert {each.path.name for each in found} - {"key.yaml", "linked"} == {"inside.yaml", "again.yaml"}
    assert read_definition(inside.parent / "key.yaml").usable().name == "outside", "who names a file means it"
