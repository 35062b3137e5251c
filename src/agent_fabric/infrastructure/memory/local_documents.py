"""Reads documents of this machine that a person has named."""

import errno
import os
import stat
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

MAX_BYTES: Final = 50_000_000
_READING: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
"""Opening a named pipe does not wait for someone who writes to it."""


def read_local_document(path: Path) -> bytes:
    """Return the content of a file; of one that is too large, a byte more than allowed, so that its reader refuses it.

    Raises:
        OSError: it cannot be read, or is a device, a pipe or a socket, which may never end.
    """
    descriptor = os.open(path, _READING)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(MAX_BYTES + 1)
    finally:
        os.close(descriptor)


_TEXTS: Final = (
    ".md .markdown .txt .rst .adoc .org .tex .html .htm .xhtml .csv .tsv .json .jsonl .yaml .yml .toml .ini .cfg .conf"
    " .xml .sql .log .py .js .ts .jsx .tsx .java .kt .go .rs .c .h .cpp .hpp .cs .rb .php .sh .ps1 .swift .scala .lua"
    " .docx .pdf"
)
SUFFIXES: Final = frozenset(_TEXTS.split())
_LEFT_OUT: Final = frozenset({"node_modules", "__pycache__", "venv", "build", "dist", "target"})


class FolderFiles(NamedTuple):
    """What a folder holds."""

    files: Sequence[Path]
    """Documents, in their order."""
    skipped: str
    """What was left out, as people read it; empty: nothing."""


def files_in(folder: Path, *, most: int) -> FolderFiles:
    """Return the documents below a folder. Hidden files, links and what cannot be read are left out.

    Raises:
        ValueError: there are more than `most`.
    """
    files: list[Path] = []
    others: Counter[str] = Counter()
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if not each.startswith(".") and each not in _LEFT_OUT)
        for name in sorted(names):
            path = Path(place, name)
            if name.startswith(".") or path.is_symlink():
                others["hidden or a link"] += 1
            elif path.suffix.lower() not in SUFFIXES:
                others[path.suffix.lower() or "without a suffix"] += 1
            else:
                files.append(path)
        if len(files) > most:
            raise ValueError(f"There are more than {most:,} documents in {folder}")
    listed = ", ".join(f"{count} {kind}" for kind, count in others.most_common(6))
    return FolderFiles(files, listed)
