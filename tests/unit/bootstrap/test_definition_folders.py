"""Where definitions are looked for."""

from pathlib import Path

import pytest

from agent_fabric.bootstrap.agents import definition_folders


def test_they_lie_beside_the_fabric_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert definition_folders(tmp_path / ".fabric", ["a", "/b"]) == [tmp_path / "a", Path("/b")]


def test_whoever_stands_below_it_has_those_of_that_folder_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = tmp_path / "examples" / "one"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert definition_folders(tmp_path / ".fabric", ["a"]) == [below / "a", tmp_path / "a"]


def test_a_folder_elsewhere_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert definition_folders(tmp_path / "there" / ".fabric", ["a"]) == [tmp_path / "there" / "a"]
