"""The screening log and the evidence table: what rows say, and that a spreadsheet can open them safely."""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fabric.domain.evidence.research_tables import (
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
from agent_fabric.domain.tools.findings import Source
from effort import examples

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


def test_a_query_that_looks_like_two_is_noted_once_and_so_are_more_than_a_cell_holds() -> None:
    rows: list[Row] = []
    for _ in range(3):
        rows = kept(SCREENING_COLUMNS, with_hits(rows, "a | b", [("https://a.org/x", "A")], AT))
    assert [row["query"] for row in rows] == ["a | b"]
    for number in range(400):
        rows = kept(SCREENING_COLUMNS, with_hits(rows, f"{number} " + "q" * 490, [("https://a.org/x", "A")], AT))
    assert len(rows[0]["query"]) <= 32_000


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


odd_text = st.text(max_size=40) | st.text("\r\n\0\x85\u2028\ud800\"',=| ", max_size=10)
odd_text |= st.builds(str.__mul__, st.sampled_from(["x", "a ", "\r", '"', "é", ","]), st.integers(100_000, 200_000))


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(st.tuples(odd_text, odd_text, odd_text), max_size=4))
def test_whatever_is_written_is_read_back(steps: list[tuple[str, str, str]]) -> None:
    rows: list[Row] = []
    for url, title, words in steps:
        changes: list[Callable[[Sequence[Row]], list[Row]]] = [
            partial(with_hits, query=words, hits=[(url, title)], at=AT),
            partial(with_failure, url=url, reason=words, problem=title, at=AT),
            partial(with_page, source=replace(PAGE, url=url, title=title), reason=words),
        ]
        for change in changes:
            after = kept(SCREENING_COLUMNS, change(rows))
            assert len(after) >= len(rows)
            assert kept(SCREENING_COLUMNS, after) == after
            assert kept(SCREENING_COLUMNS, change(after)) == after
            rows = after
    raw = [{"claim": url, "quote": title, "url": words} for url, title, words in steps]
    assert len(kept(EVIDENCE_COLUMNS, list(raw))) == len(steps)


@pytest.mark.parametrize(
    "text", ["a,b\n1,2\n", "claim\n", 'claim,"', "\0", ",".join(EVIDENCE_COLUMNS) + "\nonly one\n"]
)
def test_another_table_is_recognised(text: str) -> None:
    assert table_rows(EVIDENCE_COLUMNS, text) is None


def test_an_empty_file_is_an_empty_table() -> None:
    assert table_rows(EVIDENCE_COLUMNS, "") == []
