"""The folder with the user's models."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from agent_fabric.domain.errors import ConfigError, WeightsUnavailable
from agent_fabric.infrastructure.models.weights.catalogue import CATALOGUE
from agent_fabric.infrastructure.models.weights.folder import ModelFolder, models_folder

MODEL = replace(CATALOGUE[0], name="tiny-model", aliases=("tiny",), size_bytes=4)


@pytest.fixture
def folder(tmp_path: Path) -> ModelFolder:
    folder = ModelFolder(tmp_path / "models", (MODEL,))
    folder.create()
    return folder


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"HOME": "/home/eve"}, "/home/eve/.local/share/agent-fabric/models"),
        ({"HOME": "/home/eve", "XDG_DATA_HOME": "/data"}, "/data/agent-fabric/models"),
        ({"HOME": "/home/eve", "XDG_DATA_HOME": "data"}, "/home/eve/.local/share/agent-fabric/models"),
        ({"HOME": "/home/eve", "XDG_DATA_HOME": "/data", "FABRIC_MODELS_DIR": "/big/disk"}, "/big/disk"),
        ({"HOME": "/home/eve", "FABRIC_MODELS_DIR": "~/models"}, "/home/eve/models"),
    ],
)
def test_models_lie_in_the_users_data_folder_unless_told_otherwise(environ: dict[str, str], path: str) -> None:
    assert models_folder(environ) == Path(path)


@pytest.mark.parametrize("environ", [{}, {"HOME": "/h", "FABRIC_MODELS_DIR": "models"}])
def test_an_environment_without_a_usable_place_is_told_how_to_name_one(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as caught:
        models_folder(environ)
    assert caught.value.hint == "export FABRIC_MODELS_DIR=/some/path"


def test_the_folder_is_for_its_user_only(folder: ModelFolder) -> None:
    assert folder.path.stat().st_mode & 0o777 == 0o700


def test_a_checked_file_is_remembered_until_it_changes(folder: ModelFolder) -> None:
    file = folder.file_of(MODEL)
    assert not folder.is_verified(MODEL)
    file.write_bytes(b"GGUF")
    assert not folder.is_verified(MODEL)
    folder.note_verified(MODEL)
    assert folder.is_verified(MODEL)
    os.utime(file, ns=(1, 1))
    assert not folder.is_verified(MODEL)


@pytest.mark.parametrize("note", [b"", b"{", b"[]", b"null", b"\xff", b"x" * 100_000, b'{"sha256": 1}'])
def test_a_damaged_note_counts_as_none(folder: ModelFolder, note: bytes) -> None:
    file = folder.file_of(MODEL)
    file.write_bytes(b"GGUF")
    file.with_name(file.name + ".verified").write_bytes(note)
    assert not folder.is_verified(MODEL)


def test_installed_lists_catalogue_models_and_files_that_people_put_there(folder: ModelFolder) -> None:
    folder.file_of(MODEL).write_bytes(b"GGUF")
    folder.note_verified(MODEL)
    (folder.path / "mine.gguf").write_bytes(b"123456")
    (folder.path / "notes.txt").write_bytes(b"x")
    (folder.path / "folder.gguf").mkdir()
    folder.part_of(MODEL, "hub").append(b"1")
    assert [(found.name, found.size_bytes, found.model, found.verified) for found in folder.list_installed()] == [
        ("mine", 6, None, False),
        ("tiny-model", 4, MODEL, True),
    ]


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path / "none", (MODEL,))
    assert folder.list_installed() == []
    assert folder.begun_bytes(MODEL) == 0
    with pytest.raises(ConfigError, match="is not in"):
        folder.remove("tiny")


def test_removing_a_model_removes_all_of_it_and_nothing_else(folder: ModelFolder) -> None:
    folder.file_of(MODEL).write_bytes(b"GGUF")
    folder.note_verified(MODEL)
    folder.part_of(MODEL, "hub").append(b"123")
    folder.staging_of(MODEL).mkdir()
    (folder.path / "mine.gguf").write_bytes(b"123456")
    assert folder.remove("tiny") == 7
    assert sorted(path.name for path in folder.path.iterdir()) == [".tiny-model.lock", "mine.gguf"]
    assert folder.remove("mine.gguf") == 6
    assert folder.list_installed() == []


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "", "..", "."])
def test_nothing_outside_of_the_folder_can_be_removed(folder: ModelFolder, name: str) -> None:
    outside = folder.path.parent / "outside.gguf"
    outside.write_bytes(b"1")
    with pytest.raises(ConfigError):
        folder.remove(name)
    assert outside.exists()


async def test_a_model_that_is_being_downloaded_is_not_removed(folder: ModelFolder) -> None:
    async with folder.lock(MODEL, lambda: None):
        with pytest.raises(WeightsUnavailable, match="being downloaded"):
            folder.remove("tiny")
