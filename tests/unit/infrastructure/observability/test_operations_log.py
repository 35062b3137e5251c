"""The log of the process: what goes in, what comes out."""

import asyncio
import io
import json
import logging
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from agent_fabric.application.ports.operations import OperationsLog
from agent_fabric.config.loader import read_config
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.observability import LogConfig
from agent_fabric.infrastructure.observability.operations_log import (
    bind,
    close_operations_log,
    configure_operations_log,
    operations_log,
    unbind,
)

pytestmark = pytest.mark.proves("AF-149")


class Opened:
    """A log that was opened on a stream in memory."""

    def __init__(self, config: LogConfig | None = None, *secrets: str, terminal: bool = False) -> None:
        self.stream = io.StringIO()
        self.stream.isatty = lambda: terminal  # type: ignore[method-assign]
        configure_operations_log(config or LogConfig(), secrets, self.stream)

    def text(self) -> str:
        close_operations_log()
        return self.stream.getvalue()

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text().splitlines()]


@pytest.fixture(autouse=True)
def _silent_again() -> Iterator[None]:
    yield
    unbind("run_id", "request_id")
    close_operations_log()


def test_a_log_that_nobody_configured_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    log = operations_log("early")
    log.debug("a")
    log.info("b")
    log.warning("c")
    log.error("d", exc_info=ValueError("x"))
    bind(run_id="r1")
    assert capfd.readouterr() == ("", "")


def test_lines_have_the_name_and_the_fields_of_their_log() -> None:
    early: OperationsLog = operations_log("serve")
    opened = Opened()
    early.info("started", host="h", port=1)
    (line,) = opened.lines()
    assert {key: line[key] for key in ("level", "logger", "event", "port", "host")} == {
        "level": "info",
        "logger": "serve",
        "event": "started",
        "port": 1,
        "host": "h",
    }


def test_no_field_is_in_the_way_of_another() -> None:
    opened = Opened()
    operations_log("x").info("happened", a=2, event="theirs", logger="theirs", level="theirs")
    (line,) = opened.lines()
    assert (line["event"], line["event_"], line["a"], line["level"]) == ("happened", "theirs", 2, "info")


@pytest.mark.parametrize(
    ("level", "kept"),
    [
        ("debug", "debug info warning error"),
        ("info", "info warning error"),
        ("warning", "warning error"),
        ("error", "error"),
    ],
)
def test_only_lines_of_the_level_and_above_are_written(level: Any, kept: str) -> None:
    opened = Opened(LogConfig(level=level))
    log = operations_log("x")
    for each in ("debug", "info", "warning", "error"):
        getattr(log, each)("ours")
        getattr(logging.getLogger("library"), each)("theirs")
    lines = opened.lines()
    assert [line["level"] for line in lines if line["event"] == "ours"] == kept.split()
    assert [line["level"] for line in lines if line["event"] == "theirs"] == kept.split()


@pytest.mark.parametrize(
    ("form", "terminal", "is_json"),
    [
        ("auto", True, False),
        ("auto", False, True),
        ("json", True, True),
        ("pretty", False, False),
    ],
)
def test_the_form_is_for_whoever_reads(
    form: Any, terminal: bool, is_json: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    opened = Opened(LogConfig(format=form), terminal=terminal)
    operations_log("x").info("hello", a="b")
    text = opened.text()
    assert text.startswith("{") == is_json
    assert ("\x1b[" in text) == (terminal and not is_json)


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_can_be_without_colours(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(name, value)
    opened = Opened(terminal=True)
    operations_log("x").info("hello")
    assert "\x1b" not in opened.text()


def test_libraries_write_through_the_same_form_and_lose_their_own() -> None:
    own = io.StringIO()
    logging.getLogger("uvicorn.error").addHandler(logging.StreamHandler(own))
    opened = Opened(None, "hunter2")
    logging.getLogger("uvicorn.error").warning("it was %s", "hunter2")
    try:
        raise ValueError("token=abc")
    except ValueError:
        logging.getLogger("asyncio").exception("Task exception was never retrieved\n")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old ways", UserWarning, stacklevel=1)
    structlog.get_logger().info("theirs", a=1)
    first, second, third, fourth = opened.lines()
    assert (first["logger"], first["event"]) == ("uvicorn.error", "it was [redacted]")
    assert (second["event"], second["exception"][0]["exc_value"]) == (
        "Task exception was never retrieved",
        "token=[redacted]",
    )
    assert (third["logger"], "old ways" in third["event"]) == ("py.warnings", True)
    assert (fourth["event"], fourth["a"]) == ("theirs", 1)
    assert own.getvalue() == ""


async def test_a_run_s_id_is_on_all_that_is_said_in_its_task_and_below() -> None:
    opened = Opened()

    async def library() -> None:
        logging.getLogger("aiohttp").warning("slow")

    async def run(run_id: str) -> None:
        bind(run_id=run_id)
        operations_log("x").info("began")
        await asyncio.create_task(library())

    async with asyncio.TaskGroup() as group:
        group.create_task(run("r1"))
        group.create_task(run("r2"))
    operations_log("x").info("outside")
    lines = opened.lines()
    assert sorted((line["event"], line.get("run_id")) for line in lines if "run_id" in line) == [
        ("began", "r1"),
        ("began", "r2"),
        ("slow", "r1"),
        ("slow", "r2"),
    ]
    assert "run_id" not in lines[-1]


def test_opening_again_closes_what_was_open() -> None:
    first = Opened()
    operations_log("x").info("one")
    second = Opened(LogConfig(level="error"))
    operations_log("x").error("two")
    logging.getLogger("x").error("three")
    assert [line["event"] for line in second.lines()] == ["two", "three"]
    assert "one" in first.stream.getvalue()
    assert "three" not in first.stream.getvalue()


def test_closing_leaves_python_s_logging_as_it_was() -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    Opened(LogConfig(level="debug")).text()
    assert (root.level, list(root.handlers)) == before


def test_a_stream_that_is_closed_or_cannot_say_a_character_breaks_nothing() -> None:
    ascii_only = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    configure_operations_log(LogConfig(), (), ascii_only)
    operations_log("x").info("grüße")
    close_operations_log()
    ascii_only.flush()
    assert b"gr\\xfc\\xdfe" in ascii_only.buffer.getvalue()
    gone = io.StringIO()
    configure_operations_log(LogConfig(), (), gone)
    gone.close()
    operations_log("x").info("nobody hears")
    close_operations_log()


def test_structlog_is_not_imported_before_somebody_asks_for_a_log() -> None:
    script = (
        "import sys;"
        "from agent_fabric.infrastructure.observability.operations_log import operations_log, bind;"
        "from agent_fabric.infrastructure.observability.observers import FanOut;"
        "from agent_fabric.infrastructure.observability.lifecycle_log import RunLifecycleLog;"
        "from agent_fabric.infrastructure.observability.observers import build_tracing;"
        "from agent_fabric.interfaces.http.access_log import AccessLog;"
        "operations_log('x').error('nobody hears'); bind(run_id='r'); build_tracing(None);"
        "sys.exit(str([name for name in ('structlog', 'opentelemetry', 'aiohttp', 'fastapi') if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("settings", [{"file": "relative.log"}, {"level": "loud"}, {"format": "xml"}, {"colour": True}])
def test_a_wrong_setting_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigProblem):
        read_config({}, overrides={"log": settings})


def test_the_settings_have_defaults_and_a_home_folder_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    log = read_config({}, overrides={"log": {"file": "~/fabric.log"}}).config.log
    assert (log.level, log.format, str(log.file)) == ("info", "auto", "/home/me/fabric.log")
