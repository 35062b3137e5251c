"""A fabric folder that came with somebody's project is not obeyed before the person says so."""

import shutil
from pathlib import Path

import pytest

from agent_fabric.domain.audit.key import UNKEYED, AuditKey
from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.runs.log.folder_trust import claim, is_ours, mark, require_made_locally, require_ours

KEY, OTHERS = AuditKey.of(b"mine" * 8), AuditKey.of(b"theirs" * 8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / ".fabric"
    made.mkdir()
    return made


def test_what_we_make_is_ours_also_when_it_is_filled_later(folder: Path) -> None:
    (folder / "runs").mkdir()
    (folder / ".gitignore").write_text("*\n")
    claim(folder, KEY)
    (folder / "fabric.db").touch()
    (folder / "runs" / "one").mkdir()
    assert is_ours(folder, KEY)


@pytest.mark.parametrize("name", ["config.yaml", "config.json", "policy.yaml"])
def test_a_configuration_that_comes_later_or_changes_must_be_trusted_again(folder: Path, name: str) -> None:
    claim(folder, KEY)
    for text in ("sandbox: {level: C}\n", "policy: {profile: open}\n"):
        (folder / name).write_text(text)
        with pytest.raises(ConfigError, match="not the one that you trusted") as refused:
            require_ours(folder, KEY)
        assert "fabric config trust" in refused.value.hint
        require_made_locally(folder, KEY)  # which is enough to look at its runs and take them back
        mark(folder, KEY)
        assert is_ours(folder, KEY)


def test_a_project_is_not_taken_for_a_fabric_folder_and_nobody_is_told_to_remove_it(folder: Path) -> None:
    project = folder.parent / "project"
    for name in ("src", "tests", "runs"):
        (project / name).mkdir(parents=True)
    (project / "package.json").touch()
    with pytest.raises(ConfigError, match="is no fabric folder, but holds other files, such as src, tests") as refused:
        require_ours(project, KEY)
    assert f"such as {project}/.fabric" in refused.value.hint
    assert "remove" not in refused.value.hint
    (project / "made-here").mkdir()  # somebody else's
    with pytest.raises(ConfigError, match="was not made by you"):
        require_ours(project, KEY)


def test_a_folder_that_cannot_be_listed_is_not_taken_for_an_empty_one(folder: Path) -> None:
    (folder / "config.yaml").touch()
    folder.chmod(0o300)
    try:
        assert not is_ours(folder, KEY)
    finally:
        folder.chmod(0o700)


def test_links_are_never_taken_for_something_new(folder: Path) -> None:
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()
    linked = folder.parent / "linked"
    linked.symlink_to(elsewhere)
    claim(linked, KEY)
    assert not is_ours(linked, KEY)
    assert not list(elsewhere.iterdir())
    claim(elsewhere, KEY)
    (elsewhere / "fabric.db").touch()
    assert not is_ours(linked, KEY), "a mark is for a place, not for whoever leads there"


@pytest.mark.parametrize("name", ["runs", "changes", "locks", "run_index.jsonl", ".gitignore", "made-here"])
def test_links_that_wait_in_a_folder_are_refused_before_anything_is_written_through_them(
    folder: Path, name: str
) -> None:
    (folder / name).symlink_to(folder.parent)
    assert not is_ours(folder, KEY)


@pytest.mark.parametrize("name", ["config.yaml", "config.json", "config.toml", "fabric.db", "locks"])
def test_what_came_with_a_project_is_refused(folder: Path, name: str) -> None:
    (folder / name).touch()
    claim(folder, KEY)  # too late: it has something in it
    with pytest.raises(ConfigError) as refused:
        require_ours(folder, KEY)
    assert "fabric config trust" in refused.value.hint


def test_a_mark_is_good_for_its_user_and_its_place_only(folder: Path) -> None:
    (folder / "config.yaml").touch()
    mark(folder, KEY)
    assert is_ours(folder, KEY)
    assert not is_ours(folder, OTHERS)
    elsewhere = folder.parent / "clone" / ".fabric"
    shutil.copytree(folder, elsewhere)
    assert not is_ours(elsewhere, KEY)


def test_a_mark_cannot_be_made_up(folder: Path) -> None:
    (folder / "config.yaml").touch()
    mark(folder, OTHERS)
    (folder / "made-here" / OTHERS.name).rename(folder / "made-here" / KEY.name)
    assert not is_ours(folder, KEY)


def test_a_folder_with_nothing_in_it_and_a_user_without_a_key_are_let_through(folder: Path) -> None:
    assert is_ours(folder, KEY)
    assert is_ours(folder / "missing", KEY)
    (folder / "fabric.db").touch()
    assert is_ours(folder, UNKEYED)


def test_settings_in_the_env_file_of_a_project_must_be_trusted(folder: Path) -> None:
    dotenv = folder.parent / ".env"
    dotenv.write_text("DATABASE_URL=x\n")
    claim(folder, KEY)
    assert is_ours(folder, KEY), "what another program reads is none of our business"
    for text in ("FABRIC_SANDBOX__LEVEL=C\n", "FABRIC_SANDBOX__LEVEL=B\nDATABASE_URL=x\n", "FABRIC_BROKEN"):
        dotenv.write_text(text)
        with pytest.raises(ConfigError, match="trusted"):
            require_ours(folder, KEY)
        require_made_locally(folder, KEY)
        mark(folder, KEY)
        assert is_ours(folder, KEY)
        dotenv.write_text(text + "\n# another line\nOTHER=1\n")
        assert is_ours(folder, KEY), "only settings count"


def test_an_env_file_that_was_there_before_the_folder_is_not_trusted_by_making_it(folder: Path) -> None:
    (folder.parent / ".env").write_text("FABRIC_SANDBOX__LEVEL=C\n")
    with pytest.raises(ConfigError, match=r"\.env has settings of agent-fabric that you have not trusted"):
        require_ours(folder, KEY)
    claim(folder, KEY)
    with pytest.raises(ConfigError, match=r"\.env has settings of agent-fabric that you have not trusted"):
        require_ours(folder, KEY)
    mark(folder, KEY)
    require_ours(folder, KEY)
