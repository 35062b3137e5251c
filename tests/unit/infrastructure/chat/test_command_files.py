"""Commands in files: whose they are, and what is wrong with them."""

from pathlib import Path

import pytest

from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.chat.command_files import CommandFiles
from agent_fabric.infrastructure.tools.trusted_content import TrustedContent

pytestmark = pytest.mark.proves("CP-9")


@pytest.fixture
def files(tmp_path: Path) -> CommandFiles:
    for folder in ("project/.fabric/commands", "config/agent-fabric/commands"):
        (tmp_path / folder).mkdir(parents=True)
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    return CommandFiles(tmp_path / "project/.fabric", environ, TrustedContent(tmp_path / "trust.json"))


def test_a_command_has_front_matter_or_none(files: CommandFiles, tmp_path: Path) -> None:
    own = tmp_path / "config/agent-fabric/commands"
    (own / "fix.md").write_text(
        "---\ndescription: Fixes a file.\narguments: [file]\npack: engineering\nmodel: fast\n---\nFix $file.\n"
    )
    (own / "plain.md").write_text("Look around.\n")
    (own / "No Name.md").write_text("x")
    assert list(files.names()) == ["fix", "plain"]
    found = files.find("fix")
    assert found is not None
    assert (found.description, found.arguments, found.pack, found.model) == (
        "Fixes a file.",
        ("file",),
        "engineering",
        "fast",
    )
    assert found.fill("a.py") == "Fix a.py."
    assert files.is_trusted(found)
    plain = files.find("plain")
    assert plain is not None
    assert plain.text == "Look around."
    assert files.find("other") is None


def test_one_of_the_project_counts_more_and_is_agreed_to_as_it_is(files: CommandFiles, tmp_path: Path) -> None:
    (tmp_path / "config/agent-fabric/commands/fix.md").write_text("Mine.")
    theirs = tmp_path / "project/.fabric/commands/fix.md"
    theirs.write_text("Theirs.")
    found = files.find("fix")
    assert found is not None
    assert (found.text, files.is_trusted(found)) == ("Theirs.", False)
    files.agree(found)
    assert files.is_trusted(found)
    theirs.write_text("Something else.")
    changed = files.find("fix")
    assert changed is not None
    assert not files.is_trusted(changed)


def test_what_was_not_shown_is_not_agreed_to(files: CommandFiles, tmp_path: Path) -> None:
    theirs = tmp_path / "project/.fabric/commands/fix.md"
    theirs.write_text("Shown.")
    shown = files.find("fix")
    assert shown is not None
    theirs.write_text("Written while a person looked at it.")
    files.agree(shown)
    assert files.is_trusted(shown)
    hidden = files.find("fix")
    assert hidden is not None
    assert not files.is_trusted(hidden)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "says nothing"),
        (b"---\nfile: x\n---\nDo.", "unknown fields: file"),
        (b"---\narguments: [a b]\n---\nDo.", "must be names"),
        (b"---\npack: [a]\n---\nDo.", "pack must be text"),
        (b"---\n- a\n---\nDo.", "must be fields"),
        (b"---\nDo.", "must begin with front matter"),
        (b"\xff", "not UTF-8"),
        (b"x" * 100_001, "at most 100,000 bytes"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(files: CommandFiles, tmp_path: Path, data: bytes, problem: str) -> None:
    (tmp_path / "config/agent-fabric/commands/fix.md").write_bytes(data)
    with pytest.raises(ConfigError, match=problem):
        files.find("fix")
