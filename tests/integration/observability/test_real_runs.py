"""The real engine, watched."""

import io
import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agent_fabric.config.schema.observability import LogConfig
from agent_fabric.domain.ids import CallId
from agent_fabric.domain.models.messages import LLMResponse, Message, Role, ToolCallRequest, Usage
from agent_fabric.domain.runs.task import RunStatus, TaskForceMode
from agent_fabric.infrastructure.observability.lifecycle_log import RunLifecycleLog
from agent_fabric.infrastructure.observability.observers import FanOut
from agent_fabric.infrastructure.observability.operations_log import (
    close_operations_log,
    configure_operations_log,
    operations_log,
)
from agent_fabric.infrastructure.observability.run_spans import RunSpans
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack, make_finish_tool_def, make_tool_def, tool_from
from agent_fabric.testing.workbench import workbench

LIBRARY = logging.getLogger("a.library")


def noisy_pack(_: str) -> BaseSpecialistPack:
    async def look(path: str) -> Mapping[str, Any]:
        LIBRARY.warning("looking")
        return {"content": f"contents of {path}"}

    return BaseSpecialistPack(
        system_prompt="Look.",
        tools=[(make_tool_def("look", "Look.", {"path": {"type": "string"}}), tool_from(look))],
        finish=make_finish_tool_def({"summary": {"type": "string"}}),
    )


async def looks_then_finishes(messages: Any) -> LLMResponse:
    turns: list[Message] = [message for message in messages if message.role is Role.ASSISTANT]
    name, arguments = ("finish_task", '{"summary": "seen"}') if turns else ("look", '{"path": "a"}')
    call = ToolCallRequest(CallId(f"c{len(turns)}"), name, arguments)
    return LLMResponse(content="", tool_calls=(call,), usage=Usage(10, 2), model="m")


@pytest.mark.proves("AF-149", "AF-160", "C14")
async def test_a_task_force_is_logged_and_traced_without_the_loop_knowing() -> None:
    stream, exporter = io.StringIO(), InMemorySpanExporter()
    configure_operations_log(LogConfig(), (), stream)
    bench = workbench({"one": noisy_pack, "two": noisy_pack}, looks_then_finishes)
    spans = RunSpans(SimpleSpanProcessor(exporter), bench.clock)
    drive = replace(bench.execute_task.drive, sink=FanOut([RunLifecycleLog(operations_log("runs")), spans]))
    bench = replace(bench, execute_task=replace(bench.execute_task, drive=drive))
    result = await bench.run(packs=["one", "two"], mode=TaskForceMode.PARALLEL)
    await spans.aclose()
    close_operations_log()

    assert result.status is RunStatus.COMPLETED
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["event"] for line in lines] == ["run_created", "looking", "looking", "run_complete"]
    assert {line["run_id"] for line in lines} == {result.run_id}
    finished = exporter.get_finished_spans()
    seen = sorted((span.name, str((span.attributes or {}).get("fabric.lane"))) for span in finished)
    assert seen == [
        ("fabric.execute_task", "None"),
        *(("fabric.llm_call", lane) for lane in ("one", "one", "two", "two")),
        *(("fabric.tool_call", lane) for lane in ("one", "one", "two", "two")),
    ]
    (root,) = [span for span in finished if span.parent is None]
    assert root.attributes is not None
    assert root.attributes["fabric.specialist_ids"] == ("one", "two")
    assert root.attributes["gen_ai.usage.input_tokens"] == 40
