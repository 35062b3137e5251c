"""The tools of small models: look around, name a file and write it in an answer of its own, mend a line by its number.

`fix_line`: asked for a whole program, they copy its mistake with the rest.
"""

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.models.dialects.whole_files import BEGIN_FILE as NAME
from agent_fabric.domain.models.dialects.whole_files import BEGINS_FILE, FILES
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult, ToolSpec, object_schema
from agent_fabric.infrastructure.tools.files import text_argument
from agent_fabric.infrastructure.tools.table_shape import read_table
from agent_fabric.infrastructure.tools.workspace_diff import begins

SHOWN_BYTES = 240
"""Of a file whose beginning is shown."""
MAX_NAMED = 60
MAX_OPENED = 8
"""Files whose beginning is shown; the others are only named."""

WORKSPACE_OVERVIEW = ToolSpec(
    name="look",
    description="Show which files there are and how they begin.",
    parameters=object_schema({}),
    effect=Effect.READS,
)


@dataclass(frozen=True, slots=True)
class WorkspaceOverview:
    """Tool: name the files of the workspace and show how the first ones begin."""

    sandbox: Sandbox

    async def __call__(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:  # noqa: ARG002 - as every tool
        names, more = await self.sandbox.list_files(".", max_entries=MAX_NAMED)
        shown: dict[str, str] = {}
        for name in names:
            opened = len(shown) < MAX_OPENED and not name.endswith("/")
            shown[name] = await self._beginning(name) if opened else ""
        if not shown:
            return ToolResult(output={"files": "(none: the folder is empty)"})
        return ToolResult(output={"files": shown, "truncated": True} if more else {"files": shown})

    async def _beginning(self, name: str) -> str:
        try:
            data, size = await self.sandbox.read_file(name, max_bytes=SHOWN_BYTES)
        except OSError as problem:
            return f"({problem.strerror or 'cannot be read'})"
        shown = begins(data, whole=size <= len(data))
        table = await read_table(self.sandbox, name)
        return f"({table.in_full()})\n{shown}" if table else shown


MAX_BYTES = 4_000
"""Largest file that is written anew, since all of it is an answer of a small model; and all others that are shown."""

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
        names, _ = await self.sandbox.list_files(".", max_entries=MAX_NAMED)
        shown: dict[str, str] = {}
        room = MAX_BYTES
        for name in names:
            if name.endswith("/") or name == path:
                continue
            try:
                data, size = await self.sandbox.read_file(name, max_bytes=MAX_BYTES // 2)
                text = data.decode() if size <= len(data) else data[:SHOWN_BYTES].decode(errors="ignore") + "\n…"
            except (OSError, UnicodeDecodeError):
                continue  # gone in the meantime, not ours to read, or no text
            room -= len(text)
            if room < 0:
                break
            table = await read_table(self.sandbox, name)
            shown[name] = f"{text.rstrip()}\n({table.in_full()})" if table else text
        return shown


_MAX_EDITED_BYTES = 256 * 1024
"""Largest file that is edited by lines."""
_MAX_COMPARED = 500
"""Lines that are compared with the new one, and characters of each."""
_ALIKE, _UNLIKE = 0.6, 0.4
_AROUND = 2
_MAX_SHOWN = 40

FIX_LINE = ToolSpec(
    name="fix_line",
    description="Replace one line of a file.",
    parameters=object_schema(
        {
            "path": {"type": "string", "description": "Path in the workspace"},
            "line": {"type": "integer", "description": "Number of the line, from 1"},
            "new": {"type": "string", "description": "What the line shall be"},
        },
        ["path", "line", "new"],
    ),
    effect=Effect.CHANGES_WORKSPACE,
    path_arguments=("path",),
)


@dataclass(frozen=True, slots=True)
class FixLine:
    """Tool: replace one line by another one, or by several."""

    sandbox: Sandbox

    async def __call__(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:  # noqa: ARG002 - as every tool
        """Replace `line` of `path` by `new`; another line if that one is surely meant, which the result says."""
        path, new, number = text_argument(args, "path"), text_argument(args, "new"), args.get("line")
        if not isinstance(number, int) or isinstance(number, bool):
            raise ValueError("'line' must be given, as a number")  # noqa: TRY004 - the model's mistake, not the caller's
        data, size = await self.sandbox.read_file(path, max_bytes=_MAX_EDITED_BYTES)
        if size > len(data):
            raise ValueError(f"{path} has {size} bytes; at most {_MAX_EDITED_BYTES} can be edited by lines")
        try:
            text = data.decode()
            if "\0" in text:
                raise ValueError(f"{path} is binary, so it cannot be edited")
            returns = "\r\n" in text and "\n" not in text.replace("\r\n", "")
            ending = "\r\n" if returns else "\n"
            # Not splitlines: what else that splits at would become the end of a line.
            lines = text.removesuffix(ending).split(ending) if text else []
            number = _intended_line(lines, number, new) or number
            edited = _replace_line(lines, number, new, path)
            written = (ending.join(edited) + (ending if text.endswith(ending) else "")).encode()
        except UnicodeDecodeError:
            raise ValueError(f"{path} is not UTF-8 text") from None
        except UnicodeEncodeError as error:
            raise ValueError(f"'new' is not valid text at character {error.start}") from None
        await self.sandbox.write_file(path, written)
        output = {"path": path, "line": number, "was": lines[number - 1], "now": _around(edited, number)}
        return ToolResult(output=output, changed=True, wrote=(path,))


def number_lines(lines: Sequence[str], first: int = 1) -> str:
    """Return the lines that are not empty with their numbers, as a model is shown them."""
    shown = [f"{at}: {line}" for at, line in enumerate(lines[:_MAX_SHOWN], start=first) if line.strip()]
    return "\n".join([*shown, "…"] if len(lines) > _MAX_SHOWN else shown)


def _replace_line(lines: Sequence[str], number: int, text: str, path: str) -> list[str]:
    if not 1 <= number <= len(lines):
        raise ValueError(f"{path} has {len(lines)} lines:\n{number_lines(lines)}")
    old = lines[number - 1]
    new = text.rstrip().splitlines() or [""]
    if new[0] and not new[0][0].isspace():  # small models forget how far a line is indented
        indent = old[: len(old) - len(old.lstrip())]
        new = [f"{indent}{line}" if line else line for line in new]
    if not old.strip() and number < len(lines):
        raise ValueError(f"line {number} of {path} is empty. Name the line that is wrong:\n{number_lines(lines)}")
    if [line.strip() for line in new] == [old.strip()]:
        raise ValueError(f"line {number} of {path} is that already: nothing would change. Write it differently")
    return [*lines[: number - 1], *new, *lines[number:]]


def _intended_line(lines: Sequence[str], number: int, text: str) -> int:
    """Return the line that a text is surely meant for, if it is not the one named; 0: the one named.

    Small models write the right text, and miscount; told the right number, they name the wrong one again.
    """
    new = next(iter(text.splitlines()), "")
    if not 1 <= number <= len(lines) or len(lines) > _MAX_COMPARED or not new.strip():
        return 0
    if _likeness(lines[number - 1], new) >= _UNLIKE:
        return 0
    best = max(range(len(lines)), key=lambda at: _likeness(lines[at], new))
    return best + 1 if best != number - 1 and _likeness(lines[best], new) >= _ALIKE else 0


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, one.strip()[:_MAX_COMPARED], other.strip()[:_MAX_COMPARED]).ratio()


def _around(lines: Sequence[str], number: int) -> str:
    first = max(1, number - _AROUND)
    return number_lines(lines[first - 1 : number + _AROUND], first)
