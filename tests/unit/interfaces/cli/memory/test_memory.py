"""`fabric memory` in a folder, from the command line."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.config.loader import load_config
from agent_fabric.domain.errors import MissingExtra
from agent_fabric.infrastructure.memory.embeddings.sentence_encoder import SentenceEncoder
from agent_fabric.interfaces.cli.invocation import invoke

HANDBOOK = "# Handbook\n\n## Pool\n\nThe pool opens at nine.\n\n## Journeys\n\nExpenses are refunded within a month.\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def missing(_: object) -> None:
        raise MissingExtra("embeddings", needed_for="Search by meaning")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("FABRIC_URL", raising=False)
    monkeypatch.setattr(SentenceEncoder, "__init__", missing)  # loading its weights takes longer than all of this
    load_config.cache_clear()
    (tmp_path / "handbook.md").write_text(HANDBOOK)
    return tmp_path


def fabric(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    assert invoke("memory", [*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_a_document_is_added_found_shown_and_forgotten(capsys: pytest.CaptureFixture[str]) -> None:
    added = fabric(capsys, "add", "handbook.md", "--label", "team")
    assert (added["title"], added["state"], added["passages"]) == ("Handbook", "words_ready", 1)
    (found,) = fabric(capsys, "search", "When", "does", "the", "pool", "open?", "--label", "team")
    assert (found["document"], found["passage"]) == (added["id"], HANDBOOK)
    assert 0 < found["score"] <= 1
    assert fabric(capsys, "search", "Who won the cup in 1954?") == []
    assert fabric(capsys, "show", added["id"][:6])["text"] == HANDBOOK
    assert [each["id"] for each in fabric(capsys, "list", "--documents")] == [added["id"]]
    assert fabric(capsys, "forget", added["id"], "--document")["status"] == "erased"
    assert fabric(capsys, "search", "pool") == []


@pytest.mark.parametrize("name", ["pipe", "/dev/zero"])
def test_what_never_ends_is_not_read(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(folder / "pipe")
    assert invoke("memory", ["add", name]) == 2
    assert "cannot be read: it is no regular file" in capsys.readouterr().err


def test_an_export_into_a_missing_folder_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    fabric(capsys, "add", "--fact", "The pool opens at 9")
    assert invoke("memory", ["export", "-o", "nowhere/facts.md"]) == 2
    assert "nowhere/facts.md cannot be written: No such file or directory" in capsys.readouterr().err


@pytest.mark.proves("ME-2", "ME-13")
def test_what_was_forgotten_stands_in_no_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "secret.md").write_text("The zibeline quokka sleeps. " * 3)
    added = fabric(capsys, "add", "secret.md")
    fact = fabric(capsys, "add", "--fact", "Zibeline quokkas sleep")
    fabric(capsys, "forget", added["id"], "--document")
    fabric(capsys, "forget", fact["id"], "--erase")
    (folder / "secret.md").unlink()
    left = [path for path in folder.rglob("*") if path.is_file() and b"quokka" in path.read_bytes().lower()]
    assert left == []


def test_a_fact_is_remembered_replaced_explained_and_forgotten(capsys: pytest.CaptureFixture[str]) -> None:
    fact = fabric(capsys, "add", "--fact", "The pool opens at 9")
    assert [each["status"] for each in fabric(capsys, "list")] == ["active"]
    refused = fabric(capsys, "add", "--fact", "the pool opens at 9!", code=2)
    assert fact["id"] in refused["error"]["message"]
    newer = fabric(capsys, "edit", fact["id"], "The pool opens at 10")
    why = fabric(capsys, "why", fact["id"])
    assert (why["status"], why["superseded_by"], why["source_quote"]) == ("retired", newer["id"], "The pool opens at 9")
    assert fabric(capsys, "review") == []
    assert fabric(capsys, "forget", newer["id"])["status"] == "retired"
    assert fabric(capsys, "why", "ffff", code=2)["error"]["code"] == "memory_not_found"


@pytest.mark.proves("ME-14")
def test_an_export_imports_back_and_waits_for_a_review(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fabric(capsys, "add", "--preference", "Answer in German", "--pin")
    before = fabric(capsys, "list")
    assert invoke("memory", ["export", "-o", "facts.md"]) == 0
    fabric(capsys, "forget", before[0]["id"], "--erase")
    assert [each["status"] for each in fabric(capsys, "import", "facts.md")["facts"]] == ["proposed"]
    fabric(capsys, "forget", before[0]["id"], "--erase")
    assert fabric(capsys, "import", "facts.md", "--accept")["facts"] == before
    assert fabric(capsys, "list") == before
    again = fabric(capsys, "import", "facts.md", "--accept")
    assert (again["facts"], [each["id"] for each in again["left_out"]]) == ([], [before[0]["id"]])


@pytest.mark.parametrize("arguments", [["add", "handbook.md"], ["add", "--fact", "The pool opens at 9"]])
def test_where_all_runs_are_encrypted_it_is_said_that_memory_is_not(
    arguments: list[str], folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert invoke("memory", arguments) == 0
    assert "unencrypted" not in capsys.readouterr().err
    monkeypatch.setenv("FABRIC_ENCRYPTION", "all")
    load_config.cache_clear()
    assert invoke("memory", [*arguments, "--workspace", str(folder / "other"), "--json"]) == 0
    said = capsys.readouterr()
    assert "warning: stored unencrypted: `encryption: all` seals runs" in said.err
    assert json.loads(said.out)["id"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["add", "missing.md"], "config_invalid"),
        (["add", "--fact", "x", "--label", "y"], "config_invalid"),
        (["edit", "00"], "config_invalid"),
        (["forget", "00", "--runs"], "config_invalid"),
        (["review", "--accept", "a", "--reject", "b"], "config_invalid"),
        (["add", "--fact", "The key is ghp_" + "a1B2" * 8], "fact_refused"),
    ],
)
def test_wrong_usage_is_explained(arguments: list[str], code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert fabric(capsys, *arguments, code=2)["error"]["code"] == code


STEMS = (
    ("API keys rotate every ninety days.", "rotation"),
    ("The rotation of keys is done by ann.", "Who rotates the keys?"),
    ("Die Kündigung muss schriftlich sein.", "kündigen"),
    ("Le remboursement est fait en un mois.", "rembourser"),
    ("La instalación tarda una hora.", "instalar"),
)


@pytest.mark.proves("DB-8")
@pytest.mark.parametrize(("text", "question"), STEMS)
def test_words_are_found_by_their_stem(
    text: str, question: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "note.md").write_text(text)
    fabric(capsys, "add", "note.md")
    (found,) = fabric(capsys, "search", question)
    assert found["passage"] == text


@pytest.mark.proves("DB-8")
def test_half_of_the_words_is_a_hit_with_a_lower_score(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "note.md").write_text("API keys rotate every ninety days.")
    fabric(capsys, "add", "note.md")
    (whole,) = fabric(capsys, "search", "rotation")
    (half,) = fabric(capsys, "search", "rotation of certificates")
    assert 0 < half["score"] < whole["score"]
    assert fabric(capsys, "search", "certificates for the whole pool of printers and keys") == []


@pytest.mark.proves("DB-8")
def test_where_nothing_is_found_it_says_that_words_only_were_compared(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke("memory", ["search", "otters"]) == 0
    assert "searched by words only; for meaning: " in capsys.readouterr().err


@pytest.mark.proves("DB-8")
def test_several_files_are_added_at_once_and_a_finished_one_is_not_said_to_have_stopped(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a.md", "b.txt", "c.txt"):
        (folder / name).write_text(f"The pool of {name} opens at nine.")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 broken")
    assert invoke("memory", ["add", "a.md", "b.txt", "c.txt", "broken.pdf"]) == 0
    shown = capsys.readouterr()
    assert "3 added or up to date" in shown.out
    assert "broken.pdf is no PDF that can be read" in shown.out
    assert "stopped" not in shown.err
    assert len(fabric(capsys, "search", "pool")) == 3
    assert invoke("memory", ["add", "a.md", "absent.md"]) == 2
    assert "There is no " in capsys.readouterr().err
    assert fabric(capsys, "add", "--fact", "The", "pool", "opens", "at", "9")["text"] == "The pool opens at 9"
