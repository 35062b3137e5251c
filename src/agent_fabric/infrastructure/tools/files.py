"""The tools that read, write, edit and list the files of a run's workspace."""

import asyncio
import codecs
import re
from collections.abc import Mapping
from typing import Any

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.tools.program_files import can_be_run
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult, ToolSpec, object_schema
from agent_fabric.infrastructure.tools.workspace_diff import changed_lines

MAX_READ_BYTES = 256 * 1024
"""How much of a file one call returns."""
MAX_WRITE_BYTES = 10_000_000
"""How large a file one call may write."""
SHOWN_BEFORE = 1_000
"""Largest file whose former content is shown when it is replaced."""
MAX_LISTED = 500
"""How many names one call returns."""

READ_FILE = ToolSpec(
    name="read_file",
    description="Read a text file.",
    parameters=object_schema({"path": {"type": "string", "description": "Path in the workspace"}}, ["path"]),
    effect=Effect.READS,
    path_arguments=("path",),
)

WRITE_FILE = ToolSpec(
    name="write_file",
    description="Create a text file or replace its whole content.",
    parameters=object_schema(
        {"path": {"type": "string", "description": "Path in the workspace"}, "content": {"type": "string"}},
        ["path", "content"],
    ),
    effect=Effect.IDEMPOTENT,
    path_arguments=("path",),
)

LIST_FILES = ToolSpec(
    name="list_files",
    description="List the files and folders below a folder.",
    parameters=object_schema({"path": {"type": "string", "description": "Folder in the workspace", "default": "."}}),
    effect=Effect.READS,
    path_arguments=("path",),
)


@dataclass(frozen=True, slots=True)
class ReadFile:
    """Tool: return the text of a file, or say that it is not text."""

    sandbox: Sandbox
    max_bytes: int = MAX_READ_BYTES

    async def __call__(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:  # noqa: ARG002 - as every tool
        path = text_argument(args, "path")
        data, size = await self.sandbox.read_file(path, max_bytes=self.max_bytes)
        cut = size > len(data)
        content = _text(data, whole=not cut)
        if content is None:
            hint = "This is not UTF-8 text, so it cannot be shown."
            return ToolResult(output={"path": path, "binary": True, "size": size, "hint": hint})
        if not cut:
            return ToolResult(output={"path": path, "content": content, "size": size})
        hint = (
            f"Only the first {len(data)} of {size} bytes. See more with a shell command such as: sed -n 100,200p FILE"
        )
        return ToolResult(output={"path": path, "content": content, "size": size, "truncated": True, "hint": hint})


@dataclass(frozen=True, slots=True)
class WriteFile:
    """Tool: write a text file whole or not at all."""

    sandbox: Sandbox
    max_bytes: int = MAX_WRITE_BYTES

    async def __call__(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:  # noqa: ARG002 - as every tool
        """Write `content` to `path`, making its folders."""
        path, content = text_argument(args, "path"), text_argument(args, "content")
        try:
            data = content.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"'content' is not valid text at character {error.start}") from None
        if len(data) > self.max_bytes:
            raise ValueError(f"'content' is {len(data)} bytes; one call may write {self.max_bytes}")
        before = await read_whole(self.sandbox, path, max_bytes=max(SHOWN_BEFORE, len(data) + 1))
        if before == data or (before is not None and _same_program(path, before, data)):
            same = {"path": path, "bytes": len(data), "created": False, "unchanged": True, "hint": _WRITTEN_BACK}
            return ToolResult(output=same)
        created = await self.sandbox.write_file(path, data)
        output: dict[str, Any] = {"path": path, "bytes": len(data), "created": created}
        shown = _text(before, whole=True) if before and len(before) <= SHOWN_BEFORE else ""
        if not created and shown and shown.strip() != content.strip():
            # A model that has not looked before sees what was there; of a program, what was mended and what was not.
            mended = changed_lines(shown, content) if can_be_run(path) else ""
            output |= {"changed_lines": mended} if mended else {"replaced": shown}
            if gone := [name for name in _DEFINED.findall(shown) if name not in content]:
                output |= {"gone": gone, "replaced": shown}
        return ToolResult(output=output, changed=True, wrote=(path,))


def _same_program(path: str, before: bytes, after: bytes) -> bool:
    """Tell whether only empty lines differ, which mend no program; they stay as they were."""
    return can_be_run(path) and [*filter(bytes.strip, before.splitlines())] == [
        *filter(bytes.strip, after.splitlines())
    ]


_DEFINED = re.compile(r"^(?:async def|def|class) (\w+)", re.MULTILINE)
"""Functions and classes of Python; small models that add one tend to drop the others."""
_WRITTEN_BACK = "The file has this text already: nothing has changed."


@dataclass(frozen=True, slots=True)
class ListFiles:
    """Tool: name what lies below a folder."""

    sandbox: Sandbox
    max_entries: int = MAX_LISTED

    async def __call__(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:  # noqa: ARG002 - as every tool
        path = text_argument(args, "path") if "path" in args else "."
        files, more = await self.sandbox.list_files(path or ".", max_entries=self.max_entries)
        return ToolResult(output={"files": files, "truncated": True} if more else {"files": files})


async def read_whole(sandbox: Sandbox, path: str, *, max_bytes: int) -> bytes | None:
    """Return what is in a file; None when it is larger, gone, or cannot be read."""
    try:
        data, size = await sandbox.read_file(path, max_bytes=max_bytes)
    except OSError:
        return None
    return data if size <= len(data) else None


def text_argument(args: Mapping[str, Any], name: str) -> str:
    """Return an argument that must be text.

    Raises:
        ValueError: it is missing or something else.
    """
    value = args.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name!r} must be given, as text")  # noqa: TRY004 - the model's mistake, not the caller's
    return value


def _text(data: bytes, *, whole: bool) -> str | None:
    """Return the data as text, or None if it is none; a character cut in two at the end is left out."""
    if b"\0" in data:
        return None
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data, final=whole)
    except UnicodeDecodeError:
        return None


