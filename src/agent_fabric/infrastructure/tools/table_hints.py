"""Says what a command has overlooked about the form of a table; nobody would notice that its number is off."""

import re
import shlex
from collections.abc import Iterator, Sequence

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.policy.command_lines.invocation import Invocation
from agent_fabric.infrastructure.tools.table_shape import is_table, read_table

_MAX_COUNT_BYTES = 200
_AWKS = frozenset({"awk", "gawk", "mawk"})
_ADDS = re.compile(r"\+=\s*\$(\d{1,3})(?!\d)")
_NUMBER = re.compile(r"(?<![\d.])\d+(?![\d.])")


async def table_hint(
    sandbox: Sandbox, invocations: Sequence[Invocation], printed: str = "", wrote: Sequence[str] = ()
) -> str:
    """Return what to mind about the tables that a command has counted or cut; empty: nothing.

    `printed` is what the command has printed, `wrote` the files that it has written: what was counted stands in one.
    """
    if any(map(_counts, invocations)):
        for path in dict.fromkeys(name for each in invocations for name in _tables_of(each)):
            if off := await _one_too_many(sandbox, path, printed, wrote):
                return off
    for each in invocations:
        if wrong := await _column_without_numbers(sandbox, each):
            return wrong
    hints = []
    for each in invocations:
        counts, divides = _counts(each), _needs_separator(each)
        for path in _tables_of(each) if counts or divides else ():
            table = await read_table(sandbox, path)
            if table is None:
                continue
            if (counts and table.columns) or (divides and table.separator != divides):
                hints.append(f"{path} is a {table}.")
    return " ".join(dict.fromkeys(hints))


async def _one_too_many(sandbox: Sandbox, path: str, printed: str, wrote: Sequence[str]) -> str:
    """Say that the line with the names of the columns was counted, too, and how to put it right; empty: it was not.

    A model that is told only how many rows there are counts the lines again; a command it runs.
    """
    table = await read_table(sandbox, path)
    if table is None or not table.columns:
        return ""
    counted, said = f"{table.rows + 1}", f"there are {table.rows} rows."
    why = f"counts line 1 of {path}, too, which only names the columns: {said}"
    for name in wrote:
        try:
            data, _ = await sandbox.read_file(name, max_bytes=_MAX_COUNT_BYTES)
        except OSError:
            continue  # gone in the meantime
        if counted in _NUMBER.findall(data.decode(errors="replace")):
            return f"{counted} in {name} {why} Unless the task counts lines, run: echo {table.rows} > {name}"
    if counted not in _NUMBER.findall(printed):
        return ""
    return f"{counted} {why} Unless the task counts lines, write {table.rows}, not {counted}."


async def _column_without_numbers(sandbox: Sandbox, invocation: Invocation) -> str:
    """Say that a column was added up which has no numbers, and which has some; empty: it has, or nothing was added."""
    if invocation.name not in _AWKS:
        return ""
    program = next((word for word in invocation.words[1:] if _ADDS.search(word)), "")
    tables = list(_tables_of(invocation))
    table = await read_table(sandbox, tables[0]) if program and len(tables) == 1 else None
    if table is None or not table.numeric or not table.columns:
        return ""
    added = int(_ADDS.findall(program)[0])
    if added in table.numeric or not 1 <= added <= len(table.columns):
        return ""
    wrong = f"Column {added} of {tables[0]}, {table.columns[added - 1]}, has no numbers."
    named = ", ".join(f"{at} {table.columns[at - 1]}" for at in table.numeric)
    if len(table.numeric) > 1:
        return f"{wrong} These columns have: {named}."
    right = _ADDS.sub(lambda found: found[0].replace(f"${added}", f"${table.numeric[0]}"), program)
    words = [right if word == program else word for word in invocation.words]
    target = "".join(f" {each.operator} {shlex.quote(each.target)}" for each in invocation.redirects)
    return f"{wrong} Column {named} has. Unless the task wants another one, run: {shlex.join(words)}{target}"


def _counts(invocation: Invocation) -> bool:
    """Tell whether a command counts lines."""
    options = [word for word in invocation.words[1:] if word.startswith("-")]
    return invocation.name == "wc" or (invocation.name in {"grep", "egrep"} and any("c" in word for word in options))


def _needs_separator(invocation: Invocation) -> str:
    """Return what a command without a separator of its own takes for one; empty: it has one, or needs none."""
    match invocation.name:
        case name if name in _AWKS:
            given = any(word.startswith(("-F", "--field-separator", "-v")) or "FS" in word for word in invocation.words)
            return "" if given else " "
        case "cut":
            given = any(word.startswith(("-d", "--delimiter", "-c", "-b")) for word in invocation.words)
            return "" if given else "\t"
        case _:
            return ""


def _tables_of(invocation: Invocation) -> Iterator[str]:
    yield from (word for word in invocation.words[1:] if is_table(word))
    yield from (each.target for each in invocation.redirects if each.operator == "<" and is_table(each.target))
