"""The tool that finds text in the files of a workspace, with expressions that cannot be made to hang."""

import asyncio
import time
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult, ToolSpec, object_schema
from agent_fabric.infrastructure.tools.files import text_argument

MAX_MATCHES = 100
MAX_NAMES = 50_000
"""Files and folders of the workspace that are looked at."""
MAX_FILE_BYTES = 2_000_000
"""Larger files are left out."""
MAX_TOTAL_BYTES = 300_000_000
MAX_SECONDS = 20.0
_MAX_PATTERN_CHARS = 1_000
_SHOWN_CHARS = 200
_MAX_MEMORY_BYTES = 4 << 20
_LARGE_BYTES = 64 * 1024
"""What is searched on a thread; less is done before a thread has begun."""

SEARCH_FILES = ToolSpec(
    name="search_files",
    description="Find lines in the files of the workspace. Folders such as .git and node_modules are left out.",
    parameters=object_schema(
        {
            "pattern": {"type": "string", "description": "The text to find"},
            "regex": {"type": "boolean", "description": "The pattern is a regular expression (RE2)", "default": False},
            "ignore_case": {"type": "boolean", "default": False},
            "path": {"type": "string", "description": "Folder or file to search", "default": "."},
            "glob": {"type": "string", "description": "Only files with such names, for example *.py or src/**/*.ts"},
        },
        ["pattern"],
    ),
    effect=Effect.READS,
    path_arguments=("path",),
)

Finder = Callable[[bytes, int], int]
"""Returns where the pattern is found from a position on; negative if it is not."""


@dataclass(frozen=True, slots=True)
class SearchFiles:
    """Tool: name the lines that hold a text or match an expression."""

    sandbox: Sandbox
    max_matches: int = MAX_MATCHES
    max_file_bytes: int = MAX_FILE_BYTES
    max_total_bytes: int = MAX_TOTAL_BYTES
    max_seconds: float = MAX_SECONDS

    async def __call__(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        find = _finder(
            text_argument(args, "pattern"), regex=bool(args.get("regex")), ignore_case=bool(args.get("ignore_case"))
        )
        path = (text_argument(args, "path") if "path" in args else ".") or "."
        glob = text_argument(args, "glob") if args.get("glob") else ""
        deadline = time.monotonic() + min(self.max_seconds, context.timeout_s)
        names, more = await self._names(path, glob)
        found: list[str] = []
        left_out = total = searched = 0
        stopped = "there are too many files" if more else ""
        for name in names:
            if time.monotonic() > deadline or total > self.max_total_bytes:
                stopped = "it took too long" if total <= self.max_total_bytes else "there is too much to read"
                break
            try:
                data, size = await self.sandbox.read_file(name, max_bytes=self.max_file_bytes)
            except OSError:
                left_out += 1  # gone meanwhile, a pipe, or a link that leads out
                continue
            total += len(data)
            if size > len(data) or b"\0" in data[:8192]:
                left_out += 1
                continue
            searched += 1
            room = self.max_matches - len(found)
            if size > _LARGE_BYTES:
                found += await asyncio.to_thread(_matches, name, data, find, room)
            else:
                found += _matches(name, data, find, room)
            if len(found) >= self.max_matches:
                stopped = f"only the first {self.max_matches} are shown"
                break
        output: dict[str, Any] = {"matches": found, "files_searched": searched}
        if left_out:
            output["files_left_out"] = left_out
        if stopped:
            output |= {"truncated": True, "hint": f"Not all was searched: {stopped}. Search a folder, or use glob."}
        return ToolResult(output=output)

    async def _names(self, path: str, glob: str) -> tuple[list[str], bool]:
        try:
            names, more = await self.sandbox.list_files(path, max_entries=MAX_NAMES)
        except NotADirectoryError:
            return [path], False
        return [name for name in names if not name.endswith("/") and _fits(name, glob)], more


def _finder(pattern: str, *, regex: bool, ignore_case: bool) -> Finder:
    if not pattern:
        raise ValueError("'pattern' is empty; say what to find, or use list_files for the names")
    if len(pattern) > _MAX_PATTERN_CHARS:
        raise ValueError(f"'pattern' is longer than {_MAX_PATTERN_CHARS} characters")
    try:
        needle = pattern.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"'pattern' is not valid text at character {error.start}") from None
    if not regex and not ignore_case:
        return lambda data, at: data.find(needle, at)
    import re2  # type: ignore[import-untyped]  # it has no types  # noqa: PLC0415 - few runs need it

    options = re2.Options()
    options.max_mem = _MAX_MEMORY_BYTES
    options.log_errors = False
    options.never_nl = False
    options.case_sensitive = not ignore_case
    options.literal = not regex
    try:
        compiled = re2.compile(b"(?m)" + needle if regex else needle, options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else error
        raise ValueError(
            f"'pattern' is no regular expression that can be used: {reason}. Look-around and back references are not "
            "known; leave out 'regex' to find the text as it is"
        ) from None

    def find(data: bytes, at: int) -> int:
        match = compiled.search(data, at)
        return -1 if match is None else int(match.start())

    return find


def _matches(name: str, data: bytes, find: Finder, room: int) -> list[str]:
    """Return the lines in which something is found, each once."""
    found: list[str] = []
    line, counted, at = 1, 0, 0
    while len(found) < room and at <= len(data) and (at := find(data, at)) >= 0:
        line += data.count(b"\n", counted, at)
        counted = at
        start, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
        end = len(data) if end < 0 else end
        found.append(f"{name}:{line}: {_render(data[start:end], at - start)}")
        at = end + 1
    return found


def _render(line: bytes, at: int) -> str:
    """Return a line as text; of a long one, what is around the match."""
    first = max(0, at - _SHOWN_CHARS // 2) if len(line) > _SHOWN_CHARS else 0
    text = line[first : first + _SHOWN_CHARS].decode(errors="replace").rstrip("\r")
    return f"{'…' if first else ''}{text}{'…' if first + _SHOWN_CHARS < len(line) else ''}"


def _fits(name: str, glob: str) -> bool:
    """Tell whether a name fits; a pattern without a slash is about the last name only."""
    if not glob:
        return True
    if "/" not in glob:
        return fnmatchcase(name.rsplit("/", 1)[-1], glob)
    return fnmatchcase(name, glob) or fnmatchcase(name, glob.replace("**/", ""))
