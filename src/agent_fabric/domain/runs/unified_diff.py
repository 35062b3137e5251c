"""Unified diffs as git writes them, so that `git apply` and `patch` understand them. Files are bytes."""

import difflib
from typing import NamedTuple

from agent_fabric.domain.runs.changes import Entry, EntryKind, FileChange

MAX_BYTES = 1_000_000
"""Larger files are only named."""
_MAX_COMPARED = 3_000
"""Lines on each side that are compared one by one; of more, all are shown as replaced."""
_CONTEXT = 3
_ESCAPES = {ord("\n"): "\\n", ord("\t"): "\\t", ord("\r"): "\\r", ord('"'): '\\"', ord("\\"): "\\\\"}


class FileDiff(NamedTuple):
    """How one path changed, for people and programs."""

    text: bytes
    """The diff; ends with a new line."""
    added: int
    removed: int
    binary: bool
    """The content is not shown: it is no text, too large, or not known any more."""


def file_diff(change: FileChange, before: bytes | None, after: bytes | None) -> FileDiff:
    """Return a change as a diff; the contents are None where there was no file, or it is not known any more."""
    if change.what == "replaced":
        gone = file_diff(FileChange(path=change.path, before=change.before, after=None), before, None)
        come = file_diff(FileChange(path=change.path, before=None, after=change.after), None, after)
        binary = gone.binary or come.binary
        return FileDiff(gone.text + come.text, gone.added + come.added, gone.removed + come.removed, binary)
    if (note := _note(change)) is not None:
        return FileDiff(note, 0, 0, binary=False)
    head = _head(change)
    was, is_ = _visible_content(change.before, before), _visible_content(change.after, after)
    if was is None or is_ is None or b"\0" in was or b"\0" in is_ or max(len(was), len(is_)) > MAX_BYTES:
        if change.what == "mode":
            return FileDiff(head, 0, 0, binary=False)
        names = f"{_name('a', change.before, change.path)} and {_name('b', change.after, change.path)}"
        return FileDiff(head + f"Binary files {names} differ\n".encode(), 0, 0, binary=True)
    if was == is_:
        return FileDiff(head, 0, 0, binary=False)
    body, added, removed = _hunks(_lines(was), _lines(is_))
    names = f"--- {_name('a', change.before, change.path)}\n+++ {_name('b', change.after, change.path)}\n"
    return FileDiff(head + names.encode() + body, added, removed, binary=False)


def quote_path(path: str) -> str:
    """Return a path as git writes it: quoted where a character would break the line or is no text."""
    raw = path.encode(errors="surrogateescape")
    plain = all(0x20 <= byte < 0x7F and byte not in (0x22, 0x5C) for byte in raw)
    if plain or (path.isprintable() and not set(path) & {'"', "\\"}):
        return path
    return '"' + "".join(map(_escape, raw)) + '"'


def _escape(byte: int) -> str:
    return _ESCAPES.get(byte) or (chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}")


def _note(change: FileChange) -> bytes | None:
    """Return a sentence about what diffs do not know: folders, pipes. Programs that read diffs skip it."""
    entry = change.after or change.before
    if entry is None or entry.kind in (EntryKind.FILE, EntryKind.LINK):
        return None
    kind = "Folder" if entry.kind in (EntryKind.FOLDER, EntryKind.UNWATCHED) else "Special file"
    modes = " to ".join(f"{one.mode:04o}" for one in (change.before, change.after) if one is not None)
    return f"{kind} {quote_path(change.path)}: {change.what} ({modes})\n".encode()


def _head(change: FileChange) -> bytes:
    lines = [f"diff --git {_quote_side('a', change.path)} {_quote_side('b', change.path)}"]
    if change.before is None and change.after is not None:
        lines.append(f"new file mode {_mode(change.after)}")
    elif change.after is None and change.before is not None:
        lines.append(f"deleted file mode {_mode(change.before)}")
    elif change.before is not None and change.after is not None and _mode(change.before) != _mode(change.after):
        lines += [f"old mode {_mode(change.before)}", f"new mode {_mode(change.after)}"]
    return ("\n".join(lines) + "\n").encode()


