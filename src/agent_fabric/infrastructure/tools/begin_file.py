"""The tool with which a small model begins a file: it names the file, sees what there is, and is asked for the text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.models.dialects.whole_files import BEGIN_FILE as NAME
from agent_fabric.domain.models.dialects.whole_files import BEGINS_FILE, FILES
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult, ToolSpec, object_schema
from agent_fabric.infrastructure.tools.files import text_argument
from agent_fabric.infrastructure.tools.table_shape import read_table

MAX_BYTES = 4_000
"""Largest file that is written anew, since all of it is an answer of a small model; and all others that are shown."""
_MAX_LISTED = 60
_BEGINNING = 240
"""Bytes that are shown of a file that is too large to be shown whole."""

BEGIN_FILE = ToolSpec(
    name=NAME,
    description="Write a file, new or again; you are asked for its text next.",
    parameters=object_schema({"path": {"type": "string", "description": "Path in the workspace"}}, ["path"]),
    effect=Effect.READS,
    path_arguments=("path",),
)


@dataclass(frozen=True, slots=True)
class BeginFile:
    """Tool: show a file and what lies beside it, so that its text can be written."""

    sandbox: Sandbox

    async def __call__(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:  # noqa: ARG002 - as every tool
        """Begin `path`.

        Raises:
            OSError: the workspace cannot be read; PermissionError: the path leads out of it.
            ValueError: an argument is wrong, or the file is no short text.
        """
        path = text_argument(args, "path").strip().removeprefix("./")
        if not path or path.endswith("/"):
            raise ValueError("'path' must name a file")
        files = await self._others(path)
        text = await self._text_of(path)
        if text is not None:
            files[path] = text  # last, so that it is fresh in mind
        return ToolResult(output={BEGINS_FILE: path, FILES: files})

    async def _text_of(self, path: str) -> str | None:
        """Return the text that is there; None: the file is new."""
        try:
            data, size = await self.sandbox.read_file(path, max_bytes=MAX_BYTES)
        except FileNotFoundError:
            return None
        if size > len(data):
            raise ValueError(
                f"{path} has {size} bytes, too many to write again. Change its lines: sed -i 's/old/new/' {path}"
            )
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise ValueError(f"{path} is not UTF-8 text") from None

    async def _others(self, path: str) -> dict[str, str]:
        """Return the other files that are text, whole if they are short, until there is enough to read."""
        names, _ = await self.sandbox.list_files(".", max_entries=_MAX_LISTED)
        shown: dict[str, str] = {}
        room = MAX_BYTES
        for name in names:
            if name.endswith("/") or name == path:
                continue
            try:
                data, size = await self.sandbox.read_file(name, max_bytes=MAX_BYTES // 2)
                text = data.decode() if size <= len(data) else data[:_BEGINNING].decode(errors="ignore") + "\n…"
            except (OSError, UnicodeDecodeError):
                continue  # gone in the meantime, not ours to read, or no text
            room -= len(text)
            if room < 0:
                break
            table = await read_table(self.sandbox, name)
            shown[name] = f"{text.rstrip()}\n({table.in_full()})" if table else text
        return shown
