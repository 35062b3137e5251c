"""Files in which a project says something to all agents that work on it, at each level of its folders."""

import posixpath
from collections.abc import Iterable, Iterator
from typing import Final

NOTES_AT_TOP: Final = ("AGENTS.md", "CLAUDE.md", ".github/copilot-instructions.md")
"""At the top of a project the first of these that is there counts."""
NOTES_BELOW: Final = NOTES_AT_TOP[:2]
"""The same for a folder below."""


def folders_above(path: str) -> Iterator[str]:
    """Yield the folders below the top of a project on the way to a path in it; the path last, which may be one.

    `path` is relative to the project; one that leads out of it has none.
    """
    plain = posixpath.normpath(path)
    if plain == "." or plain.startswith(("/", "../")) or plain == "..":
        return
    names = plain.split("/")
    for count in range(1, len(names) + 1):
        yield "/".join(names[:count])


def notes_about(paths: Iterable[str]) -> list[str]:
    """Return the files that may hold notes about these paths, but for those at the top of the project."""
    folders = dict.fromkeys(folder for path in paths for folder in folders_above(path))
    return [f"{folder}/{name}" for folder in folders for name in NOTES_BELOW]
