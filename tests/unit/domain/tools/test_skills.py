"""The rules of the Agent Skills format, what models are told of skills, and what skills leave of their tools."""

from typing import Any

import pytest

from agent_fabric.domain.tools.skills import (
    WINDOW_SHARE,
    Skill,
    SkillSource,
    allowed_by,
    catalogue,
    problems_of,
    split_allowed,
)

pytestmark = pytest.mark.proves("CP-4")

SOUND = {"name": "release-notes", "description": "Writes release notes. Use it for a release."}


def skill(name: str, description: str = "Does it.") -> Skill:
    return Skill(name=name, description=description, folder=f"/s/{name}", source=SkillSource.USER)


@pytest.mark.proves("CP-5")
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"license": "Apache-2.0", "compatibility": "Needs git", "metadata": {"author": "ann", "version": "1.0"}},
        {"allowed-tools": "Bash(git:*) Read"},
        {"allowed-tools": ["Bash(git:*)", "Read"]},
    ],
)
def test_sound_front_matter_has_no_problems(changes: dict[str, Any]) -> None:
    assert problems_of({**SOUND, **changes}, "release-notes") == []


@pytest.mark.proves("CP-5")
@pytest.mark.parametrize(
    ("changes", "folder", "problem"),
    [
        ({"name": "Release-Notes"}, "Release-Notes", "lower case"),
        ({"name": "-notes"}, "-notes", "begin or end with a hyphen"),
        ({"name": "notes-"}, "notes-", "begin or end with a hyphen"),
        ({"name": "release--notes"}, "release--notes", "two hyphens in a row"),
        ({"name": "release_notes"}, "release_notes", "letters, digits and hyphens only"),
        ({"name": "n" * 65}, "n" * 65, "at most 64"),
        ({"name": "other"}, "release-notes", "its folder is 'release-notes'"),
        ({"name": ""}, "release-notes", "not empty"),
        ({"name": 7}, "release-notes", "must be text"),
        ({"description": "d" * 1025}, "release-notes", "at most 1024"),
        ({"description": " "}, "release-notes", "not empty"),
        ({"compatibility": "c" * 501}, "release-notes", "at most 500"),
        ({"compatibility": ["git"]}, "release-notes", "must be text"),
        ({"allowed-tools": {"Bash": True}}, "release-notes", "must be text, or a list"),
        ({"metadata": "none"}, "release-notes", "must be a mapping"),
        ({"author": "ann"}, "release-notes", "unknown fields: author"),
    ],
)
def test_each_rule_of_the_validator_is_known(changes: dict[str, Any], folder: str, problem: str) -> None:
    assert problem in "; ".join(problems_of({**SOUND, **changes}, folder))


@pytest.mark.parametrize("field", ["name", "description"])
def test_a_required_field_that_is_missing_is_named(field: str) -> None:
    assert f"{field} is missing" in problems_of({k: v for k, v in SOUND.items() if k != field}, "release-notes")


@pytest.mark.parametrize("window", [None, 4_096, 8_192, 131_072])
@pytest.mark.parametrize("count", [1, 5, 100])
def test_what_is_told_takes_two_percent_of_the_window(window: int | None, count: int) -> None:
    told = catalogue([skill(f"skill-{n}", "word " * 200) for n in range(count)], window)
    assert len(told) <= (window or 8_192) * 4 * WINDOW_SHARE
    assert "skill-0" in told
    assert ("lists" in told) or f"skill-{count - 1}" in told


def test_without_skills_nothing_is_told() -> None:
    assert catalogue([], 8_192) == ""


@pytest.mark.proves("CP-5")
def test_allowed_tools_are_known_by_the_names_of_other_agents() -> None:
    left = allowed_by("x", split_allowed("Bash(git:*), Bash(jq *) Read custom_tool"))
    assert left is not None
    assert left.tools == {"shell", "read_file", "look", "custom_tool", "skill", "finish_task"}
    assert left.commands == ("git", "jq")


@pytest.mark.parametrize("allowed", ["Bash", "Bash(*)", "Bash Bash(git:*)"])
def test_any_command_is_any_command(allowed: str) -> None:
    left = allowed_by("x", split_allowed(allowed))
    assert left is not None
    assert left.limits == ()


def test_a_skill_that_names_no_tools_limits_none() -> None:
    assert allowed_by("x", ()) is None
