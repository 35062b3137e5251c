"""Subcommands and options of all commands, out of a table that `scripts/completion_table.py` writes.

Building a command takes hundreds of milliseconds, and a person waits for it at every press of a key. A line of the
table is a command; the lines behind it, indented, are its subcommands and options: names, marks and description.
"""

from collections.abc import Sequence
from typing import NamedTuple

PATH = f"{__file__.removesuffix('.py')}.txt"
TAKES_VALUE, REPEATABLE = "=", "+"


class Entry(NamedTuple):
    """A subcommand, or an option by all its names."""

    names: tuple[str, ...]
    marks: str
    text: str

    @property
    def is_option(self) -> bool:
        return self.names[0].startswith("-")


def offer_words(words: Sequence[str], typed: str) -> list[tuple[str, str]] | None:
    """Return the subcommands or options that begin with what is typed; None: something else belongs there."""
    table = read_table()
    start = next((number for number, word in enumerate(words) if word in table), None)
    if start is None or "--" in words or "=" in typed:
        return None
    path, given, awaits_value = words[start], set[str](), False
    for word in words[start + 1 :]:
        if awaits_value:
            awaits_value = False
        elif word.startswith("-"):
            name, has_value, _ = word.partition("=")
            given.add(name)
            awaits_value = not has_value and any(
                TAKES_VALUE in each.marks for each in table[path] if name in each.names
            )
        elif f"{path} {word}" in table:
            path, given = f"{path} {word}", set()
        elif any(not each.is_option for each in table[path]):
            return None  # no subcommand has this name
    wanted = [each for each in table[path] if each.is_option is typed.startswith("-")]
    if awaits_value or not wanted:
        return None
    fresh = [each for each in wanted if REPEATABLE in each.marks or given.isdisjoint(each.names)]
    return [(name, each.text) for each in fresh for name in each.names if name.startswith(typed)]


def read_table() -> dict[str, list[Entry]]:
    """Return what may follow each command."""
    table: dict[str, list[Entry]] = {}
    entries: list[Entry] = []
    with open(PATH, encoding="utf-8") as file:  # noqa: PTH123 - pathlib takes its time
        for line in file:
            if line.startswith(" "):
                names, marks, text = line[1:-1].split("\t")
                entries.append(Entry(tuple(names.split()), marks, text))
            else:
                entries = table[line[:-1]] = []
    return table
