"""Reads settings from the `.env` file of a project: its `FABRIC_` variables, and nothing else in it.

Nothing is executed or expanded: `$NAME` is plain text. Secrets do not belong there: a run that works on the project can
read the file. The sealed store keeps them (`fabric secrets set`).
"""

import re
from pathlib import Path
from typing import Final, NamedTuple

from agent_fabric.config.files import MAX_FILE_BYTES, decode, read_beginning
from agent_fabric.config.problems import ConfigProblem, combine
from agent_fabric.config.variable_names import PREFIX, RESERVED

NAME: Final = ".env"
_FABRIC_FOLDER: Final = ".fabric"
_ASSIGNMENT: Final = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*(=?)[ \t]*(.*)", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}
_HINT: Final = 'One variable for each line: FABRIC_BUDGET__MAX_STEPS=20, or with quotes: FABRIC_X="text".'


class DotenvVariable(NamedTuple):
    """A variable of the file."""

    value: str
    line: int


def dotenv_file(fabric_folder: Path) -> Path | None:
    """Return the `.env` beside a folder named `.fabric`; None if there is none, or the folder has another name."""
    path = fabric_folder.parent / NAME
    return path if fabric_folder.name == _FABRIC_FOLDER and path.is_file() else None


def read_dotenv(fabric_folder: Path) -> dict[str, DotenvVariable]:
    """Return the `FABRIC_` variables in the `.env` of a project, by name. The last of a name counts.

    A file that cannot be read counts as none: it is another program's.

    Raises:
        ConfigProblem: it mentions such variables, but is too large, is not UTF-8, or a line cannot be understood.
    """
    path = dotenv_file(fabric_folder)
    data = b"" if path is None else _read(path)
    if path is None or PREFIX.encode() not in data:
        return {}
    if len(data) > MAX_FILE_BYTES:
        raise ConfigProblem(f"{path} is larger than 1 MiB, too large for a configuration file")
    return parse_dotenv(decode(data, path), path)


def parse_dotenv(text: str, path: Path) -> dict[str, DotenvVariable]:
    """Return the `FABRIC_` variables of a text; for errors see `read_dotenv`."""
    found: dict[str, DotenvVariable] = {}
    problems: list[ConfigProblem] = []
    lines = [line.rstrip("\r") for line in text.split("\n")]
    number = 0
    while number < len(lines):
        line, number = lines[number], number + 1
        match = _ASSIGNMENT.match(line)
        if match is None:
            continue
        name, equals, rest = match.groups()
        if not name.startswith(PREFIX):
            number = _end_of_foreign(lines, number, rest)
            continue
        try:
            found[name] = DotenvVariable(_value(name, equals, rest), number)
        except ValueError as problem:
            problems.append(ConfigProblem(f"{path} (line {number}): {problem}", hint=_HINT))
    if problems:
        raise combine(problems)
    return found


def _read(path: Path) -> bytes:
    try:
        return read_beginning(path, MAX_FILE_BYTES) or b""
    except OSError:
        return b""


def _end_of_foreign(lines: list[str], number: int, rest: str) -> int:
    """Return where the line after another program's variable is; its quoted value may have several lines."""
    quote = rest[:1]
    if quote not in {'"', "'"} or _closing(rest, quote) is not None:
        return number
    ends = (later for later in range(number, len(lines)) if _closing(quote + lines[later], quote) is not None)
    return next(ends, number - 1) + 1


def _value(name: str, equals: str, rest: str) -> str:
    """Return the value of a variable.

    Raises:
        ValueError: the line cannot be understood, or the variable does not belong there.
    """
    if not equals:
        raise ValueError(f"{name} has no value")
    if name in RESERVED:
        raise ValueError(f"{name} works only in the environment, not in {NAME}")
    quote = rest[:1]
    if quote not in {'"', "'"}:
        return re.split(r"(?:^|\s)#", rest, maxsplit=1)[0].strip()
    end = _closing(rest, quote)
    if end is None:
        raise ValueError(f"the quote of {name} is not closed on its line")
    if (behind := rest[end + 1 :].strip()) and not behind.startswith("#"):
        raise ValueError(f"there is text behind the closing quote of {name}")
    inner = rest[1:end]
    return inner if quote == "'" else _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]), inner)


def _closing(text: str, quote: str) -> int | None:
    """Return where the quote that `text` begins with ends."""
    position = 1
    while position < len(text):
        if text[position] == "\\" and quote == '"':
            position += 1
        elif text[position] == quote:
            return position
        position += 1
    return None
