"""How things look in a terminal: plain words, a little colour, one JSON object when asked."""

import json
import os
import re
import shutil
import sys
import unicodedata
from pathlib import Path
from typing import Any, TextIO

from agent_fabric.domain.errors import ConfigError, FabricError

_CODES = {"dim": "2", "bold": "1", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_MIN_COLUMNS = 20
_STYLE_OR_CHAR = re.compile(r"\x1b\[[0-9;]*m|.", re.DOTALL)


def capable(stream: TextIO) -> bool:
    """Return whether a stream is a terminal that understands control sequences."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def colourful(stream: TextIO) -> bool:
    """Return whether colours are welcome on a stream."""
    return capable(stream) and not os.environ.get("NO_COLOR")


def colour(text: str, style: str, stream: TextIO) -> str:
    """Return text in a style, where the stream can show it."""
    return paint(text, style) if colourful(stream) else text


def paint(text: str, style: str) -> str:
    """Return text in a style."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m"


def plain(text: str) -> str:
    """Return text without control characters: what a model or tool wrote must not steer the terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == " " else " " for char in text)


def one_line(text: str) -> str:
    """Return text without control characters and line breaks."""
    return " ".join(plain(text).split())


def plain_lines(text: str) -> str:
    """Return text of several lines without control characters."""
    return "\n".join(plain(line) for line in text.splitlines())


def from_here(path: str | Path) -> str:
    """Return a path as it is called in the current folder, if it lies below it; any other as it is."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except (ValueError, OSError):  # elsewhere, or the current folder no longer exists
        return str(path)


def fit_width(text: str, width: int, stream: TextIO) -> str:
    """Return text as one line: on a terminal of at most `width` characters, unless it names a command to type."""
    if stream.isatty() and _TO_TYPE.search(text) is None:
        return shorten(text, width)
    return one_line(text)


def laid_out(line: str, stream: TextIO, *, indent: str) -> str:
    """Return a line, styles included: on a terminal broken between words, as wide as it is, what follows indented.

    What names a command to type stays one line, so that it can be copied.
    """
    if not stream.isatty() or _TO_TYPE.search(line) is not None:
        return line
    return "\n".join(fold_lines(line, terminal_columns(), indent, within_words=False))


def fold_lines(line: str, width: int, indent: str, *, within_words: bool) -> list[str]:
    """Break a line between words, so that no part is wider than `width`. The further parts begin with `indent`.

    A word that is wider than a line is broken only if `within_words` says so; then no blank is lost either.
    """
    if len(line) <= width and line.isascii():
        return [line]
    parts: list[str] = []
    part, used, cut, cut_used = "", 0, 0, 0
    for piece in _STYLE_OR_CHAR.findall(line):
        columns = 0 if len(piece) > 1 else 1 + (unicodedata.east_asian_width(piece) in "WF")
        if used + columns > width and (cut or within_words or piece == " "):
            at, at_used = (cut, cut_used) if cut and piece != " " else (len(part), used)
            parts.append(part[:at] if within_words else part[:at].rstrip(" "))
            part, used, cut = indent + part[at:], len(indent) + used - at_used, 0
            if piece == " " and not within_words:
                continue
        part, used = part + piece, used + columns
        if piece == " " and used > width // 4:  # not behind the label alone
            cut, cut_used = len(part), used
    return [*parts, part]


def terminal_columns() -> int:
    """Return how wide a line may be so that the terminal does not break it."""
    return max(_MIN_COLUMNS, shutil.get_terminal_size().columns - 1)


_TO_TYPE = re.compile(r"\b(?:fabric|pip|pipx|uv|ollama|openssl|vault) [a-z]")


def shorten(text: str, width: int) -> str:
    """Return text as one line of at most `width` characters."""
    line = " ".join(plain(text[: 4 * width]).split())
    whole = not text[4 * width :].strip()  # what stands behind many blanks is not nothing
    return line if whole and len(line) <= width else line[: width - 1] + "…"


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Return JSON that is readable and harmless: control characters of any kind, and halves of some, are escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return _HARMFUL.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


_HARMFUL = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def print_json(value: Any) -> int:
    """Print one object, and nothing else, to standard output; return the exit code of success."""
    sys.stdout.write(json_text(value, indent=2) + "\n")
    return 0


def print_json_line(value: Any) -> int:
    """Print one object on a line of its own, at once; return the exit code of success."""
    sys.stdout.write(json_text(value) + "\n")
    sys.stdout.flush()
    return 0


def print_warning(message: str) -> None:
    """Say what a person should know, but what stops nothing."""
    sys.stderr.write(f"{colour('warning:', 'yellow', sys.stderr)} {plain_lines(message)}\n")


def print_error(problem: FabricError, *, as_json: bool) -> None:
    """Say what went wrong and what to do about it."""
    if as_json:
        from agent_fabric.wire.results import error_object  # noqa: PLC0415 - its shapes take their time

        print_json(error_object(problem))
        return
    sys.stderr.write(f"{colour('error:', 'red', sys.stderr)} {plain_lines(problem.message)}\n")
    if problem.hint:
        sys.stderr.write(f"  hint: {plain_lines(for_this_installation(problem.hint))}\n")


def for_this_installation(hint: str) -> str:
    """Return a hint whose `pip install` is what adds a part to this installation: pip, pipx, uv or a checkout."""
    if "pip install" not in hint:
        return hint
    from agent_fabric.infrastructure.installation import fit_install_hints  # noqa: PLC0415 - few hints are about this

    return fit_install_hints(hint)


def write_export(path: Path, text: str) -> None:
    """Write a file, whole or not at all."""
    from agent_fabric.infrastructure.atomic_files import write_atomically  # noqa: PLC0415 - few commands write files

    try:
        write_atomically(path, text.encode())
    except OSError as problem:
        raise ConfigError(
            f"{path} cannot be written: {problem.strerror or problem}", hint="Choose another file."
        ) from None
