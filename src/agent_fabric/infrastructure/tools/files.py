"""The tools that read, write and list the files of a run's workspace."""

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_fabric.application.ports.sandbox import Sandbox
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
        {
            "path": {"type": "string", "description": "Path in the workspace"},
            "content": {"type": "string"},
        },
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
        before = await self._before(path, max(SHOWN_BEFORE, len(data) + 1))
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

    async def _before(self, path: str, max_bytes: int) -> bytes | None:
        """Return what is in the file already; None when it is larger, or not there."""
        try:
            data, size = await self.sandbox.read_file(path, max_bytes=max_bytes)
        except OSError:
            return None
        return data if size <= len(data) else None


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
