"""Says what a command has overlooked about the form of a table; nobody would notice that its number is off."""

from collections.abc import Iterator, Sequence

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.commands.invocation import Invocation
from agent_fabric.infrastructure.tools.table_shape import is_table, read_table


async def table_hint(sandbox: Sandbox, invocations: Sequence[Invocation]) -> str:
    """Return what to mind about the tables that a command has counted or cut; empty: nothing."""
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


def _counts(invocation: Invocation) -> bool:
    """Tell whether a command counts lines."""
    options = [word for word in invocation.words[1:] if word.startswith("-")]
    return invocation.name == "wc" or (invocation.name in {"grep", "egrep"} and any("c" in word for word in options))


def _needs_separator(invocation: Invocation) -> str:
    """Return what a command without a separator of its own takes for one; empty: it has one, or needs none."""
    match invocation.name:
        case "awk" | "gawk" | "mawk":
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