def _mode(entry: Entry) -> str:
    kinds = {EntryKind.FILE: "100", EntryKind.LINK: "120", EntryKind.OTHER: "000"}
    kind = kinds.get(entry.kind, "040")
    return f"{kind}{0 if entry.kind is EntryKind.LINK else entry.mode & 0o777:03o}"


def _name(side: str, entry: Entry | None, path: str) -> str:
    return "/dev/null" if entry is None else _quote_side(side, path)


def _quote_side(side: str, path: str) -> str:
    return quote_path(f"{side}/{path}")


def _visible_content(entry: Entry | None, content: bytes | None) -> bytes | None:
    if entry is None or entry.kind in (EntryKind.FOLDER, EntryKind.OTHER, EntryKind.UNWATCHED):
        return b""
    return entry.digest.encode(errors="surrogateescape") if entry.kind is EntryKind.LINK else content


def _lines(data: bytes) -> list[bytes]:
    """Split at new lines only, as diffs do; the last line may lack one."""
    lines = data.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


def _hunks(old: list[bytes], new: list[bytes]) -> tuple[bytes, int, int]:
    out: list[bytes] = []
    added = removed = 0
    for group in _groups(old, new):
        first, last = group[0], group[-1]
        out.append(b"@@ -%s +%s @@\n" % (_range(first[1], last[2]), _range(first[3], last[4])))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                out += (_mark_line(b" ", line) for line in old[i1:i2])
                continue
            out += (_mark_line(b"-", line) for line in old[i1:i2])
            out += (_mark_line(b"+", line) for line in new[j1:j2])
            removed += i2 - i1
            added += j2 - j1
    return b"".join(out), added, removed


_Step = tuple[str, int, int, int, int]
"""What is done with a stretch of lines: its name, the stretch before and the stretch after, as difflib has it."""


def _groups(old: list[bytes], new: list[bytes]) -> list[list[_Step]]:
    """Return what changed, in groups with some lines around that did not.

    Only what lies between the common beginning and the common end is compared. The lines around come from those: were
    they compared too, repeated lines could be matched in another way, and a group would end without any.
    """
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    old_end, new_end = len(old) - end, len(new) - end
    steps = [
        ("equal", 0, start, 0, start),
        *_compare(old, new, start, old_end, new_end),
        ("equal", old_end, len(old), new_end, len(new)),
    ]
    return _group([step for step in steps if step[1] != step[2] or step[3] != step[4]])


def _compare(old: list[bytes], new: list[bytes], start: int, old_end: int, new_end: int) -> list[_Step]:
    if max(old_end, new_end) - start > _MAX_COMPARED:
        return [("replace", start, old_end, start, new_end)]
    matcher = difflib.SequenceMatcher(None, old[start:old_end], new[start:new_end])
    return [(tag, i1 + start, i2 + start, j1 + start, j2 + start) for tag, i1, i2, j1, j2 in matcher.get_opcodes()]


def _group(steps: list[_Step]) -> list[list[_Step]]:
    """Split where many lines in a row are equal, and keep a few of them on either side."""
    groups: list[list[_Step]] = [[]]
    for number, (tag, i1, i2, j1, j2) in enumerate(steps):
        if tag != "equal":
            groups[-1].append((tag, i1, i2, j1, j2))
            continue
        before = min(_CONTEXT, i2 - i1) if number else 0
        after = min(_CONTEXT, i2 - i1) if number < len(steps) - 1 else 0
        if before + after >= i2 - i1:
            groups[-1].append((tag, i1, i2, j1, j2))
            continue
        if before:
            groups[-1].append((tag, i1, i1 + before, j1, j1 + before))
        if after:
            groups.append([(tag, i2 - after, i2, j2 - after, j2)])
    return [group for group in groups if any(step[0] != "equal" for step in group)]


def _range(start: int, stop: int) -> bytes:
    length = stop - start
    if length == 1:
        return b"%d" % (start + 1)
    return b"%d,%d" % (start + 1 if length else start, length)


def _mark_line(mark: bytes, line: bytes) -> bytes:
    return mark + line if line.endswith(b"\n") else mark + line + b"\n\\ No newline at end of file\n"
