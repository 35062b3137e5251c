"""Passages as rows."""

from collections.abc import Sequence
from typing import Any, Final

from agent_fabric.domain.memory.passages import Passage
from agent_fabric.infrastructure.persistence.sql import storable
from agent_fabric.wire.json_codec import dump_json, load_json

COLUMNS: Final = "ordinal, begins_at, ends_at, headings, text"


def passage_values(passage: Passage) -> tuple[Any, ...]:
    """Return the values of the columns."""
    headings = dump_json([storable(each) for each in passage.headings]).decode()
    return passage.ordinal, passage.start, passage.end, headings, passage.text


def passage_from(row: Sequence[Any]) -> Passage:
    """Return the passage of a row."""
    ordinal, start, end, headings, text = row
    return Passage(ordinal=ordinal, start=start, end=end, headings=tuple(load_json(headings.encode())), text=text)
