"""The reference page: its examples are read, and it leaves nothing out."""

import re
from pathlib import Path

import pytest

from agent_fabric.domain.definitions.declarations import PARAMETER
from agent_fabric.domain.workflows.checks.action_rules import RULES
from agent_fabric.domain.workflows.checks.shape import (
    EXECUTION,
    OUTPUT,
    RESERVED_IDS,
    RETRY,
    STEP,
    TRIGGERS,
    WORKFLOW,
)
from agent_fabric.infrastructure.workflows.definition_files import read_definition

PAGE = (Path(__file__).parents[4] / "docs" / "reference" / "workflow-files.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```yaml\n(name: ([a-z-]+)\n.*?)```", PAGE, re.DOTALL)


@pytest.mark.proves("A33-142")
@pytest.mark.parametrize(
    "text", [text for text, name in EXAMPLES if name != "broken"], ids=lambda text: str(text).partition("\n")[0]
)
def test_the_examples_have_no_problems(text: str, tmp_path: Path) -> None:
    file = tmp_path / "example.yaml"
    file.write_text(text, encoding="utf-8")
    assert list(map(str, read_definition(file).problems)) == []


def test_the_broken_example_is_told_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = Path("broken.yaml")
    file.write_text(next(text for text, name in EXAMPLES if name == "broken"), encoding="utf-8")
    told = "\n".join(map(str, read_definition(file).problems)) + "\n"
    assert f"```text\n{told}```" in PAGE


@pytest.mark.parametrize(
    "group", [WORKFLOW, STEP, PARAMETER, OUTPUT, RETRY, EXECUTION, TRIGGERS], ids=lambda each: each.name
)
def test_every_key_is_described(group: object) -> None:
    assert [key for key in group.fields if f"`{key}`" not in PAGE] == []  # type: ignore[attr-defined]


def test_every_action_with_its_inputs_and_outputs_is_described() -> None:
    sections = dict(re.findall(r"### `([a-z-]+)`\n(.*?)(?=\n##)", PAGE, re.DOTALL))
    assert sections.keys() == RULES.keys()
    for action, rule in RULES.items():
        names = {*rule.inputs, *(rule.gives or {})} - {"encoding"}
        assert [name for name in names if f"`{name}`" not in sections[action]] == []


def test_every_reserved_word_is_named() -> None:
    assert [word for word in RESERVED_IDS if f"`{word}`" not in PAGE] == []
