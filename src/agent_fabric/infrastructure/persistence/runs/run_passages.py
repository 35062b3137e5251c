"""Where a search found a run: one line of its task, its summary, or what it did and said."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from agent_fabric.application.ports.runs import RunRecord
from agent_fabric.infrastructure.persistence.runs.run_activity_index import SEQ_BITS, activity_text
from agent_fabric.infrastructure.persistence.sql import SqlConnection
from agent_fabric.infrastructure.persistence.text_search import TextSearch

MAX_CHARS: Final = 160
"""Of a passage."""
_BEFORE: Final = 50
"""How much of that stands before the word."""
_PART = re.compile(r"\w+")


def with_passage(connection: SqlConnection, search: TextSearch, record: RunRecord, terms: Sequence[str]) -> RunRecord:
    """Return the record of a run with the passage in which it was found."""
    for text in (record.prompt, record.summary):
        if found := passage(text, terms):
            return replace(record, matched=found)
    text = _activity(connection, search, record, terms)
    return replace(record, matched=passage(text, terms) or _cut(_one_line(text), 0))


def passage(text: str, terms: Sequence[str]) -> str:
    """Return one line of a text around the first of some words and phrases; empty: it has none of them."""
    line = _one_line(text)
    lower = line.lower()
    places = [at for at in (lower.find(term) for term in terms) if at >= 0]
    if not places:  # the index of activity does not see what stands between words
        patterns = [r"\W+".join(map(re.escape, _PART.findall(term))) for term in terms]
        matches = (re.search(rf"\b{pattern}", lower) for pattern in patterns if pattern)
        places = [match.start() for match in matches if match is not None]
    return _cut(line, min(places)) if places else ""


def _cut(line: str, at: int) -> str:
    """Return the part of a line around a place, which begins and ends with whole words."""
    first = 0 if at <= _BEFORE else line.find(" ", at - _BEFORE, at) + 1 or at - _BEFORE
    if len(line) - first <= MAX_CHARS:
        last = len(line)
    else:
        end = line.rfind(" ", at, first + MAX_CHARS)
        last = end if end > at else first + MAX_CHARS
    return f"{'… ' * (first > 0)}{line[first:last]}{' …' * (last < len(line))}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _activity(connection: SqlConnection, search: TextSearch, record: RunRecord, terms: Sequence[str]) -> str:
    """Return the text of the first event that has one of the words."""
    row = connection.execute("SELECT number FROM runs WHERE run_id = ?", (record.run_id,)).fetchone()
    if row is None:
        return ""
    first = int(row[0]) << SEQ_BITS
    match = search.in_activity(*terms)
    query = f"SELECT rowid FROM run_activity WHERE {match.sql} AND rowid BETWEEN ? AND ? ORDER BY rowid LIMIT 1"  # noqa: S608 - ours
    hit = connection.execute(query, (*match.values, first, first + (1 << SEQ_BITS) - 1)).fetchone()
    return "" if hit is None else activity_text(connection, int(row[0]), int(hit[0]) - first)
