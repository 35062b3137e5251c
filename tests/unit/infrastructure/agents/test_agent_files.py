"""Files of agents: three formats, read again when they change, and a wrong one hides no other."""

import json
import os
from pathlib import Path

import pytest

from agent_fabric.domain.agents.check import KnownToAgents
from agent_fabric.domain.definitions.problems import AgentInvalid
from agent_fabric.domain.errors import DefinitionNotFound
from agent_fabric.infrastructure.agents.agent_files import AgentFolder

MARKDOWN = """\
---
name: greeter
description: Greets people.
inputs:
  name: string
outputs:
  greeting: string
---
# You greet

Greet {{ inputs.name }} — kindly.
"""


def folder(tmp_path: Path, **files: str) -> AgentFolder:
    for name, text in files.items():
        stem, _, suffix = name.rpartition("_")
        (tmp_path / f"{stem}.{suffix}").write_text(text, encoding="utf-8")
    return AgentFolder([tmp_path], KnownToAgents())


@pytest.mark.proves("A33-023")
def test_agents_are_found_in_all_three_formats(tmp_path: Path) -> None:
    plain = {"name": "counter", "prompts": {"system": "You count."}}
    agents = folder(
        tmp_path, a_md=MARKDOWN, b_json=json.dumps(plain), c_yaml="name: talker\nprompts: {system: Talk.}\n"
    )
    (tmp_path / "README.md").write_text("Our agents.")
    (tmp_path / "notes.txt").write_text("nothing")
    assert [each.name for each in agents.all()] == ["counter", "greeter", "talker"]
    greeter = agents.get("greeter")
    assert greeter.prompts.system == "# You greet\n\nGreet {{ inputs.name }} — kindly."
    assert list(greeter.outputs) == ["greeting"]
    assert agents.get("talker").prompts.system == "Talk."


