"""One line of the operations log: plain data without secrets, as JSON or for people.

Nothing in a line can pretend to be another line or steer a terminal.
"""

import json
import logging
import re
import traceback
from collections.abc import Callable, MutableMapping
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from structlog.dev import ConsoleRenderer
from structlog.processors import ExceptionRenderer
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import ExcInfo

from agent_fabric.infrastructure.observability.operations_log import bound_fields
from agent_fabric.infrastructure.secrets.redaction import Redactor

Fields = MutableMapping[str, Any]
Render = Callable[[dict[str, Any]], str]

_HARMFUL: Final = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What JSON leaves as it is although it steers terminals, ends lines or cannot be encoded."""
_OURS: Final = frozenset({"timestamp", "level", "exception", "stack"})
"""What only the log itself may say; given by someone else, it is written with a `_` behind."""
_ITS_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
"""What every record of Python's `logging` has; the rest is what someone gave as `extra`."""


class Lines:
    """The last of structlog's processors: turns an event into its line, whatever is in it."""

    def __init__(self, redactor: Redactor, *, pretty: bool, colours: bool = False) -> None:
        self._redactor = redactor
        self._render: Render = _Pretty(colours) if pretty else _json
        # Without the variables of each frame: they hold prompts and keys.
        stacks = ExceptionDictTransformer(show_locals=False, max_frames=30)
        self._with_exception = ExceptionRenderer(_text_of if pretty else stacks)

    def __call__(self, _: object, level: str, fields: Fields) -> str:
        try:
            return self._render(self._plain(level, fields))
        except Exception as problem:  # noqa: BLE001 - an unforeseen error must not break the code that logs
            return self._render({**_place(level), "event": "log_line_failed", "error_type": type(problem).__name__})

    def lost_line(self, count: int) -> str:
        """Return the line that says how many are missing."""
        return self("", "warning", {"event": "log_lines_lost", "count": count})

    def _plain(self, level: str, fields: Fields) -> dict[str, Any]:
        fields = {f"{key}_" if key in _OURS else key: value for key, value in fields.items()}
        fields = self._with_exception(None, level, fields)
        # First where it comes from and what happened, then the rest as it was given.
        order = {name: fields[name] for name in ("logger", "event") if name in fields}
        exception = fields.pop("exception", None)
        line = _place(level)
        line |= self._redactor.value({**order, **fields})
        if exception is not None:
            line["exception"] = self._redactor.value(exception)
        return line


class FromLogging(logging.Handler):
    """Takes in what libraries, and inner layers, tell Python's `logging`; `extra` becomes fields."""

    def __init__(self, lines: Lines, write: Callable[[str], None]) -> None:
        super().__init__()
        self._lines = lines
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        fields: Fields = {key: value for key, value in vars(record).items() if key not in _ITS_OWN}
        fields.update(logger=record.name, exc_info=record.exc_info)
        try:
            fields["event"] = record.getMessage().strip()
        except Exception:  # noqa: BLE001 - arguments that do not fit the text: still worth reading
            fields.update(event=record.msg, args=record.args)
        self._write(self._lines(None, record.levelname.lower(), {**bound_fields(), **fields}))


def _place(level: str) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return {"timestamp": f"{now[:-6]}Z", "level": level}


def _json(line: dict[str, Any]) -> str:
    try:
        text = orjson.dumps(line).decode()
    except TypeError:  # huge integers, half characters
        text = json.dumps(line, ensure_ascii=False)
    if text.isascii() and "\x7f" not in text:
        return text
    return _HARMFUL.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def _text_of(exc_info: ExcInfo) -> str:
    parts = traceback.format_exception(exc_info[1])
    if len(parts) > 30:
        parts = [*parts[:10], "  …\n", *parts[-20:]]
    return "".join(parts).rstrip()


class _Pretty:
    """Renders lines for people."""

    def __init__(self, colours: bool) -> None:
        self._console = ConsoleRenderer(colors=colours, sort_keys=False, pad_event_to=24)

    def __call__(self, line: dict[str, Any]) -> str:
        exception = line.pop("exception", "")
        shown = self._console(None, "", {_visible(key): _visible_in(value) for key, value in line.items()})
        # Indented: a message of several lines cannot look like lines of the log.
        return "\n".join([shown, *(f"    {_visible(part)}" for part in exception.splitlines())])


def _visible(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _visible_in(value: Any) -> Any:
    # What is nested is shown by its representation, which is printable.
    return _visible(value) if isinstance(value, str) else value
