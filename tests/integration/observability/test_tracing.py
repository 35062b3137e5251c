"""Traces on their way to a real collector, and to none."""

import asyncio
import json
import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from agent_fabric.config.schema.observability import TelemetryConfig
from agent_fabric.infrastructure.observability.observers import FanOut, build_tracing
from agent_fabric.infrastructure.observability.run_spans import RunSpans
from agent_fabric.testing.fakes import ListSink
from unit.infrastructure.runs.log.every_kind import RUN, rich_run

pytestmark = pytest.mark.proves("AF-160")
LONG_S = 10.0
"""Far more than closing may take, for slow machines."""


class Collector:
    """An OTLP/HTTP collector that remembers."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.requests: list[ExportTraceServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        self.status = 200
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.paths.append(self.path)
                collector.headers.append({name.lower(): value for name, value in self.headers.items()})
                if collector.status == 200:
                    collector.requests.append(ExportTraceServiceRequest.FromString(body))
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def spans(self) -> list[Span]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@pytest.fixture
def collector() -> Iterator[Collector]:
    with closing(Collector()) as collector:
        yield collector


@pytest.fixture(autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


def tracing_to(address: str) -> RunSpans:
    tracing = build_tracing(TelemetryConfig(enabled=True, otlp_endpoint=address))
    assert tracing is not None
    return tracing


def attributes(span: Span) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, str(pair.value.WhichOneof("value"))) for pair in span.attributes}


async def test_a_collector_gets_the_spans_of_a_run(collector: Collector) -> None:
    tracing = tracing_to(collector.address)
    FanOut([ListSink(), tracing]).publish(RUN, rich_run())
    await tracing.aclose()
    assert set(collector.paths) == {"/v1/traces"}
    assert {header["content-type"] for header in collector.headers} == {"application/x-protobuf"}
    resource = {
        pair.key: pair.value.string_value for pair in collector.requests[0].resource_spans[0].resource.attributes
    }
    assert resource["service.name"] == "agent-fabric"
    spans = collector.spans()
    assert {span.name for span in spans} == {"fabric.execute_task", "fabric.llm_call", "fabric.tool_call"}
    assert {span.trace_id.hex() for span in spans} == {RUN.replace("-", "")}
    roots = {span.span_id: span for span in spans if span.name == "fabric.execute_task"}
    last = max(roots.values(), key=lambda span: span.end_time_unix_nano)
    assert attributes(last)["fabric.outcome"] == "completed"
    for span in spans:
        assert span.start_time_unix_nano <= span.end_time_unix_nano
        if span.span_id not in roots:
            root = roots[span.parent_span_id]
            assert root.start_time_unix_nano <= span.start_time_unix_nano
            assert span.end_time_unix_nano <= root.end_time_unix_nano
    failed = next(span for span in spans if attributes(span).get("error.type") == "model_busy")
    assert (failed.status.code, failed.status.message) == (Status.STATUS_CODE_ERROR, "model_busy")
    assert failed.start_time_unix_nano % 1_000_000_000 == 250_000_000  # as the event's `ts` says


async def test_an_address_may_be_the_whole_one_and_headers_come_from_the_environment(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=blue")
    tracing = tracing_to(f"{collector.address}/v1/traces")
    tracing.publish(RUN, rich_run())
    await tracing.aclose()
    assert collector.paths == ["/v1/traces"]
    assert collector.headers[0]["x-team"] == "blue"


async def test_a_run_that_was_stopped_is_sent_when_the_program_ends(collector: Collector) -> None:
    tracing = tracing_to(collector.address)
    tracing.publish(RUN, rich_run()[:4])
    await tracing.aclose()
    assert {attributes(span)["fabric.outcome"] for span in collector.spans()} == {"interrupted"}


@pytest.mark.slow
async def test_a_collector_that_is_down_delays_the_end_by_little_and_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))  # bound, but nobody listens
        tracing = tracing_to(f"http://127.0.0.1:{free.getsockname()[1]}")
        tracing.publish(RUN, rich_run())
        started = time.monotonic()
        await tracing.aclose()
        assert time.monotonic() - started < LONG_S
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(told) == 1
    assert told[0].startswith("The last traces did not reach http://127.0.0.1:")


@pytest.mark.slow
async def test_a_collector_that_hangs_does_not_stop_the_event_loop_or_the_end() -> None:
    with closing(socket.socket()) as hanging:
        hanging.bind(("127.0.0.1", 0))
        hanging.listen()  # connects, and never answers
        tracing = tracing_to(f"http://127.0.0.1:{hanging.getsockname()[1]}")
        tracing.publish(RUN, rich_run())
        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                await asyncio.sleep(0.01)
                beats += 1

        heart = asyncio.create_task(beat())
        started = time.monotonic()
        await tracing.aclose()
        heart.cancel()
        assert time.monotonic() - started < LONG_S
        assert beats > 10


@pytest.mark.slow
async def test_an_outage_is_told_once_and_its_end_once(
    collector: Collector, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    collector.status = 400  # not worth another attempt
    tracing = tracing_to(collector.address)

    async def sent(count: int) -> None:
        while len(collector.paths) < count:
            tracing.publish(RUN, rich_run())
            await asyncio.sleep(0.03)

    async with asyncio.timeout(LONG_S):
        await sent(4)
        collector.status = 200
        await sent(len(collector.paths) + 4)
    await tracing.aclose()
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert told == [
        f"Traces do not reach {collector.address}/v1/traces. Is a collector listening there?",
        f"Traces reach {collector.address}/v1/traces again.",
    ]


PROGRAM = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from agent_fabric.config.schema.observability import TelemetryConfig
from agent_fabric.infrastructure.observability.observers import build_tracing
from unit.infrastructure.runs.log.every_kind import RUN, rich_run
tracing = build_tracing(TelemetryConfig(enabled=True, exporter=sys.argv[2], otlp_endpoint=sys.argv[3]))
tracing.publish(RUN, rich_run())
asyncio.run(tracing.aclose())
print("done")
"""


def program(exporter: str, address: str) -> "subprocess.CompletedProcess[str]":
    tests = next(path for path in sys.path if path.endswith("tests"))
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, tests, exporter, address],
        capture_output=True,
        text=True,
        timeout=3 * LONG_S,
        check=True,
    )


@pytest.mark.slow
def test_a_program_ends_although_its_collector_hangs() -> None:
    with closing(socket.socket()) as hanging:
        hanging.bind(("127.0.0.1", 0))
        hanging.listen()
        done = program("otlp", f"http://127.0.0.1:{hanging.getsockname()[1]}")
    assert done.stdout == "done\n"
    assert len(done.stderr.splitlines()) == 1  # there is no log, so a person is told
    assert "did not reach" in done.stderr


def test_the_console_gets_one_object_a_line_and_standard_output_nothing() -> None:
    done = program("console", "http://127.0.0.1:1")
    assert done.stdout == "done\n"
    spans = [json.loads(line) for line in done.stderr.splitlines()]
    assert {span["name"] for span in spans} == {"fabric.execute_task", "fabric.llm_call", "fabric.tool_call"}
