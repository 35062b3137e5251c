"""Tasks that adapters are trained on: two halves that share nothing, and nothing of the frozen evaluation sets."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from training.generate import load_templates, problem_of, tasks
from training.tasks.draw import half_of
from training.tasks.task import Task

FROZEN = Path(__file__).parents[3] / "benchmarks" / "tool_tasks"
EACH = 2
"""Tasks drawn from each template."""
TOO_LONG = 7
"""So many words in a row are a wording, not a turn of phrase."""


def runs_of_words(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[at : at + TOO_LONG]) for at in range(len(words) - TOO_LONG + 1)}


def prompts_of(path: Path) -> Iterator[str]:
    for case in yaml.safe_load(path.read_text(encoding="utf-8"))["cases"]:
        yield case["prompt"]


@pytest.fixture(scope="module")
def drawn() -> dict[str, list[Task]]:
    counts = {half: sum(half_of(name) == half for name in load_templates()) for half in ("train", "test")}
    assert sum(counts.values()) >= 200
    assert counts["test"] >= 20
    return {half: list(tasks(EACH * count, 7, half)) for half, count in counts.items()}


@pytest.mark.proves("SM-2")
def test_the_halves_share_no_template_and_no_name_of_a_file(drawn: dict[str, list[Task]]) -> None:
    templates = {half: {task.template for task in drawn[half]} for half in drawn}
    files = {half: {name for task in drawn[half] for name in task.files} for half in drawn}
    assert templates["train"].isdisjoint(templates["test"])
    assert files["train"] & files["test"] == set()


@pytest.mark.proves("SM-2")
def test_no_wording_is_one_of_the_frozen_sets(drawn: dict[str, list[Task]]) -> None:
    learned = set[tuple[str, ...]]().union(*(runs_of_words(task.prompt) for half in drawn.values() for task in half))
    sets = sorted(FROZEN.glob("*.yaml"))
    prompts = [prompt for path in sets for prompt in prompts_of(path)]
    assert len(prompts) >= 160
    assert [prompt for prompt in prompts if runs_of_words(prompt) & learned] == []


@pytest.mark.proves("SM-2")
def test_a_wording_of_the_frozen_sets_would_be_noticed() -> None:
    prompt = "Create planets.txt with three lines: Mercury, Venus, Mars."
    assert prompt in list(prompts_of(FROZEN / "everyday7.yaml"))
    assert runs_of_words(f"Please: {prompt}") & runs_of_words(prompt)


@pytest.mark.proves("SM-2")
def test_the_right_way_does_a_task_and_nothing_does_not(drawn: dict[str, list[Task]]) -> None:
    for task in drawn["test"][:: 2 * EACH]:
        assert problem_of(task) == "", task.prompt


@pytest.mark.proves("SM-2")
def test_the_same_seed_gives_the_same_tasks() -> None:
    assert [task.to_json() for task in tasks(20, 3, "train")] == [task.to_json() for task in tasks(20, 3, "train")]
