"""The operations log: what the program tells those who run it. It is silent until it is configured.

structlog is imported when the log is configured and not before: it costs more than all that `fabric run` does before
its first event.
"""

import atexit
import logging
import os
import select
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TextIO

from agent_fabric.application.ports.operations import OperationsLog
from agent_fabric.config.schema.observability import LogConfig
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.infrastructure.secrets.redaction import Redactor

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


MAX_WAITING: Final = 10_000
"""Lines that wait to be written; more are dropped, and counted."""
_MAX_AT_ONCE: Final = 500
_PAUSE_S: Final = 0.02
"""Behind what was written. The first line goes out at once, a stream of lines in parts: to wake a thread for each costs
more than to make it."""


class Target(Protocol):
    """Where lines end up."""

    def write(self, text: str) -> None:
        """Write whole lines.

        Raises:
            OSError, ValueError: that is not possible now.
        """
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class LineOutput:
    """Takes lines at once and writes them as soon as possible."""

    def __init__(
        self, target: Target, *, lost_line: Callable[[int], str], on_problem: Callable[[Exception], None]
    ) -> None:
        self._target = target
        self._lost_line = lost_line
        self._on_problem = on_problem
        """Learns the first problem, and no other."""
        self._reported = False
        self._lost = 0
        self._counting = threading.Lock()
        self._waiting: deque[str] = deque()
        self._called = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="operations-log", daemon=True)
        self._thread.start()

    def write(self, line: str) -> None:
        """Take a line; it is written soon."""
        if len(self._waiting) >= MAX_WAITING:
            self._lose(1)
            return
        self._waiting.append(line)
        if not self._called.is_set():
            self._called.set()

    debug = info = warning = error = critical = write
    """What structlog calls, by the line's level."""

    def close(self, timeout_s: float = 1.0) -> None:
        """Write what is waiting, as far as that is possible in this time."""
        self._closing.set()
        self._called.set()
        self._thread.join(timeout_s)

    def _work(self) -> None:
        while not self._closing.is_set():
            self._called.wait()
            self._called.clear()
            while self._waiting:
                self._try_to_write([self._waiting.popleft() for _ in range(min(len(self._waiting), _MAX_AT_ONCE))])
            self._closing.wait(_PAUSE_S)
        if self._lost or self._waiting:
            self._try_to_write(list(self._waiting))
        self._target.close()

    def _try_to_write(self, lines: list[str]) -> None:
        with self._counting:
            lost, self._lost = self._lost, 0
        told = [self._lost_line(lost), *lines] if lost else lines
        try:
            self._target.write("".join(f"{line}\n" for line in told))
        except (OSError, ValueError) as problem:
            self._lose(lost + len(lines))
            if not self._reported:
                self._reported = True
                self._on_problem(problem)

    def _lose(self, count: int) -> None:
        with self._counting:
            self._lost += count


class FileTarget:
    """A file that others may move, remove or cut at any time, as log rotation does."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._torn = False
        """The last line could only be written in part."""

    def write(self, text: str) -> None:
        descriptor = self._current()
        if self._torn:
            text = f"\n{text}"
        self._torn = True
        _write_all(descriptor, text.encode("utf-8", "backslashreplace"))
        self._torn = False

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _current(self) -> int:
        """Return the open file, if it is still the one that has this name, and otherwise that one."""
        if self._descriptor is not None:
            try:
                if os.path.samestat(os.fstat(self._descriptor), self._path.stat()):
                    return self._descriptor
            except FileNotFoundError:
                pass  # moved away, and nothing has taken its place yet
            self.close()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags, 0o640)
        self._torn = False
        return self._descriptor


class StreamTarget:
    """A stream that is someone else's to close."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        try:
            self._descriptor = stream.fileno()
        except (OSError, ValueError):
            self._descriptor = -1  # not a real one

    def write(self, text: str) -> None:
        encoding = self._stream.encoding or "utf-8"
        data = text.encode(encoding, "backslashreplace")
        if self._descriptor < 0:
            self._stream.write(data.decode(encoding))
        else:
            # Not through the stream: a thread that waits inside it for a full pipe crashes Python at its end.
            _write_all(self._descriptor, data)

    def close(self) -> None:
        """Leave it open."""


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:  # someone who shares the terminal or pipe with us made it so
            select.select((), (descriptor,), ())


_SELF_WILLED: Final = ("uvicorn", "uvicorn.error", "uvicorn.access")
"""Loggers of libraries that bring handlers of their own."""


