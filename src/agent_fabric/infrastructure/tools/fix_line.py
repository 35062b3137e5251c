"""The tool that replaces one line, for small models: asked for a whole program, they copy its mistake with the rest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult, ToolSpec, object_schema
from agent_fabric.infrastructure.tools.files import text_argument
from agent_fabric.infrastructure.tools.syntax import broken_files

MAX_BYTES = 256 * 1024
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
        """Replace `line` of `path` by `new`; another line if that one is surely meant, which the result says.

        Raises:
            OSError: the file cannot be read or written; PermissionError: the path leads out of the workspace.
            ValueError: an argument is wrong, or nothing would change.
        """
        path, new, number = text_argument(args, "path"), text_argument(args, "new"), args.get("line")
        if not isinstance(number, int) or isinstance(number, bool):
            raise ValueError("'line' must be given, as a number")  # noqa: TRY004 - the model's mistake, not the caller's
        data, size = await self.sandbox.read_file(path, max_bytes=MAX_BYTES)
        if size > len(data):
            raise ValueError(f"{path} has {size} bytes; at most {MAX_BYTES} can be edited by lines")
        try:
            text = data.decode()
            if "\0" in text:
                raise ValueError(f"{path} is binary, so it cannot be edited")
            returns = "\r\n" in text and "\n" not in text.replace("\r\n", "")
            ending = "\r\n" if returns else "\n"
            # Not splitlines: what else that splits at would become the end of a line.
            lines = text.removesuffix(ending).split(ending) if text else []
            number = _meant(lines, number, new) or number
            edited = _replaced(lines, number, new, path)
            written = (ending.join(edited) + (ending if text.endswith(ending) else "")).encode()
        except UnicodeDecodeError:
            raise ValueError(f"{path} is not UTF-8 text") from None
        except UnicodeEncodeError as error:
            raise ValueError(f"'new' is not valid text at character {error.start}") from None
        await self.sandbox.write_file(path, written)
        output: dict[str, Any] = {
            "path": path,
            "line": number,
            "was": lines[number - 1],
            "now": _around(edited, number),
        }
        broken = await broken_files(self.sandbox, [path])
        if broken:
            output["broken"] = broken
        return ToolResult(output=output, changed=True, wrote=(path,))


def numbered(lines: Sequence[str], first: int = 1) -> str:
    """Return the lines that are not empty with their numbers, as a model is shown them."""
    shown = [f"{at}: {line}" for at, line in enumerate(lines[:_MAX_SHOWN], start=first) if line.strip()]
    return "\n".join([*shown, "…"] if len(lines) > _MAX_SHOWN else shown)


def _replaced(lines: Sequence[str], number: int, text: str, path: str) -> list[str]:
    if not 1 <= number <= len(lines):
        raise ValueError(f"{path} has {len(lines)} lines:\n{numbered(lines)}")
    old = lines[number - 1]
    new = text.rstrip().splitlines() or [""]
    if new[0] and not new[0][0].isspace():  # small models forget how far a line is indented
        indent = old[: len(old) - len(old.lstrip())]
        new = [f"{indent}{line}" if line else line for line in new]
    if not old.strip() and number < len(lines):
        raise ValueError(f"line {number} of {path} is empty. Name the line that is wrong:\n{numbered(lines)}")
    if [line.strip() for line in new] == [old.strip()]:
        raise ValueError(f"line {number} of {path} is that already: nothing would change. Write it differently")
    return [*lines[: number - 1], *new, *lines[number:]]


def _meant(lines: Sequence[str], number: int, text: str) -> int:
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
    return numbered(lines[first - 1 : number + _AROUND], first)
