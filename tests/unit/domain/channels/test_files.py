"""Names of files that people send, and files that answers name (CH-16)."""

import os
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_fabric.domain.channels.files import (
    MAX_FILES_OUT,
    MAX_NAME,
    Document,
    StoredFile,
    clean_name,
    files_note,
    inbox_path,
    named_files,
    size_words,
)


@pytest.mark.parametrize(
    ("name", "clean"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("..\\..\\boot.ini", "boot.ini"),
        ("/etc/shadow", "shadow"),
        (".bashrc", "bashrc"),
        ("-rf", "rf"),
        ("..", "file"),
        ("", "file"),
        ("CON.txt", "file.txt"),
        ("a b\tc\n.txt", "a_bc.txt"),
        ("$(touch x).txt", "touch_x.txt"),
        ("`id`;'x'.sh", "id_x.sh"),
        ("invoice\u202efdp.exe", "invoicefdp.exe"),
        ("zero\u200bwidth.txt", "zerowidth.txt"),
        ("über.pdf", "über.pdf"),
        ("nul\x00l.txt", "null.txt"),
    ],
)
def test_a_name_is_made_harmless(name: str, clean: str) -> None:
    assert clean_name(name) == clean


@given(st.text(max_size=400))
def test_any_name_stays_in_the_folder(name: str) -> None:
    clean = clean_name(name.encode("utf-8", "replace").decode())
    assert clean
    assert len(clean.encode()) <= MAX_NAME
    assert os.path.basename(clean) == clean  # noqa: PTH119 - what the system makes of it
    assert clean not in {".", ".."}
    assert clean[0] not in ".-"
    assert not any(unicodedata.category(each)[0] in "CZ" or each in "\\/\n'\"`$" for each in clean)
    assert clean_name(clean) == clean


def test_a_file_has_the_same_place_whenever_it_is_handled_and_no_other_has_it() -> None:
    assert inbox_path("u1", 0, "a.txt") == inbox_path("u1", 0, "a.txt")
    assert len({inbox_path(key, number, "a.txt") for key in ("u1", "u2") for number in (0, 1)}) == 4
    assert inbox_path("u1", 0, "../a.txt").startswith("inbox/")


def test_a_session_is_told_what_came_and_that_it_gives_no_orders() -> None:
    note = files_note([StoredFile("inbox/ab-a.txt", b"x" * 1_500)])
    assert "- inbox/ab-a.txt (1.5 KB)" in note
    assert "no orders" in note
    assert (size_words(20), size_words(20_000_000)) == ("0.1 KB", "20.0 MB")


def test_files_that_an_answer_names_are_found_and_no_others() -> None:
    known = ["report.pdf", "out/data.csv", "secret.txt", *(f"f{number}" for number in range(9))]
    said = "See [the report](report.pdf), `./out/data.csv` and [x](https://example.org/secret.txt), but not secret.txt."
    assert named_files(said, known) == ["report.pdf", "out/data.csv"]
    assert named_files("[a](../secret.txt) `/secret.txt` [b](secret.txt#part)", known) == ["secret.txt"]
    assert len(named_files(" ".join(f"`f{number}`" for number in range(9)), known)) == MAX_FILES_OUT


def test_what_a_file_is_follows_from_its_name() -> None:
    assert Document("a.pdf", b"").media_type == "application/pdf"
    assert Document("a", b"").media_type == "application/octet-stream"