def operations_log(name: str) -> OperationsLog:
    """Return a log whose lines carry this name. It may be made before the log is configured."""
    return _NamedLog({"logger": name})


def bind(**fields: object) -> None:
    """Put fields on all further lines of this task and of those it starts: a run's id, a request's id."""
    if _opened is not None:
        _bound.set({**_bound.get(), **fields})


def unbind(*names: str) -> None:
    """Take fields off again."""
    if _opened is not None:
        _bound.set({name: value for name, value in _bound.get().items() if name not in names})


def bound_fields() -> Mapping[str, object]:
    """Return the fields that are on every line of this task."""
    return _bound.get()


# Not structlog's own, which looks through all variables of the context for each line.
_bound: ContextVar[Mapping[str, object]] = ContextVar("operations_log_fields", default={})  # noqa: B039 - never changed


def configure_operations_log(config: LogConfig, secrets: Iterable[str], stream: TextIO) -> None:
    """Open the log of this process; one that is open is closed.

    It takes in what libraries tell Python's `logging`, too. `secrets` are values that must never appear in it.
    `stream` is where lines go unless there is a file, and where it is said that a file cannot be written.
    """
    import structlog  # noqa: PLC0415 - see the module's docstring

    from agent_fabric.infrastructure.observability.log_lines import FromLogging, Lines  # noqa: PLC0415 - see the module's docstring

    close_operations_log()
    terminal = config.file is None and stream.isatty()
    pretty = config.format == "pretty" or (config.format == "auto" and terminal)
    colours = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    redactor = Redactor(secrets)
    lines = Lines(redactor, pretty=pretty, colours=colours)

    def tell(problem: Exception) -> None:
        if config.file is None:
            return  # there is nowhere to tell it
        reason = getattr(problem, "strerror", None) or problem
        with suppress(OSError, ValueError):  # or else there is no one to tell
            StreamTarget(stream).write(
                f"fabric: the log file {config.file} cannot be written: {reason}. Continuing without it.\n"
            )

    target = StreamTarget(stream) if config.file is None else FileTarget(config.file)
    output = LineOutput(target, lost_line=lines.lost_line, on_problem=tell)
    structlog.configure(
        processors=[lines],
        wrapper_class=structlog.make_filtering_bound_logger(config.level),
        logger_factory=lambda *_: output,
        cache_logger_on_first_use=False,
    )
    handler = FromLogging(lines, output.write)
    global _opened  # noqa: PLW0603 - a process has one log, as it has one standard error
    _opened = _Opened(structlog.get_logger().bind(), output, handler, logging.getLogger().level, redactor)
    _take_over_logging(handler, config.level)
    atexit.register(close_operations_log)


def keep_out(secrets: Iterable[str]) -> None:
    """Let further values never appear in the log, if one is open: those that were looked up since."""
    if _opened is not None:
        _opened.redactor.learn(secrets)


def close_operations_log() -> None:
    """Write what is waiting, for a second at most, and be silent again."""
    global _opened
    if _opened is None:
        return
    import structlog  # noqa: PLC0415 - see the module's docstring

    opened, _opened = _opened, None
    atexit.unregister(close_operations_log)
    logging.captureWarnings(capture=False)
    logging.getLogger().removeHandler(opened.handler)
    logging.getLogger().setLevel(opened.level_before)
    structlog.reset_defaults()
    opened.output.close()


@dataclass(frozen=True, slots=True)
class _Opened:
    logger: "FilteringBoundLogger"
    output: LineOutput
    handler: logging.Handler
    level_before: int
    redactor: Redactor


_opened: _Opened | None = None


@dataclass(frozen=True, slots=True)
class _NamedLog:
    """OperationsLog of this process."""

    fields: dict[str, object] = field(default_factory=dict)

    def debug(self, event: str, /, **fields: object) -> None:
        self._write("debug", event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        self._write("info", event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        self._write("warning", event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        self._write("error", event, fields)

    def _write(self, level: str, event: str, fields: dict[str, object]) -> None:
        if _opened is None:
            return
        if "event" in fields:  # structlog's own name for what happened
            fields["event_"] = fields.pop("event")
        getattr(_opened.logger, level)(event, **{**_bound.get(), **self.fields, **fields})


def _take_over_logging(handler: logging.Handler, level: str) -> None:
    for name in _SELF_WILLED:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level.upper())
    logging.captureWarnings(capture=True)