def test_problems_name_file_and_line(tmp_path: Path) -> None:
    agents = folder(
        tmp_path,
        a_yaml="name: a\nrole: wrker\nprompts:\n  system: Hello\n  usr: x\n",
        b_md=MARKDOWN.replace("inputs.name", "inputs.nme").replace("greeter", "b"),
        c_json='{"name": "c",\n "prompts": {"system": "x"},\n "model": 3}',
    )
    said = {each.name: "\n".join(map(str, each.problems)) for each in agents.all()}
    assert f"{tmp_path}/a.yaml:2:1: role must be one of" in said["a"]
    assert f"{tmp_path}/a.yaml:5:3: 'prompts.usr' is not known here" in said["a"]
    assert f"{tmp_path}/b.md:9:1: prompts.system: there is no input 'nme'" in said["b"]
    assert f"{tmp_path}/c.json:3:2: model must be text" in said["c"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x_yaml", "name: [\n", "x.yaml:2"),
        ("x_yaml", "a: &a [x]\nb: *a\n", "aliases are not supported"),
        ("x_yaml", "", "mapping"),
        ("x_json", '{"name": "x", "name": "y"}', "appears twice"),
        ("x_md", "# Just text", "x.md:1: it does not begin with front matter"),
        ("x_md", "---\nname: x\nno end", "front matter"),
        ("x_md", "---\nname: x\nprompts: {system: a}\n---\nb", "x.md:5: the system prompt is there twice"),
        ("x_md", "---\nname: x\n  bad: y\n---\nb", "x.md:3"),
        ("x_yaml", "name: x\nprompts: {system: " + "a" * 2_100_000 + "}", "larger than 2 MiB"),
    ],
)
def test_a_file_that_is_wrong_is_reported_and_hides_no_other(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    agents = folder(tmp_path, ok_md=MARKDOWN, **{name: text})
    assert agents.get("greeter").name == "greeter"
    (wrong,) = (each for each in agents.all() if each.definition is None)
    assert message in "\n".join(map(str, wrong.problems))
    with pytest.raises(AgentInvalid):
        agents.get("x")


def test_what_is_not_text_or_not_a_file_is_reported(tmp_path: Path) -> None:
    agents = folder(tmp_path, ok_md=MARKDOWN)
    (tmp_path / "bytes.yaml").write_bytes(b"name: \xff\xfe")
    (tmp_path / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "gone.yaml").symlink_to("nowhere")
    said = {each.name: str(each.problems[0]) for each in agents.all() if each.problems}
    assert "not UTF-8" in said["bytes"]
    assert "this is a folder" in said["folder"]
    assert "not a regular file" in said["pipe"]
    assert set(said) == {"bytes", "folder", "pipe"}
    assert agents.get("greeter").name == "greeter"


@pytest.mark.proves("A33-023")
def test_a_file_that_changes_counts_at_the_next_question(tmp_path: Path) -> None:
    agents = folder(tmp_path, a_md=MARKDOWN)
    assert agents.get("greeter").version == "1.0.0"
    (tmp_path / "a.md").write_text(MARKDOWN.replace("description", "version: 2.0.0\ndescription"))
    assert agents.get("greeter").version == "2.0.0"
    (tmp_path / "b.md").write_text(MARKDOWN.replace("greeter", "other"))
    assert [each.name for each in agents.all()] == ["greeter", "other"]
    (tmp_path / "a.md").unlink()
    with pytest.raises(DefinitionNotFound, match="There is no agent 'greeter'"):
        agents.get("greeter")


def test_two_agents_of_one_name_are_both_named(tmp_path: Path) -> None:
    agents = folder(tmp_path, a_md=MARKDOWN, b_md=MARKDOWN)
    with pytest.raises(
        AgentInvalid, match=r"a\.md:2:1: name: more than one|more than one agent is named 'greeter'"
    ) as caught:
        agents.get("greeter")
    assert "b.md" in caught.value.message
    assert all(each.definition is None for each in agents.all())


@pytest.mark.proves("A33-023")
def test_an_unknown_name_gets_the_nearest_one(tmp_path: Path) -> None:
    agents = folder(tmp_path, a_md=MARKDOWN)
    with pytest.raises(DefinitionNotFound) as caught:
        agents.get("greter")
    assert caught.value.hint == "Did you mean 'greeter'?"


def test_dependencies_are_looked_for_among_the_files(tmp_path: Path) -> None:
    agents = folder(
        tmp_path,
        a_md=MARKDOWN,
        b_yaml="name: b\nprompts: {system: x}\ndependencies: [greeter, {agent: c, optional: true}]",
    )
    assert agents.get("b").name == "b"
    (tmp_path / "a.md").unlink()
    with pytest.raises(AgentInvalid, match="there is no agent 'greeter'"):
        agents.get("b")


def test_a_file_elsewhere_can_be_checked_beside_them(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    agents = folder(tmp_path / "there", a_md=MARKDOWN)
    (tmp_path / "new.md").write_text(MARKDOWN.replace("greeter", "new"))
    assert agents.check(tmp_path / "new.md").definition is not None
    assert agents.check(tmp_path / "missing.md").problems


def test_a_folder_that_is_not_there_has_no_agents(tmp_path: Path) -> None:
    assert AgentFolder([tmp_path / "nothing"], KnownToAgents()).all() == []


def test_links_that_lead_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    inside, outside = tmp_path / "project" / "agents", tmp_path / "elsewhere"
    for place in (inside, outside):
        place.mkdir(parents=True)
    (outside / "a.md").write_text(MARKDOWN, encoding="utf-8")
    (inside / "key.md").symlink_to(outside / "a.md")
    (tmp_path / "project" / "linked").symlink_to(outside)
    (found,) = AgentFolder([inside, tmp_path / "project" / "linked"], KnownToAgents()).all()
    assert (found.name, found.definition) == ("key", None)
    assert "leads out" in found.problems[0].message
