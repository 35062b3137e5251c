"""What the files of a project tell about how it is built."""

import json

import pytest

from agent_fabric.domain.agents.project_survey import (
    ProjectSurvey,
    Purpose,
    TriedCommand,
    commands_of,
    folders_of,
    languages_of,
    notes_text,
)

pytestmark = pytest.mark.proves("CP-6")


@pytest.mark.parametrize(
    ("files", "folders", "lines"),
    [
        ({}, [], []),
        ({"Makefile": "build: a\n\tgo\ntest:\n\nlint : x\nX := 1\n"}, [], ["make build", "make test", "make lint"]),
        ({"Makefile": "check:\n"}, [], ["make check"]),
        ({"pyproject.toml": "[tool.pytest.ini_options]\n[tool.ruff]\n"}, [], ["python3 -m pytest -q", "ruff check ."]),
        ({"pyproject.toml": "[tool.mypy]"}, ["tests"], ["python3 -m unittest discover -s tests", "mypy"]),
        ({"pyproject.toml": "no toml [", "Makefile": "test:\n"}, [], ["make test"]),
        ({"package.json": json.dumps({"scripts": {"build": "x", "lint": "y"}})}, [], ["npm run build", "npm run lint"]),
        ({"package.json": json.dumps({"scripts": {"test": "x"}}), "pnpm-lock.yaml": ""}, [], ["pnpm run test"]),
        ({"package.json": "[" * 9}, [], []),
        ({"package.json": "[1]"}, [], []),
        ({"Cargo.toml": ""}, [], ["cargo build", "cargo test", "cargo clippy"]),
        ({"go.mod": "", "Makefile": "test:\n"}, [], ["go build ./...", "make test", "go vet ./..."]),
    ],
)
def test_each_kind_of_project_suggests_its_commands(
    files: dict[str, str], folders: list[str], lines: list[str]
) -> None:
    assert [each.line for each in commands_of(files, folders)] == lines


def test_languages_and_folders_are_those_of_its_own_files() -> None:
    paths = ["src/a.py", "src/b.py", "web/c.ts", "node_modules/d.js", "node_modules/e.js", ".git/x", "README.md"]
    assert languages_of(paths) == ["Python", "TypeScript"]
    assert folders_of(paths) == ["src", "web"]


def test_the_notes_say_what_was_tried() -> None:
    commands = [
        TriedCommand(Purpose.BUILD, "make build", works=True),
        TriedCommand(Purpose.TEST, "make test", works=False, note="exit code 2"),
        TriedCommand(Purpose.LINT, "make lint", works=None),
    ]
    text = notes_text(ProjectSurvey(["Python"], ["src"], commands))
    assert "- build: `make build`\n" in text
    assert "- test: `make test` (does not work everywhere: exit code 2)\n" in text
    assert "- lint: `make lint` (not tried)\n" in text
    assert "Written in Python." in text
    assert "- `src/`" in text
