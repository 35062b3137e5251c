"""The two tables that a research run keeps in its workspace: which pages it considered, and what they show.

Plain CSV that spreadsheets open. The tools keep them, not the model, so that they tell what happened.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from agent_fabric.domain.evidence.citations import same_address
from agent_fabric.domain.tools.findings import Source

SCREENING_LOG = "screening_log.csv"
EVIDENCE_TABLE = "evidence.csv"
KEPT_BY_TOOLS = frozenset({SCREENING_LOG, EVIDENCE_TABLE})

SCREENING_COLUMNS = ("url", "title", "query", "found_at", "status", "reason", "problem", "decided_at", "sha256")
"""`status` is found, fetched or failed; `reason` is the model's for reading the page, `problem` why it could not."""
EVIDENCE_COLUMNS = ("claim", "quote", "url", "title", "fetched_at", "sha256", "recorded_at")

FOUND, FETCHED, FAILED = "found", "fetched", "failed"

Row = Mapping[str, str]

_MAX_CELL_CHARS = 32_000
"""No spreadsheet takes much more in a cell, nor does `csv` read much more back."""
_FORMULA = ("=", "+", "-", "@")
"""With these a spreadsheet takes a cell for a formula and runs it."""


def with_hits(rows: Sequence[Row], query: str, hits: Sequence[tuple[str, str]], at: float) -> list[Row]:
    """Add the pages that a search found, as address and title; one that is there gains the query only."""
    table, query = list(rows), _cell(query)
    for url, title in hits:
        number = _number_of(table, url)
        if number is None:
            table.append(_row(url=url, title=title, query=query, found_at=moment(at), status=FOUND))
        else:
            table[number] = {**table[number], "query": _with_query(table[number].get("query", ""), query)}
    return table


def with_page(rows: Sequence[Row], source: Source, reason: str) -> list[Row]:
    """Note that a page was fetched; the first reason given stays."""
    table = _with_row(rows, source.url)
    for number, row in enumerate(table):
        here = any(same_address(row["url"], _cell(address)) for address in (source.url, source.final_url))
        if here and row.get("status") != FETCHED:
            table[number] = {
                **row,
                **_row(
                    title=row.get("title") or source.title,
                    status=FETCHED,
                    reason=row.get("reason") or reason,
                    problem="",
                    decided_at=moment(source.fetched_at),
                    sha256=source.sha256,
                ),
            }
    return table


def with_failure(rows: Sequence[Row], url: str, reason: str, problem: str, at: float) -> list[Row]:
    """Note that a page could not be fetched, unless it was before."""
    table = _with_row(rows, url)
    number = _number_of(table, url)
    if number is not None and table[number].get("status") != FETCHED:
        row = table[number]
        told = {**row, **_row(status=FAILED, reason=row.get("reason") or reason, problem=problem)}
        if told != row:
            table[number] = {**told, "decided_at": moment(at)}
    return table


def with_evidence(rows: Sequence[Row], source: Source, quote: str, claim: str, at: float) -> list[Row]:
    """Add what a page shows; the same again adds nothing."""
    told = _row(claim=claim, quote=quote, url=source.url)
    if any(told.items() <= row.items() for row in rows):
        return list(rows)
    page = _row(title=source.title, fetched_at=moment(source.fetched_at), sha256=source.sha256)
    return [*rows, {**told, **page, "recorded_at": moment(at)}]


def table_text(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Return a table as CSV."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_harmless(_cell(row.get(column, ""))) for column in columns] for row in rows)
    return file.getvalue()


def table_rows(columns: Sequence[str], text: str) -> list[Row] | None:
    """Return the rows of a table that `table_text` wrote; None if it is another one."""
    try:
        header, *rows = csv.reader(io.StringIO(text.removeprefix("\ufeff"))) if text.strip() else [list(columns)]
    except csv.Error:
        return None
    if tuple(header) != tuple(columns) or any(len(row) != len(columns) for row in rows):
        return None
    return [{column: _plain(cell) for column, cell in zip(columns, row, strict=True)} for row in rows]


def moment(seconds: float) -> str:
    """Return a time as people and spreadsheets read it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _with_row(rows: Sequence[Row], url: str) -> list[Row]:
    return list(rows) if _number_of(rows, url) is not None else [*rows, _row(url=url)]


def _number_of(rows: Sequence[Row], url: str) -> int | None:
    address = _cell(url)
    return next((number for number, row in enumerate(rows) if same_address(row["url"], address)), None)


def _with_query(queries: str, query: str) -> str:
    """Add a query to those that found a page, unless it is among them or there are more than a cell holds."""
    more = " | ".join(filter(None, (queries, query)))
    return queries if f" | {query} | " in f" | {queries} | " or len(more) > _MAX_CELL_CHARS else more


def _row(**values: str) -> dict[str, str]:
    return {column: _cell(value) for column, value in values.items()}


def _cell(text: str) -> str:
    """Return a text as a table gives it back: in one line, not too long, without half characters."""
    line = " ".join(text.encode("utf-8", "replace").decode().replace("\0", "").split())
    return line[:_MAX_CELL_CHARS].rstrip()


def _harmless(cell: str) -> str:
    return f"'{cell}" if cell.lstrip("'").startswith(_FORMULA) else cell


def _plain(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and cell.lstrip("'").startswith(_FORMULA) else cell
