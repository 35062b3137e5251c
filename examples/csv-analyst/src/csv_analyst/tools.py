"""Tools that calculate, so that the model does not have to."""

import csv
import io
import math
from collections import Counter
from typing import Annotated, Any

from agent_fabric.extend import BlockingSandbox, Effect, tool

MAX_BYTES = 20_000_000
MAX_FREQUENT = 3
MORE = "(more)"
"""Where a row keeps values that have no column."""

CsvPath = Annotated[str, "A CSV file in the workspace, with names in its first row."]


@tool(effect=Effect.READS)
def profile_csv(sandbox: BlockingSandbox, path: CsvPath) -> dict[str, Any]:
    """Describe every column of a CSV file: how many values are missing, and their range or the most frequent ones."""
    rows = _rows(sandbox, path)
    names = list(rows[0]) if rows else []
    return {"rows": len(rows), "columns": {name: _profile([row[name] for row in rows]) for name in names}}


@tool(effect=Effect.READS)
def total_by(
    sandbox: BlockingSandbox,
    path: CsvPath,
    group: Annotated[str, "The column that names the groups."],
    value: Annotated[str, "The column with the numbers to add up."],
) -> dict[str, Any]:
    """Add up one column of a CSV file for each value of another; the largest total comes first."""
    totals: dict[str, float] = {}
    for number, row in enumerate(_rows(sandbox, path), start=1):
        if group not in row or value not in row:
            raise ValueError(f"the columns are: {', '.join(row)}")
        amount = _number(row[value])
        if amount is None:
            raise ValueError(f"row {number}: {row[value]!r} is not a number")
        totals[row[group]] = totals.get(row[group], 0.0) + amount
    return {"totals": dict(sorted(totals.items(), key=lambda item: item[1], reverse=True))}


def _rows(sandbox: BlockingSandbox, path: str) -> list[dict[str, str]]:
    data, size = sandbox.read_file(path, max_bytes=MAX_BYTES)
    if size > MAX_BYTES:
        raise ValueError(f"{path} has {size} bytes; at most {MAX_BYTES} are read")
    rows = list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""), restkey=MORE, restval=""))
    too_long = [number for number, row in enumerate(rows, start=1) if MORE in row]
    if too_long:
        raise ValueError(f"row {too_long[0]} has more values than there are columns")
    return rows


def _profile(values: list[str]) -> dict[str, Any]:
    present = [value for value in values if value.strip()]
    profile: dict[str, Any] = {"missing": len(values) - len(present), "distinct": len(set(present))}
    numbers = [number for value in present if (number := _number(value)) is not None]
    if numbers and len(numbers) == len(present):
        return {**profile, "smallest": min(numbers), "largest": max(numbers), "mean": sum(numbers) / len(numbers)}
    return {**profile, "most_frequent": dict(Counter(present).most_common(MAX_FREQUENT))}


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
