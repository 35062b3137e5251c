"""Reports which files of a small workspace a command changed, so that the model sees its effect."""

import re
from collections.abc import Mapping
from difflib import unified_diff

from agent_fabric.application.ports.sandbox import Sandbox

MAX_FILES = 40
"""In a larger workspace nothing is compared: looking would take longer than it is worth."""
COMPARED_BYTES = 4_096
"""From the start of each file."""
MAX_SHOWN = 5
SHOWN_BYTES = 200
LOST_BYTES = 1_000
"""Of a text that is shown when nothing of it is left."""

FOLDER = b"(folder)"

_LEFT_BEHIND = re.compile(r"(?:^|/)(?:__pycache__|\.pytest_cache|\.mypy_cache|\.ruff_cache)/")
"""Caches of programs, which are no result of a command."""

FileHeads = Mapping[str, bytes]
"""Files and how they begin."""


async def file_heads(sandbox: Sandbox) -> FileHeads | None:
    """Return how the files of a workspace begin; None when there are many, or none can be listed."""
    try:
        names, more = await sandbox.list_files(".", max_entries=MAX_FILES)
    except OSError:
        return None  # the command has removed the folder itself
    if more:
        return None
    picture: dict[str, bytes] = {}
    for name in names:
        if _LEFT_BEHIND.search(name):
            continue
        if name.endswith("/"):
            picture[name] = FOLDER
            continue
        try:
            data, size = await sandbox.read_file(name, max_bytes=COMPARED_BYTES)
        except OSError:
            continue  # gone already, or a link that leads out
        picture[name] = data + b"%d" % size if size > COMPARED_BYTES else data
    return picture


def written_files(before: FileHeads, after: FileHeads) -> tuple[str, ...]:
    """Return the files that are new or not as they were."""
    return tuple(sorted(name for name, data in after.items() if data != FOLDER and before.get(name) != data))


def difference(before: FileHeads, after: FileHeads) -> dict[str, str]:
    """Return what is not as it was: the lines that went and came, and how new files begin."""
    changed = {
        name: _changed_lines(before[name], data) if name in before else _beginning(data)
        for name, data in after.items()
        if before.get(name) != data
    }
    changed |= dict.fromkeys(before.keys() - after.keys(), "(deleted)")
    if len(changed) <= MAX_SHOWN:
        return dict(sorted(changed.items()))
    shown = dict(sorted(changed.items())[:MAX_SHOWN])
    return {**shown, "…": f"and {len(changed) - MAX_SHOWN} more"}


def lost_texts(command: str, before: FileHeads, after: FileHeads) -> dict[str, str]:
    """Return the short texts that `>` has replaced by others, no line of which is left: often `>>` was meant."""
    lost: dict[str, str] = {}
    for name, data in after.items():
        was = before.get(name, b"")
        lines = {line for line in was.splitlines() if line.strip()}
        short = bool(lines) and len(was) <= LOST_BYTES and FOLDER not in (was, data)
        if short and data.strip() and not lines & {*data.splitlines()} and _writes_to(command, name):
            lost[name] = was.decode(errors="replace")
    return lost


def _writes_to(command: str, name: str) -> bool:
    return re.search(rf"(?<!>)>\s*['\"]?(?:\./)?{re.escape(name)}(?![\w./-])", command) is not None


def _beginning(data: bytes) -> str:
    return begins(data[:SHOWN_BYTES], whole=len(data) <= SHOWN_BYTES)


def _changed_lines(before: bytes, after: bytes) -> str:
    """Return only what has changed: beside the rest, a model overlooks what it did not mean to change."""
    if not after or b"\0" in before + after or max(len(before), len(after)) > COMPARED_BYTES:
        return _beginning(after) or "(empty)"
    return changed_lines(*(data.decode(errors="replace") for data in (before, after)))


def changed_lines(before: str, after: str) -> str:
    """Return the lines that went, with a minus, and those that came, with a plus."""
    lines = [*unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")][2:]  # without the names
    shown = "\n".join(line for line in lines if not line.startswith("@@")) or "(only the end of the last line)"
    return shown if len(shown) <= 2 * SHOWN_BYTES else f"{shown[: 2 * SHOWN_BYTES]}…"


def begins(data: bytes, *, whole: bool) -> str:
    """Return the beginning of a file as text, with a mark where it goes on."""
    if b"\0" in data:
        return "(not text)"
    return data.decode(errors="replace") if whole else f"{data.decode(errors='ignore')}…"
