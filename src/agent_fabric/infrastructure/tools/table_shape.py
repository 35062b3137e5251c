"""Recognises tables in text files: which line names the columns, and what divides them."""

import csv
import re
from decimal import Decimal

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.dataclass import dataclass

MAX_TABLE_BYTES = 64 * 1024
"""Larger tables are not read for this."""
_ENDINGS = (".csv", ".tsv")
_SEPARATORS = ("\t", ";", ",", "|")
_SPELLED = {"\t": "a tab", ";": "';'", ",": "','", "|": "'|'"}
_NAME = re.compile(r"[^\W\d][^\d@:/]*")
"""What a column may be called; a cell that is something else is a value."""
_VALUE = re.compile(r"[-+]?\d+(?:\.\d+)?")
_MAX_NAMED = 12
_MAX_RANGES = 3


@dataclass(frozen=True, slots=True)
class Table:
    """What a file of rows and columns looks like."""

    separator: str
    columns: tuple[str, ...]
    """Their names in the first line; empty if it is a row like the others."""
    rows: int
    """Without the line of names."""
    numeric: tuple[int, ...] = ()
    """The columns that have a number in every row, counted from 1."""
    ranges: tuple[str, ...] = ()
    """What is smallest and largest in the columns of numbers, with the first cell of the row, and their sums."""

    def __str__(self) -> str:
        """Return it as a model is told."""
        numbered = [f"{at} {name}" for at, name in enumerate(self.columns[:_MAX_NAMED], start=1)]
        columns = ", ".join(numbered) + (", …" if len(self.columns) > _MAX_NAMED else "")
        first = f" below line 1, which names the columns {columns}" if self.columns else ""
        return f"table of {self.rows} rows{first}; {_SPELLED[self.separator]} divides columns"

    def in_full(self) -> str:
        """Return it with what its numbers are."""
        return "; ".join([str(self), *self.ranges])


def is_table(path: str) -> bool:
    """Tell whether a file calls itself a table."""
    return path.casefold().endswith(_ENDINGS)


async def read_table(sandbox: Sandbox, path: str) -> Table | None:
    """Return the table in a file; None if it is none that can be told about."""
    if not is_table(path):
        return None
    try:
        data, size = await sandbox.read_file(path, max_bytes=MAX_TABLE_BYTES)
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None  # reading it is the model's business, which then learns why it cannot be read
    return table_in(text) if size <= len(data) else None


def table_in(text: str) -> Table | None:
    """Return the table that a text is; None if it has no columns."""
    first = text.partition("\n")[0]
    separator = max(_SEPARATORS, key=first.count)
    if separator not in first:
        return None
    try:
        lines = [[cell.strip() for cell in line] for line in csv.reader(text.splitlines(), delimiter=separator) if line]
    except csv.Error:
        return None
    if not lines:
        return None
    named = _names_columns(lines[0], lines[1:])
    rows = lines[1:] if named else lines
    columns, numeric = tuple(lines[0]) if named else (), _numeric(rows)
    ranges = tuple(_range(columns, rows, number - 1) for number in numeric[:_MAX_RANGES]) if columns else ()
    return Table(separator, columns, len(rows), numeric, ranges)


def _range(columns: tuple[str, ...], rows: list[list[str]], at: int) -> str:
    """Return what is smallest and largest in a column: a small model that compares by itself is often wrong."""
    ordered = sorted(rows, key=lambda row: Decimal(row[at]))
    least, most = (f"{row[at]}{f' ({row[0]})' if at else ''}" for row in (ordered[0], ordered[-1]))
    name, total = columns[at], sum(Decimal(row[at]) for row in rows)
    return f"smallest {name}: {least}, largest {name}: {most}, sum: {total}"


def _numeric(rows: list[list[str]]) -> tuple[int, ...]:
    width = min(map(len, rows), default=0)
    return tuple(at + 1 for at in range(width) if all(_VALUE.fullmatch(row[at]) for row in rows))


def _names_columns(first: list[str], rows: list[list[str]]) -> bool:
    """Tell whether a line has only names, and the rows below it have values that no column would be called."""
    if len(set(first)) < len(first) or not all(map(_NAME.fullmatch, first)):
        return False
    if any(not _NAME.fullmatch(cell) for row in rows for cell in row):
        return True
    # Only words everywhere: names of columns are written small, and a column of names and places is not.
    columns = list(zip(*rows, strict=False))
    return all(map(str.islower, first)) and any(all(cell[:1].isupper() for cell in column) for column in columns)