MAX_EDIT_BYTES = 5_000_000
"""Largest file that can be edited."""
_MAX_LINES_COMPARED = 5_000
_MAX_COMPARED_CHARS = 200
_MAX_PLACES = 10
_AROUND = 2

EDIT_FILE = ToolSpec(
    name="edit_file",
    description="Replace one exact piece of a text file. It must occur exactly once, unless replace_all is set.",
    parameters=object_schema(
        {
            "path": {"type": "string", "description": "Path in the workspace"},
            "old_text": {"type": "string", "description": "What is there, exactly, with its indentation"},
            "new_text": {"type": "string", "description": "The text to put there instead"},
            "replace_all": {"type": "boolean", "description": "Replace every occurrence", "default": False},
        },
        ["path", "old_text", "new_text"],
    ),
    effect=Effect.CHANGES_WORKSPACE,
    path_arguments=("path",),
)


@dataclass(frozen=True, slots=True)
class EditFile:
    """Tool: replace an exact piece of a file, keeping its mode and its line endings.

    What a model has not seen, it cannot hit by accident.
    """

    sandbox: Sandbox
    max_bytes: int = MAX_EDIT_BYTES

    async def __call__(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:  # noqa: ARG002 - as every tool
        path, old, new = (text_argument(args, name) for name in ("path", "old_text", "new_text"))
        data, size = await self.sandbox.read_file(path, max_bytes=self.max_bytes)
        if size > len(data):
            raise ValueError(f"{path!r} has {size} bytes; files of up to {self.max_bytes} can be edited")
        edited, lines, now = await asyncio.to_thread(_replace, data, old, new, bool(args.get("replace_all")))
        if len(edited) > MAX_WRITE_BYTES:
            raise ValueError(f"the file would have {len(edited)} bytes; one call may write {MAX_WRITE_BYTES}")
        await self.sandbox.write_file(path, edited)
        output: dict[str, Any] = {
            "path": path,
            "replaced": len(lines),
            "lines": lines[:_MAX_PLACES],
            "bytes": len(edited),
            "now": now,
        }
        return ToolResult(output=output, changed=True, wrote=(path,))


def _replace(data: bytes, old: str, new: str, every: bool) -> tuple[bytes, list[int], str]:
    """Return the data with the text replaced, the lines at which it was, and how the first of them look now."""
    if not old:
        raise ValueError("'old_text' is empty; say what to replace, or use write_file for a new file")
    try:
        text = data.decode()
        new.encode()
    except UnicodeDecodeError:
        raise ValueError("the file is not UTF-8 text, so it cannot be edited") from None
    except UnicodeEncodeError as error:
        raise ValueError(f"'new_text' is not valid text at character {error.start}") from None
    if "\0" in text:
        raise ValueError("the file is binary, so it cannot be edited")
    if "\r\n" in text and "\n" not in text.replace("\r\n", ""):
        old, new = _with_returns(old), _with_returns(new)
    count = text.count(old)
    if old == new:
        raise ValueError(
            f"'old_text' and 'new_text' are the same: nothing would change. {_lines_now(text, old, count)}"
        )
    if not count:
        raise ValueError(f"'old_text' does not occur in the file. {_nearest(text, old)}")
    lines = _lines_of(text, old, count if every else _MAX_PLACES)
    if count > 1 and not every:
        shown = ", ".join(map(str, lines)) + (", …" if count > len(lines) else "")
        raise ValueError(
            f"'old_text' occurs {count} times, at lines {shown}. Add lines around it until it is the only one, or set "
            "replace_all"
        )
    edited = text.replace(old, new)
    return edited.encode(), lines, _excerpt(edited.splitlines(), lines[0] - 1, new)


def _with_returns(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _lines_of(text: str, old: str, most: int) -> list[int]:
    lines: list[int] = []
    at, line, seen = text.find(old), 1, 0
    while at >= 0 and len(lines) < most:
        line += text.count("\n", seen, at)
        seen = at
        lines.append(line)
        at = text.find(old, at + len(old))
    return lines


def _lines_now(text: str, old: str, count: int) -> str:
    """Return the lines that were meant, so that the model can say what shall be there instead."""
    if not count:
        return f"Nor does it occur in the file. {_nearest(text, old)}"
    at = _lines_of(text, old, 1)[0]
    shown, first = _excerpt(text.splitlines(), at - 1, old), max(1, at - _AROUND)
    return f"Say in 'new_text' what shall be there instead. The lines as they are, from line {first}:\n{shown}"


def _excerpt(lines: list[str], at: int, old: str) -> str:
    first = max(0, at - _AROUND)
    last = at + max(len(old.splitlines()), 1) + _AROUND
    return "\n".join(line[:_MAX_COMPARED_CHARS] for line in lines[first : min(last, first + 40)])


def _nearest(text: str, old: str) -> str:
    """Return what the model may have meant, so that it need not read the whole file again."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for those who miss

    wanted = next((line.strip() for line in old.splitlines() if line.strip()), "")
    lines = text.splitlines()
    if not wanted or len(lines) > _MAX_LINES_COMPARED:
        return "Read the file, then copy the piece exactly"
    stripped = [line.strip()[:_MAX_COMPARED_CHARS] for line in lines]
    near = get_close_matches(wanted[:_MAX_COMPARED_CHARS], stripped, n=1, cutoff=0.6)
    if not near:
        return "Nothing like its first line is there. Read the file, then copy the piece exactly"
    at = stripped.index(near[0])
    shown = _excerpt(lines, at, old)
    return f"Spaces and every other character count. The nearest lines, from line {max(0, at - _AROUND) + 1}:\n{shown}"


def nearest_lines(text: str, wanted: str) -> str:
    """Say that a text is not there, and what may have been meant."""
    return f"{wanted!r} does not occur. {_nearest(text, wanted)}"
