"""The screening log and the evidence table: what rows say, and that a spreadsheet can open them safely."""

import csv
import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_fabric.domain.research import (
    EVIDENCE_COLUMNS,
    SCREENING_COLUMNS,
    Row,
    moment,
    table_rows,
    table_text,
    with_evidence,
    with_failure,
    with_hits,
    with_page,
)
from agent_fabric.domain.sources import Source

pytestmark = pytest.mark.proves("AF-127")

AT = 1_700_000_000.0
PAGE = Source(
    url="https://a.org/x",
    final_url="https://a.org/y",
    title="A page",
    content_type="text/html",
    fetched_at=AT + 60,
    sha256="ab" * 32,
    text="text",
)


def kept(columns: tuple[str, ...], rows: list[Row]) -> list[Row]:
    """Write the rows and read them back, as between two calls."""
    again = table_rows(columns, table_text(columns, rows))
    assert again is not None
    return again


def test_hits_are_noted_once_and_remember_every_query_that_found_them() -> None:
    rows = kept(SCREENING_COLUMNS, with_hits([], "first", [("https://a.org/x", "A"), ("https://b.org", "B")], AT))
    rows = kept(SCREENING_COLUMNS, with_hits(rows, "second", [("https://A.org/x/", "again")], AT + 5))
    assert with_hits(rows, "second", [("https://a.org/x", "again")], AT + 9) == rows
    assert [(row["url"], row["title"], row["query"], row["status"], row["found_at"]) for row in rows] == [
        ("https://a.org/x", "A", "first | second", "found", "2023-11-14T22:13:20Z"),
        ("https://b.org", "B", "first", "found", "2023-11-14T22:13:20Z"),
    ]


def test_a_fetched_page_is_marked_where_it_was_found_and_where_it_led_to() -> None:
    rows = with_hits([], "q", [("https://a.org/x", "A"), ("https://a.org/y", ""), ("https://b.org", "B")], AT)
    rows = kept(SCREENING_COLUMNS, with_page(rows, PAGE, "a primary source"))
    assert [(row["status"], row["reason"], row["sha256"]) for row in rows] == [
        ("fetched", "a primary source", "ab" * 32),
        ("fetched", "a primary source", "ab" * 32),
        ("found", "", ""),
    ]
    assert rows[1]["title"] == "A page"
    assert rows[0]["decided_at"] == moment(PAGE.fetched_at)
    assert with_page(rows, PAGE, "another reason") == rows
    assert with_failure(rows, PAGE.url, "", "gone now", AT) == rows


def test_a_page_that_nobody_found_is_added_and_a_failure_says_why() -> None:
    rows = kept(SCREENING_COLUMNS, with_failure([], "https://c.org", "looks good", "it answered 404", AT))
    (row,) = rows
    assert (row["status"], row["reason"], row["problem"]) == ("failed", "looks good", "it answered 404")
    assert with_failure(rows, "https://c.org/", "", "it answered 404", AT + 99) == rows
    (row,) = with_page(rows, replace(PAGE, url="https://c.org"), "again")
    assert (row["status"], row["reason"], row["problem"]) == ("fetched", "looks good", "")


def test_evidence_is_added_once() -> None:
    rows = kept(EVIDENCE_COLUMNS, with_evidence([], PAGE, "a  quote\nof two lines", "a claim", AT))
    assert with_evidence(rows, PAGE, "a quote of two lines", "a claim", AT + 9) == rows
    rows = kept(EVIDENCE_COLUMNS, with_evidence(rows, PAGE, "a quote of two lines", "another claim", AT))
    assert [(row["claim"], row["quote"], row["url"]) for row in rows] == [
        ("a claim", "a quote of two lines", "https://a.org/x"),
        ("another claim", "a quote of two lines", "https://a.org/x"),
    ]


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@SUM(A1)", "  =cmd|' /C calc'!A0", "\t=1", "'=1", "''@x", "'it"])
def test_no_cell_is_a_formula_and_each_is_read_back_as_it_was(cell: str) -> None:
    rows = with_evidence([], PAGE, cell, "claim", AT)
    text = table_text(EVIDENCE_COLUMNS, rows)
    (stored,) = list(csv.DictReader(io.StringIO(text)))
    assert not stored["quote"].startswith(("=", "+", "-", "@", "\t", "\r"))
    assert kept(EVIDENCE_COLUMNS, rows)[0]["quote"] == cell.strip()


@given(st.lists(st.tuples(st.text(max_size=30), st.text(max_size=30)), max_size=8))
def test_whatever_pages_and_models_say_comes_back_and_repeating_it_changes_nothing(
    pairs: list[tuple[str, str]],
) -> None:
    rows: list[Row] = []
    for quote, claim in pairs:
        rows = kept(EVIDENCE_COLUMNS, with_evidence(rows, PAGE, quote, claim, AT))
    for quote, claim in pairs:
        assert with_evidence(rows, PAGE, quote, claim, AT + 1) == rows
    assert len(rows) == len(
        {(" ".join(q.replace("\0", "").split()), " ".join(c.replace("\0", "").split())) for q, c in pairs}
    )


@pytest.mark.parametrize(
    "text", ["a,b\n1,2\n", "claim\n", 'claim,"', "\0", ",".join(EVIDENCE_COLUMNS) + "\nonly one\n"]
)
def test_another_table_is_recognised(text: str) -> None:
    assert table_rows(EVIDENCE_COLUMNS, text) is None


def test_an_empty_file_is_an_empty_table() -> None:
    assert table_rows(EVIDENCE_COLUMNS, "") == []
