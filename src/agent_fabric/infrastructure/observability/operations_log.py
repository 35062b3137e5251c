"""The operations log: what the program tells those who run it. It is silent until it is configured.

structlog is imported when the log is configured and not before: it costs more than all that `fabric run` does before
its first event.
"""

import atexit
import logging
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TextIO

from agent_fabric.application.ports.operations import OperationsLog
from agent_fabric.config.schema.observability import LogConfig
from agent_fabric.infrastructure.observability.line_output import FileTarget, LineOutput, StreamTarget
from agent_fabric.infrastructure.secrets.redaction import Redactor

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

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


def bound() -> Mapping[str, object]:
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

    from agent_fabric.infrastructure.observability.log_lines import (  # noqa: PLC0415 - see the module's docstring
        FromLogging,
        Lines,
    )

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
    output = LineOutput(target, lost_line=lines.lost, on_problem=tell)
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

    def bind(self, **fields: object) -> "_NamedLog":
        return _NamedLog(self.fields | fields)

    def debug(self, event: str, /, **fields: object) -> None:
        if _opened is not None:
            _opened.logger.debug(event, **self._with(fields))

    def info(self, event: str, /, **fields: object) -> None:
        if _opened is not None:
            _opened.logger.info(event, **self._with(fields))

    def warning(self, event: str, /, **fields: object) -> None:
        if _opened is not None:
            _opened.logger.warning(event, **self._with(fields))

    def error(self, event: str, /, **fields: object) -> None:
        if _opened is not None:
            _opened.logger.error(event, **self._with(fields))

    def _with(self, fields: dict[str, object]) -> dict[str, object]:
        if "event" in fields:  # structlog's own name for what happened
            fields["event_"] = fields.pop("event")
        return {**_bound.get(), **self.fields, **fields}


def _take_over_logging(handler: logging.Handler, level: str) -> None:
    for name in _SELF_WILLED:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level.upper())
    logging.captureWarnings(capture=True)
