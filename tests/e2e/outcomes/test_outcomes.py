"""Every defined outcome of a run, one test each: `docs/reference/outcomes.md` is the same list for people.

The engine, the store, the HTTP client and the model server are real; only what the model says is scripted.
"""

import asyncio
import contextlib
import json
import re
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agent_fabric.application.runs.new_task import task_from
from agent_fabric.config.loader import read_config
from agent_fabric.domain.runs.task import Profile, RunStatus
from agent_fabric.domain.tools.findings import ProofKind
from agent_fabric.testing.fakes import ListSink
from agent_fabric.testing.scripted_model import (
    Answer,
    Call,
    Calls,
    ContextExceeded,
    Cut,
    Empty,
    Entry,
    Finish,
    Hang,
    Raw,
    Reset,
    Responder,
    Say,
    ScriptedModel,
    Slow,
    Status,
    Turn,
)
from e2e.fabric_process import (
    TROUBLE,
    Ended,
    Fabric,
    Outcome,
    carry_out,
    local_fabric,
    long_sleep,
    read_lines,
    require_left_behind,
    running,
    settings,
    until,
)
from free_ports import free_port
from services import need

LOOK = Call("list_files", {})
DONE = Finish(summary="done")
WRITE = Call("write_file", {"path": "hello.py", "content": "print('hello')\n"})
LONG = "All of this text belongs to one long answer. " * 40


class Case:
    """A folder, and runs in it whose model follows a script."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model = ScriptedModel([])

    async def run(self, *script: Entry, responder: Responder | None = None, **options: Any) -> Outcome:
        async with ScriptedModel(responder or list(script)) as self.model:
            return await carry_out(self.folder, self.model.base_url, **options)

    @property
    def asked(self) -> int:
        """How often the model was asked."""
        return len(self.model.requests)

    def messages(self, request: int = -1) -> list[dict[str, Any]]:
        """The conversation as one request told it."""
        messages: list[dict[str, Any]] = self.model.requests[request].body["messages"]
        return messages

    def told(self, request: int = -1) -> dict[str, Any]:
        """What the last observation said to the model in one request."""
        message = self.messages(request)[-1]
        assert message["role"] == "tool", message
        value: dict[str, Any] = json.loads(message["content"])
        return value


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def require_completed(outcome: Outcome, **payload: object) -> None:
    assert outcome.result.status is RunStatus.COMPLETED, outcome.result.error
    told = outcome.result.payload
    assert {key: told[key] for key in told if key != "changed" or key in payload} == payload
    assert outcome.kinds[-1] == "run_complete"


def require_delays(asked: list[dict[str, Any]], *longest: float) -> None:
    """Check how long each attempt waited: no longer than this, and no shorter than half of it."""
    delays = [payload["delay_s"] for payload in asked]
    assert len(delays) == len(longest), delays
    assert all(most / 2 <= delay <= most for delay, most in zip(delays, longest, strict=True)), delays


# ── the model server ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port whose queue is full: whoever connects hears nothing, as behind a firewall that drops packets."""
    with contextlib.ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield int(listener.getsockname()[1])


@pytest.mark.slow
@pytest.mark.proves("AF-131")
async def test_unreachable_model_fails_with_exit_code_one_and_a_hint(tmp_path: Path) -> None:
    fabric = Fabric(tmp_path, settings(f"http://127.0.0.1:{free_port()}/v1"))
    ended = await fabric("run", "do it", "--json")
    assert (ended.code, ended.json["error"]["code"]) == (1, "model_unreachable")
    assert "base_url" in ended.json["error"]["hint"]
    assert ended.seconds < 15
    (run_dir,) = fabric.run_dirs()
    require_left_behind(run_dir)
    asked = [line["payload"] for line in read_lines(run_dir) if line["kind"] == "llm_request"]
    assert [payload["attempt"] for payload in asked] == [1, 2, 3, 4]
    require_delays(asked, 0, 0.5, 1, 2)


@pytest.mark.slow
async def test_model_that_never_accepts_a_connection_is_given_up_within_fifteen_seconds(
    tmp_path: Path, silent_port: int
) -> None:
    outcome = await carry_out(tmp_path, f"http://127.0.0.1:{silent_port}/v1")
    outcome.require_failed("model_unreachable")
    assert outcome.seconds < 15


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (400, "Check `model`"),
        (401, "api_key: env:NAME"),
        (403, "api_key"),
        (404, "`base_url` and `model`"),
        (413, "too long"),
        (422, "Check `model`"),
    ],
)
async def test_refusal_is_not_tried_again(case: Case, status: int, hint: str) -> None:
    outcome = await case.run(Status(status))
    outcome.require_failed("model_refused")
    assert hint in outcome.hint
    assert case.asked == 1
    assert outcome.payloads("llm_error")[0]["retryable"] is False


@pytest.mark.proves("AF-071", "AF-075")
async def test_model_without_tools_is_named_with_ones_that_have_them(case: Case) -> None:
    body = json.dumps({"error": {"message": "registry.ollama.ai/library/gemma:2b does not support tools"}})
    outcome = await case.run(Status(400, body), model={"backend": "ollama"})
    outcome.require_failed("model_refused")
    assert "cannot call tools" in outcome.hint
    assert "qwen2.5" in outcome.hint
    assert case.asked == 1


@pytest.mark.parametrize("status", [500, 502, 503, 529])
async def test_broken_server_is_tried_four_more_times(case: Case, status: int) -> None:
    outcome = await case.run(Status(status, retry_after=0))
    outcome.require_failed("model_busy")
    assert case.asked == 5
    assert [payload["attempt"] for payload in outcome.payloads("llm_request")] == [1, 2, 3, 4, 5]


async def test_server_that_recovers_is_not_noticed_in_the_result(case: Case) -> None:
    outcome = await case.run(Status(503), Status(500, retry_after=0), LOOK, DONE)
    require_completed(outcome, summary="done")
    require_delays(outcome.payloads("llm_request"), 0, 1, 0, 0)
    assert len(outcome.payloads("llm_error")) == 2


async def test_busy_server_is_given_the_time_it_asks_for(case: Case) -> None:
    outcome = await case.run(Status(429, retry_after=1.2), LOOK, DONE)
    require_completed(outcome, summary="done")
    first, second = (request.at for request in case.model.requests[:2])
    assert 1.2 <= second - first < 30
    assert outcome.payloads("llm_error")[0]["retry_after_s"] == 1.2


async def test_server_that_asks_for_more_than_a_minute_is_given_up_at_once(case: Case) -> None:
    outcome = await case.run(Status(429, retry_after=61))
    outcome.require_failed("model_busy")
    assert case.asked == 1
    assert outcome.seconds < 30


async def test_retry_after_that_is_past_or_no_number_means_our_own_delay(case: Case) -> None:
    outcome = await case.run(
        Turn(LOOK, faults=(Status(429, retry_after="Wed, 21 Oct 2015 07:28:00 GMT"),)),
        Turn(DONE, faults=(Status(503, retry_after="nan"),)),
    )
    require_completed(outcome, summary="done")
    require_delays(outcome.payloads("llm_request"), 0, 1, 0, 1)
    assert [payload["retry_after_s"] for payload in outcome.payloads("llm_error")] == [None, None]


async def test_slow_answer_within_the_time_limit_is_fine(case: Case) -> None:
    outcome = await case.run(Slow(LOOK, 0.4), DONE, model={"timeout_s": 5.0})
    require_completed(outcome, summary="done")
    assert outcome.result.duration_s >= 0.4


async def test_model_that_does_not_answer_in_time_is_asked_once_more(case: Case) -> None:
    outcome = await case.run(Hang(), model={"timeout_s": 0.4})
    outcome.require_failed("model_timed_out")
    assert "timeout_s" in outcome.hint
    assert case.asked == 2
    assert outcome.seconds >= 0.8


async def test_stream_that_hangs_in_the_middle_is_ended_by_the_time_limit(tmp_path: Path) -> None:
    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            writer.write(b'data: {"choices": [{"delta": {"content": "I th"}}]}\n\n')
            await reader.read()

    sink = ListSink(wants_deltas=True)
    async with await asyncio.start_server(hang, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        outcome = await carry_out(tmp_path, url, sink=sink, model={"timeout_s": 0.4})
    outcome.require_failed("model_timed_out")
    assert "".join(sink.texts) == "I thI th", "told of both attempts, word by word"


@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "body"])
async def test_answer_that_is_cut_off_is_asked_for_again(case: Case, streaming: bool) -> None:
    sink = ListSink(wants_deltas=streaming)
    outcome = await case.run(Cut(Say(LONG), 900, times=2), Calls((LOOK,), text=LONG), DONE, sink=sink)
    require_completed(outcome, summary="done")
    assert [payload["error_type"] for payload in outcome.payloads("llm_error")] == ["model_answer_unusable"] * 2
    assert case.model.requests[0].body.get("stream", False) is streaming
    assert "".join(sink.texts).endswith(LONG) is streaming


@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "body"])
async def test_answer_that_is_always_cut_off_fails_after_three_attempts(case: Case, streaming: bool) -> None:
    outcome = await case.run(Cut(Say(LONG), 900), sink=ListSink(wants_deltas=streaming))
    outcome.require_failed("model_answer_unusable")
    assert case.asked == 3


async def test_connection_that_is_reset_is_asked_for_again(case: Case) -> None:
    outcome = await case.run(Reset(), LOOK, DONE)
    require_completed(outcome, summary="done")
    assert outcome.payloads("llm_error")[0]["retryable"] is True


async def test_connection_that_is_always_reset_fails_and_blames_the_server(case: Case) -> None:
    outcome = await case.run(Reset())
    outcome.require_failed("model_answer_unusable")
    assert "server's own log" in outcome.hint
    assert case.asked == 3


# ── what the model answers ────────────────────────────────────────────────────────────────────────────────────────────


async def test_empty_answer_is_asked_again_twice_and_then_fails(case: Case) -> None:
    outcome = await case.run(Empty())
    outcome.require_failed("model_answer_empty")
    assert case.asked == 3
    assert [payload["reason"] for payload in outcome.payloads("guidance")] == ["empty_answer"] * 2
    assert [message["role"] for message in case.messages()] == ["system", "user", "user", "user"]


async def test_model_that_answers_after_an_empty_answer_goes_on(case: Case) -> None:
    outcome = await case.run(Turn(LOOK, faults=(Empty(times=2),)), Turn(DONE, faults=(Empty(times=2),)))
    require_completed(outcome, summary="done")
    assert "Your answer was empty" in case.messages(1)[-1]["content"]


@pytest.mark.parametrize("body", ["<html>502</html>", "{}", '{"choices": []}', '{"choices": [{"message": 7}]}'])
async def test_answer_that_is_none_is_asked_for_again_twice_and_then_fails(case: Case, body: str) -> None:
    outcome = await case.run(Raw(body))
    outcome.require_failed("model_answer_unusable")
    assert case.asked == 3


async def test_model_that_answers_after_nonsense_goes_on(case: Case) -> None:
    outcome = await case.run(Raw("<html>", times=2), LOOK, Raw(b"\xff", times=2), DONE)
    require_completed(outcome, summary="done")


@pytest.mark.proves("FC-024", "AF-143")
@pytest.mark.parametrize(
    ("call", "error_type", "says"),
    [
        (Call("list_files", '{"path": '), "BadArguments", "not valid JSON"),
        (Call("list_files", '{"path": "a", "path": "b"}'), "BadArguments", "a key appears twice"),
        (Call("list_files", "[1]"), "BadArguments", "must be a JSON object"),
        (Call("read_file", {}), "BadArguments", "path is missing"),
        (Call("read_file", {"path": 7}), "BadArguments", "path must be string, not integer"),
        (Call("read_file", {"path": "a", "mode": "r"}), "BadArguments", "mode is not known"),
        (Call("fly", {}), "UnknownTool", "the tools are: shell, read_file, write_file, edit_file, list_files"),
    ],
    ids=["cut JSON", "double key", "no object", "missing", "wrong type", "unknown argument", "unknown tool"],
)
async def test_call_that_cannot_be_made_is_told_and_the_run_goes_on(
    case: Case, call: Call, error_type: str, says: str
) -> None:
    outcome = await case.run(call, LOOK, DONE)
    require_completed(outcome, summary="done")
    told = case.told(1)
    assert told["error_type"] == error_type
    assert says in told["error"]
    (erred,) = outcome.payloads("tool_error")
    assert (erred["tool"], erred["error_type"]) == (call.tool, error_type)
    assert len(outcome.payloads("tool_result")) == 2, "only the good call and the finish ran"


@pytest.mark.proves("AF-055", "AF-056", "AF-060", "C03", "FC-020", "FC-025")
async def test_several_calls_run_in_order_and_finish_comes_last(case: Case) -> None:
    first, second = (
        Call("write_file", {"path": "a", "content": "1"}),
        Call("shell", {"command": "cat a && chmod 600 a"}),
    )
    third = Call("list_files", {})
    outcome = await case.run(
        Calls((Finish(summary="too early"), first, second, third)), Call("shell", {"command": "true"}), DONE
    )
    assert outcome.result.status is RunStatus.COMPLETED
    called = [payload["tool"] for payload in outcome.payloads("tool_call")]
    assert called[:4] == ["write_file", "shell", "list_files", "finish_task"]
    results = outcome.payloads("tool_result")
    assert (results[1]["result"]["stdout"], results[2]["result"]["files"]) == ("1", ["a"])
    assert outcome.payloads("tool_error")[0]["error_type"] == "Unproven"
    assert case.model.requests[0].body["tools"][-1]["function"]["name"] == "finish_task"
    messages = case.messages(1)
    asked = [call["id"] for call in messages[2]["tool_calls"]]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", *["tool"] * 4]
    assert [message["tool_call_id"] for message in messages[3:]] == [*asked[1:], asked[0]]


@pytest.mark.proves("AF-056", "AF-060")
async def test_finish_put_first_ends_the_run_after_the_other_calls(case: Case) -> None:
    outcome = await case.run(Calls((DONE, Call("shell", {"command": "true"}), LOOK)))
    require_completed(outcome, summary="done")
    assert [payload["tool"] for payload in outcome.payloads("tool_result")] == ["shell", "list_files", "finish_task"]
    assert case.asked == 1


@pytest.mark.proves("AF-061")
async def test_plain_text_after_work_is_the_result(case: Case) -> None:
    outcome = await case.run(LOOK, Say("There is nothing here."))
    require_completed(outcome, summary="There is nothing here.")
    assert "plain_answer_accepted" in outcome.kinds


@pytest.mark.proves("AF-061", "AF-124")
async def test_plain_text_before_any_work_is_sent_back_twice_and_then_marked_unproven(case: Case) -> None:
    outcome = await case.run(Say("I would do it so."))
    require_completed(outcome, summary="I would do it so.", unproven="the model answered without using any tool")
    assert case.asked == 3
    assert [payload["reason"] for payload in outcome.payloads("guidance")] == ["no_tool_use"] * 2
    assert "Do the task with the tools" in case.messages(1)[-1]["content"]


async def test_plain_text_after_an_unproven_change_is_sent_back_once(case: Case) -> None:
    outcome = await case.run(WRITE, Say("Written."))
    assert outcome.result.status is RunStatus.COMPLETED
    assert "no test, build or run command" in outcome.result.payload["unproven"]
    assert [payload["reason"] for payload in outcome.payloads("guidance")] == ["unproven"]


async def test_plain_text_ends_a_chat_at_once(case: Case) -> None:
    outcome = await case.run(Say("Good morning."), profile=Profile.CHAT)
    require_completed(outcome, summary="Good morning.")
    assert case.asked == 1


async def test_same_call_again_is_answered_from_memory_then_forced_to_finish_then_fails(case: Case) -> None:
    counting = Call("shell", {"command": "echo x >> count; cat count"})
    outcome = await case.run(counting)
    outcome.require_failed("model_repeats_itself")
    assert "5 times in a row" in outcome.payloads("run_failed")[0]["message"]
    results = outcome.payloads("tool_result")
    assert [result["repeated"] for result in results] == [False, True, True, True]
    assert (outcome.run_dir / "workspace" / "count").read_text() == "x\n", "it ran once"
    assert "it was not run again" in case.told(2)["note"]
    assert "finish_task now" in case.told(3)["note"]
    assert [request.body["tool_choice"] for request in case.model.requests] == [
        "auto",
        "auto",
        "auto",
        {"type": "function", "function": {"name": "finish_task"}},
        {"type": "function", "function": {"name": "finish_task"}},
    ]
    assert [payload["must_finish"] for payload in outcome.payloads("llm_request")] == [False] * 3 + [True] * 2


async def test_model_that_finishes_when_told_to_stop_repeating_completes(case: Case) -> None:
    outcome = await case.run(LOOK, LOOK, LOOK, DONE)
    require_completed(outcome, summary="done")


async def test_same_call_after_another_one_runs_again(case: Case) -> None:
    look_in = Call("list_files", {"path": "."})
    outcome = await case.run(LOOK, look_in, LOOK, look_in, DONE)
    require_completed(outcome, summary="done")
    assert not any(result["repeated"] for result in outcome.payloads("tool_result"))


# ── tools ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.proves("AF-063", "AF-066", "FC-024")
async def test_tool_that_raises_is_told_and_the_run_goes_on(case: Case) -> None:
    outcome = await case.run(Call("explode"), DONE, **TROUBLE)
    require_completed(outcome, summary="done")
    assert case.told(1) == {"error": "the tool blew up", "error_type": "RuntimeError"}
    assert "security_event" not in outcome.kinds


@pytest.mark.proves("AF-063")
async def test_file_that_is_not_there_is_told_without_the_place_of_the_workspace(case: Case) -> None:
    outcome = await case.run(Call("read_file", {"path": "no/such"}), DONE)
    require_completed(outcome, summary="done")
    assert case.told(1)["error_type"] == "FileNotFoundError"
    assert str(case.folder) not in json.dumps(case.messages())


@pytest.mark.parametrize("what", ["a loop", "deep", "too deep", "strange keys", "not a number"])
async def test_tool_result_that_cannot_be_written_down_is_told_and_the_run_goes_on(case: Case, what: str) -> None:
    outcome = await case.run(Call("unreadable", {"what": what}), DONE, **TROUBLE)
    require_completed(outcome, summary="done")


@pytest.mark.slow
async def test_tool_that_hangs_is_ended_after_its_time(case: Case) -> None:
    outcome = await case.run(Call("hang"), DONE, **TROUBLE)
    require_completed(outcome, summary="done")
    assert case.told(1)["error_type"] == "TimeoutError"
    assert re.match(r"hang did not end by itself and was ended after \d+\.\d s", case.told(1)["error"])
    assert outcome.seconds >= 5, "its own time, and a little to clean up"


async def test_command_that_hangs_is_ended_and_what_it_printed_is_told(case: Case) -> None:
    sleep = long_sleep()
    hanging = Call("shell", {"command": f"echo begun; {sleep} & exec {sleep}"})
    outcome = await case.run(hanging, DONE, DONE, shell={"timeout_s": 2.0})
    assert outcome.result.status is RunStatus.COMPLETED
    assert not running(sleep)
    told = json.dumps(case.told(1))
    assert "Ended after 2 s" in told
    assert "begun" in told, "the output so far is what the model needs to understand why"


@pytest.mark.slow
@pytest.mark.proves("C33", "AF-066")
async def test_plain_function_that_hangs_is_said_to_go_on(case: Case) -> None:
    outcome = await case.run(Call("block"), DONE, **TROUBLE)
    require_completed(outcome, summary="done")
    assert case.told(1)["error_type"] == "TimeoutError"
    said = case.told(1)["error"]
    assert re.match(r"block did not end by itself and goes on: .* It was waited for \d+\.\d s; ", said), said
    assert "look at what it has done before you call it again" in said


@pytest.mark.slow
async def test_thread_of_a_tool_that_hangs_does_not_keep_the_process(tmp_path: Path) -> None:
    async with ScriptedModel([Call("block"), DONE]) as model:
        fabric = Fabric(tmp_path, settings(model.base_url, **TROUBLE))
        ended = await fabric("run", "do it", "--pack", "trouble", "--json")
    assert (ended.code, ended.json["summary"]) == (0, "done")
    assert ended.seconds < 45, "the tool sleeps for a minute, and its time was 0.3"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_stopped_run_is_interrupted_and_goes_on_when_resumed(tmp_path: Path, number: signal.Signals) -> None:
    async with ScriptedModel([LOOK, Hang(), DONE]) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        run = await fabric.start("run", "do it", "--json")
        await model.wait_for_requests(2)
        run.process.send_signal(number)
        stopped = await run.ended()
        (run_dir,) = fabric.run_dirs()
        assert (stopped.code, stopped.json["_meta"]["status"]) == (130, "interrupted")
        assert read_lines(run_dir)[-1]["kind"] == "run_interrupted"
        require_left_behind(run_dir)
        resumed = await fabric("resume", run_dir.name, "--json")
    assert (resumed.code, resumed.json["summary"]) == (0, "done")
    called = [line["payload"]["tool"] for line in read_lines(run_dir) if line["kind"] == "tool_call"]
    assert called == ["list_files", "finish_task"], "what was finished is not repeated"


class Cancelled(NamedTuple):
    cancel: Ended
    run: Ended
    run_dir: Path
    looked: Ended
    """A command that only looks, just before: how long anything takes on this machine now."""


async def cancelled_from_outside(fabric: Fabric, ready: Callable[[], object]) -> Cancelled:
    run = await fabric.start("run", "do it", "--json")
    try:
        await until(ready, "the run hangs")
        looked = await fabric("logs", "list", "--json")
        (run_dir,) = fabric.run_dirs()
        cancel = await fabric("cancel", run_dir.name, "--reason", "enough", "--json")
    finally:
        ended = await run.ended()
    return Cancelled(cancel, ended, run_dir, looked)


def require_cancelled(cancel: Ended, run: Ended, run_dir: Path, looked: Ended) -> None:
    assert cancel.code == 0
    assert cancel.json["_meta"]["status"] == "cancelled"
    assert (run.code, run.json["error"]["code"]) == (1, "cancelled")
    assert read_lines(run_dir)[-1]["kind"] == "run_cancelled"
    assert read_lines(run_dir)[-1]["payload"]["reason"] == "enough"
    require_left_behind(run_dir)
    assert cancel.seconds < max(10, 4 * looked.seconds), "from typing the command to the end of the run"


async def test_cancel_from_another_process_ends_a_run_whose_model_hangs(tmp_path: Path) -> None:
    async with ScriptedModel([Hang()]) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        require_cancelled(*await cancelled_from_outside(fabric, lambda: model.requests))


async def test_cancel_from_another_process_ends_a_run_whose_command_hangs(tmp_path: Path) -> None:
    sleep = long_sleep()
    hanging = Call("shell", {"command": f"touch begun; {sleep} & wait"})
    async with ScriptedModel([hanging, DONE]) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        cancelled = await cancelled_from_outside(
            fabric, lambda: any((run / "workspace" / "begun").exists() for run in fabric.run_dirs()) and running(sleep)
        )
    require_cancelled(*cancelled)
    assert not running(sleep), "the command ended with its run"


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


async def test_command_that_prints_a_hundred_megabytes_is_cut_for_the_model(tmp_path: Path) -> None:
    command = "python3 -c \"import sys; [sys.stdout.write('x' * 999_999 + chr(10)) for _ in range(100)]\""
    async with ScriptedModel([Call("shell", {"command": command}), DONE]) as model:
        ended = await Fabric(tmp_path, settings(model.base_url))("run", "do it", "--json")
        observation = model.requests[1].body["messages"][-1]["content"]
    assert (ended.code, ended.json["summary"]) == (0, "done")
    assert len(observation) <= 16_000
    assert json.loads(observation)["exit_code"] == 0
    assert "cut" in observation
    assert ended.max_rss_bytes < 150_000_000
    assert size_of(tmp_path) < 5_000_000, "what is kept is small as well"


# ── rules ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.proves("AF-063", "AF-120", "AF-121", "AF-123", "AF-144")
@pytest.mark.parametrize(
    ("call", "says"),
    [
        (Call("read_file", {"path": "../x"}), ""),
        (Call("read_file", {"path": "/etc/passwd"}), ""),
        (Call("write_file", {"path": "../../x", "content": ""}), ""),
        (Call("shell", {"command": "ls; rm -rf ../x"}), "not in the workspace"),
        (Call("shell", {"command": "sudo ls"}), "another user"),
    ],
    ids=["parent", "absolute", "write", "removes outside", "other user"],
)
async def test_reaching_out_of_the_box_is_an_error_and_a_security_event(case: Case, call: Call, says: str) -> None:
    outcome = await case.run(call, LOOK, DONE)
    require_completed(outcome, summary="done")
    told = case.told(1)
    assert told["error_type"] == "PermissionError"
    assert says in told["error"]
    (event,) = outcome.payloads("security_event")
    assert (event["event_type"], event["tool"]) == ("sandbox_violation", call.tool)
    assert event["error_message"] == told["error"]
    assert str(case.folder) not in json.dumps(case.messages())


def require_waiting(outcome: Outcome, command: str) -> str:
    """Check that a run waits for a person's word on this very command; return why."""
    assert outcome.result.status is RunStatus.WAITING
    (asked,) = outcome.payloads("approval_requested")
    assert (asked["tool"], asked["args"]) == ("shell", {"command": command})
    assert outcome.result.waiting_for == (asked["approval_id"],)
    assert outcome.kinds[-2:] == ["approval_requested", "run_waiting"]
    assert outcome.payloads("run_waiting")[0]["approvals"] == [asked["approval_id"]]
    assert not {"tool_call", "tool_result", "tool_error", "security_event"} & set(outcome.kinds), "nothing has run"
    return str(asked["reason"])


@pytest.mark.proves("AF-125", "C17")
@pytest.mark.parametrize("command", ["make deploy", "true && make publish"])
async def test_deploy_and_push_wait_for_a_person(case: Case, command: str) -> None:
    outcome = await case.run(Call("shell", {"command": command}), DONE)
    assert "a person has to agree" in require_waiting(outcome, command)
    assert case.asked == 1


@pytest.mark.proves("AF-121", "C17")
@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("touch before; frobnicate now", "'frobnicate' is not on the list of allowed commands"),
        ("ls; $(echo curl) x", "only known at run time"),
        ("echo 'never closed", "not understood"),
    ],
    ids=["unknown", "dynamic", "unparsable"],
)
async def test_command_that_the_policy_does_not_know_waits_for_a_person(case: Case, command: str, reason: str) -> None:
    outcome = await case.run(Call("shell", {"command": command}), DONE)
    assert reason in require_waiting(outcome, command)
    assert not list((outcome.run_dir / "workspace").iterdir()), "no part of it has run"


@pytest.mark.proves("AF-125", "C17")
async def test_what_nobody_agrees_to_in_time_is_not_run_but_proposed_in_the_result(tmp_path: Path) -> None:
    push = Call("shell", {"command": "make deploy"})
    async with ScriptedModel([push, Call("shell", {"command": "true"}), DONE]) as model:
        fabric = Fabric(tmp_path, settings(model.base_url, policy={"approval_timeout_s": 1.0}))
        waiting = await fabric("run", "do it", "--json")
        assert (waiting.code, waiting.json["_meta"]["status"]) == (3, "waiting")
        assert len(waiting.json["_meta"]["approvals"]) == 1
        (run_dir,) = fabric.run_dirs()
        (asked,) = [line["payload"] for line in read_lines(run_dir) if line["kind"] == "approval_requested"]
        await until(lambda: time.time() > asked["expires_at"], "the question has expired")
        resumed = await fabric("resume", run_dir.name, "--json")
    assert (resumed.code, resumed.json["proposed_actions"]) == (4, ["make deploy"])
    (erred,) = [line["payload"] for line in read_lines(run_dir) if line["kind"] == "tool_error"]
    assert erred["error_type"] == "ApprovalExpired"
    assert "Nobody agreed to this call in time" in model.requests[1].body["messages"][-1]["content"]


async def test_model_cannot_claim_what_only_the_engine_knows(case: Case) -> None:
    claim = Finish(summary="done", unproven="", proposed_actions=["rm -rf /"], _meta={"proof": "trust me"})
    outcome = await case.run(WRITE, claim)
    assert "no test, build or run command" in outcome.result.payload["unproven"]
    assert "proposed_actions" not in outcome.result.payload
    assert not outcome.result.proof


# ── finishing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.proves("AF-124")
async def test_finish_without_evidence_is_sent_back_once_and_then_marked_unproven(case: Case) -> None:
    outcome = await case.run(WRITE, DONE)
    reason = "no test, build or run command succeeded after the last file change"
    require_completed(outcome, summary="done", unproven=reason)
    assert case.told(2)["error_type"] == "Unproven"
    assert "Run the tests" in case.told(2)["error"]
    assert case.asked == 3


@pytest.mark.proves("AF-124")
async def test_failing_command_and_change_after_the_proof_are_no_evidence(case: Case) -> None:
    outcome = await case.run(
        WRITE,
        Call("shell", {"command": "python3 hello.py"}),
        Call("write_file", {"path": "hello.py", "content": "raise SystemExit(1)\n"}),
        Call("shell", {"command": "python3 ./hello.py"}),
        DONE,
    )
    assert "unproven" in outcome.result.payload
    assert not outcome.result.proof


@pytest.mark.proves("AF-124", "AF-145")
async def test_finish_with_evidence_names_its_proof(tmp_path: Path) -> None:
    async with ScriptedModel([WRITE, Call("shell", {"command": "python3 hello.py"}), DONE]) as model:
        ended = await Fabric(tmp_path, settings(model.base_url))("run", "do it", "--json")
    assert ended.code == 0
    assert ended.json["_meta"]["proof"]["command"] == "python3 hello.py"
    assert ended.json["_meta"]["status"] == "completed"
    assert "unproven" not in ended.json
    assert "error" not in ended.json


async def test_a_boast_about_nothing_ends_as_unproven(case: Case) -> None:
    boast = Finish(summary="Fixed add(), the test passed.", changed=["calc.py"], checked=["python3 test_calc.py"])
    lay_out = Call("shell", {"command": "python3 -c 'pass'"})
    outcome = await case.run(lay_out, boast, prompt="Fix the bug in calc.py")
    require_completed(
        outcome,
        summary="Fixed add(), the test passed.",
        checked=["python3 test_calc.py"],
        unproven="nothing was changed",
    )
    assert case.told(2)["error_type"] == "Unproven"
    assert "Nothing in the workspace is different" in case.told(2)["error"]
    (compared, *_) = outcome.payloads("workspace_compared")
    assert (compared["known"], compared["created"], compared["modified"]) == (True, [], [])


async def test_a_text_that_is_written_back_as_it_was_is_no_change(case: Case) -> None:
    undo = Call("shell", {"command": "rm hello.py"})
    outcome = await case.run(WRITE, undo, DONE, prompt="Add a greeting to hello.py")
    assert outcome.result.payload["unproven"] == "nothing was changed"


async def test_a_file_and_a_command_that_are_only_claimed_are_named(case: Case) -> None:
    run = Call("shell", {"command": "python3 hello.py"})
    claims = Finish(
        summary="Created main.py.", changed=["hello.py", "util.py"], checked=["python3 hello.py", "pytest -q"]
    )
    outcome = await case.run(WRITE, run, claims)
    unproven = outcome.result.payload["unproven"]
    assert unproven == (
        "util.py is said to have changed, but it is as it was; "
        "`pytest -q` is said to have succeeded, but it did not run"
    )
    assert "util.py is said to have changed" in case.told(3)["error"]
    assert outcome.result.payload["changed"] == ["hello.py"]


async def test_running_the_program_is_not_enough_where_there_are_tests(case: Case) -> None:
    calc = Call("write_file", {"path": "calc.py", "content": "def add(a, b):\n    return a + b\n"})
    test = Call(
        "write_file",
        {
            "path": "test_calc.py",
            "content": "import unittest\nfrom calc import add\n\n\nclass T(unittest.TestCase):\n"
            "    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n",
        },
    )
    run = Call("shell", {"command": "python3 calc.py"})
    tests = Call("shell", {"command": "python3 -m unittest test_calc"})
    outcome = await case.run(calc, test, run, DONE, tests, DONE)
    assert "test_calc.py tests what you changed" in case.told(4)["error"]
    assert "python3 -m unittest test_calc" in case.told(4)["error"]
    require_completed(outcome, summary="done")
    assert outcome.result.proof.kind is ProofKind.TESTS
    assert outcome.result.proof.own_tests
    assert outcome.payloads("workspace_compared")[-1]["tests"] == ["test_calc.py"]


async def test_tests_that_are_never_run_leave_the_result_unproven(case: Case) -> None:
    calc = Call("write_file", {"path": "calc.py", "content": "print(1)\n"})
    test = Call("write_file", {"path": "test_calc.py", "content": "import calc\n"})
    outcome = await case.run(calc, test, Call("shell", {"command": "python3 calc.py"}), DONE)
    assert outcome.result.payload["unproven"] == "the tests of what was changed were not run: test_calc.py"


async def test_numbers_that_nothing_says_are_marked(case: Case) -> None:
    run = Call("shell", {"command": "python3 hello.py"})
    outcome = await case.run(WRITE, run, Finish(summary="Wrote 269 bytes, modified 21 times; it prints hello."))
    require_completed(outcome, summary="Wrote 269 bytes, modified 21 times; it prints hello.", unverified=["269", "21"])


async def test_what_a_program_printed_stands_beside_the_proof_that_it_runs(tmp_path: Path) -> None:
    write = Call("write_file", {"path": "count.py", "content": "for n in range(1, 9):\n    print('line', n)\n"})
    async with ScriptedModel([write, Call("shell", {"command": "python3 count.py"}), DONE]) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        ended = await fabric("run", "do it", "--json")
        assert ended.json["_meta"]["proof"]["printed"] == "line 1\nline 2\nline 3"
        shown = await fabric("logs", "show", "--last")
        assert "created count.py" in shown.out
        verified = await fabric("verify", ended.json["_meta"]["run_id"])
    assert "claims of engineering" in verified.out
    assert verified.code == 0


@pytest.mark.proves("AF-058")
async def test_finish_without_prior_work_is_sent_back_until_something_was_done(case: Case) -> None:
    outcome = await case.run(DONE, DONE, LOOK, DONE)
    require_completed(outcome, summary="done")
    assert [payload["error_type"] for payload in outcome.payloads("tool_error")] == ["NoWorkDone"] * 2
    assert "use at least one other tool" in case.told(1)["error"]


@pytest.mark.proves("AF-059")
@pytest.mark.parametrize(
    ("finish", "error_type", "says"),
    [
        (Finish(notes="n"), "InvalidFinish", "summary is missing"),
        (Finish(summary=7), "InvalidFinish", "summary must be string"),
        (Finish(summary="s", artifacts="a.py"), "InvalidFinish", "artifacts must be array"),
        (Call("finish_task", '{"summary": "s'), "BadArguments", "not valid JSON"),
    ],
)
async def test_finish_that_does_not_fit_its_schema_is_sent_back(
    case: Case, finish: Call, error_type: str, says: str
) -> None:
    outcome = await case.run(LOOK, finish, Finish(summary="done", artifacts=[], notes="n"))
    require_completed(outcome, summary="done", artifacts=[], notes="n")
    told = case.told(2)
    assert told["error_type"] == error_type
    assert says in told["error"]


# ── limits ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def counting(usage: tuple[int, int] | None = None) -> Responder:
    """A model that never finishes: a different command each time."""

    def respond(request: dict[str, Any], attempt: int) -> Answer:
        return Call("shell", {"command": f"echo {len(request['messages'])}"}, usage=usage)

    return respond


@pytest.mark.proves("AF-053")
async def test_step_budget_ends_the_run(case: Case) -> None:
    outcome = await case.run(responder=counting(), budget={"max_steps": 3})
    outcome.require_failed("budget_exhausted")
    assert (case.asked, outcome.result.steps) == (3, 3)
    assert outcome.payloads("budget_exhausted") == [{"resource": "steps", "limit": 3, "used": 3}]
    assert "--max-steps" in outcome.hint
    assert len(outcome.payloads("tool_result")) == 3, "what the last answer asked for is still done"


@pytest.mark.proves("AF-053")
async def test_forty_steps_are_the_default(case: Case) -> None:
    outcome = await case.run(responder=counting())
    outcome.require_failed("budget_exhausted")
    assert case.asked == 40


@pytest.mark.parametrize(("budget", "steps"), [({}, 15), ({"max_steps": 3}, 3), ({"max_steps": 99}, 50)])
async def test_chat_has_fifteen_steps_and_never_more_than_fifty(case: Case, budget: dict[str, int], steps: int) -> None:
    outcome = await case.run(responder=counting(), budget=budget, profile=Profile.CHAT)
    outcome.require_failed("budget_exhausted")
    assert case.asked == steps


async def test_token_budget_ends_the_run(case: Case) -> None:
    outcome = await case.run(responder=counting((300, 40)), budget={"max_tokens": 1_000})
    outcome.require_failed("budget_exhausted")
    assert outcome.payloads("budget_exhausted") == [{"resource": "tokens", "limit": 1_000, "used": 1_020}]
    assert case.asked == 3
    assert "max_tokens" in outcome.hint


@pytest.mark.parametrize("slow", [Hang(), Call("shell", {"command": "sleep 60"})], ids=["model", "tool"])
async def test_time_budget_ends_the_run_also_in_the_middle_of_a_call(case: Case, slow: Answer) -> None:
    outcome = await case.run(slow, budget={"max_seconds": 0.8})
    outcome.require_failed("budget_exhausted")
    (spent,) = outcome.payloads("budget_exhausted")
    assert (spent["resource"], spent["limit"]) == ("seconds", 0.8)
    assert 0.8 <= outcome.seconds < 45
    assert "max_seconds" in outcome.hint


def conversation(*turns: Answer, summary: Answer) -> Responder:
    """A model whose answers come in order, whatever the conversation has become; and its summary when asked for one."""
    left = list(turns)

    def respond(request: dict[str, Any], attempt: int) -> Answer:
        if "tools" not in request:
            return summary
        return left.pop(0)

    return respond


def echo(number: int, usage: tuple[int, int] | None = None) -> Call:
    return Call("shell", {"command": f"echo {number}"}, usage=usage)


def require_paired(messages: list[dict[str, Any]]) -> None:
    """Every call is followed by its result, and every result follows its call."""
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            open_calls.remove(message["tool_call_id"])
        else:
            assert not open_calls
            open_calls = [call["id"] for call in message.get("tool_calls", ())]
    assert not open_calls


def require_compacted(case: Case, before: int, after: int, summary: str, *, newer: int = 0) -> None:
    """Check two requests, the second with `newer` messages that the first had not yet."""
    old, new = case.messages(before), case.messages(after)
    assert len(new) < len(old) + newer
    assert json.dumps(new[:2]) == json.dumps(old[:2]), "prompt and task stay as they are"
    assert new[2]["role"] == "user"
    assert summary in new[2]["content"]
    require_paired(new)
    kept = new[3 : len(new) - newer]
    assert kept == old[len(old) - len(kept) :], "what stays is the newest, unchanged"


async def test_context_that_is_exceeded_is_compacted_and_the_run_goes_on(case: Case) -> None:
    turns = (echo(1), echo(2), echo(3), ContextExceeded(5_000, 4_096), DONE)
    outcome = await case.run(responder=conversation(*turns, summary=Say("Echoed one and two.", usage=(50, 7))))
    require_completed(outcome, summary="done")
    (compacted,) = outcome.payloads("context_compacted")
    assert compacted["by_model"]
    assert compacted["usage"] == {"prompt_tokens": 50, "completion_tokens": 7, "cached_tokens": 0}
    assert [payload["purpose"] for payload in outcome.payloads("llm_request")][3:] == ["turn", "compaction", "turn"]
    require_compacted(case, 3, 5, "Echoed one and two.")
    assert case.messages(4)[:2] == case.messages(3)[:2]


async def test_context_is_compacted_with_a_list_when_the_model_cannot_summarise(case: Case) -> None:
    turns = (echo(1), echo(2), ContextExceeded(5_000, 4_096), DONE)
    outcome = await case.run(responder=conversation(*turns, summary=ContextExceeded(5_000, 4_096)))
    require_completed(outcome, summary="done")
    assert outcome.payloads("context_compacted")[0]["by_model"] is False
    require_compacted(case, 2, 4, '- shell {"command": "echo 1"}')


async def test_context_that_is_exceeded_with_nothing_to_compact_fails(case: Case) -> None:
    outcome = await case.run(ContextExceeded(5_000, 4_096))
    outcome.require_failed("context_exceeded")
    assert "context_window" in outcome.hint
    assert case.asked == 1
    assert "context_compacted" not in outcome.kinds


async def test_context_that_stays_exceeded_after_compaction_fails(case: Case) -> None:
    turns: list[Answer] = [echo(1), echo(2), echo(3), *[ContextExceeded(5_000, 4_096)] * 9]
    outcome = await case.run(responder=conversation(*turns, summary=Say("short")))
    outcome.require_failed("context_exceeded")
    assert case.asked < 10


async def test_conversation_is_compacted_when_recorded_usage_nears_the_window(case: Case) -> None:
    turns = (echo(1, (100, 9)), echo(2, (200, 9)), echo(3, (300, 9)), echo(4, (760, 9)), echo(5, (200, 9)), DONE)
    outcome = await case.run(
        responder=conversation(*turns, summary=Say("Echoed so far.")), model={"context_window": 1_000}
    )
    require_completed(outcome, summary="done")
    kinds = [kind for kind in outcome.kinds if kind in ("llm_response", "context_compacted")]
    assert kinds == ["llm_response"] * 4 + ["context_compacted"] + ["llm_response"] * 2
    require_compacted(case, 3, 5, "Echoed so far.", newer=2)
    assert len(case.messages(5)) == 7, "prompt, task, summary and the two newest turns"


# ── the disk, the command line ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    need(mounted.returncode == 0, "a small disk can only be made by root with CAP_SYS_ADMIN")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(file: Path, *, leaving: int = 0) -> None:
    with file.open("wb", buffering=0) as target, contextlib.suppress(OSError):
        while True:
            target.write(b"x" * 4096)
    if leaving:
        with file.open("r+b") as target:
            target.truncate(max(file.stat().st_size - leaving, 0))


@pytest.mark.proves("AF-131")
async def test_run_that_fills_its_disk_stops_and_goes_on_when_there_is_space(tmp_path: Path, small_disk: Path) -> None:
    big = Call("shell", {"command": "dd if=/dev/zero of=filler bs=4096 || true; echo full"})
    async with ScriptedModel(
        [LOOK, Slow(big, 1.0), Call("shell", {"command": "rm -f filler; true"}), DONE, DONE]
    ) as model:
        fabric = Fabric(small_disk, settings(model.base_url), home=tmp_path / "home")
        ended = await fabric("run", "do it", "--json")
        assert (ended.code, ended.json["error"]["code"]) == (1, "disk_full")
        assert "fabric resume" in ended.json["error"]["hint"]
        (run_dir,) = fabric.run_dirs()
        require_left_behind(run_dir)
        (run_dir / "workspace" / "filler").unlink()
        resumed = await fabric("resume", run_dir.name, "--json")
    assert (resumed.code, resumed.json.get("summary")) == (0, "done"), resumed.out
    seqs = [line["seq"] for line in read_lines(run_dir)]
    assert seqs == list(range(len(seqs))), "the log has no gap"


@pytest.mark.parametrize("leaving", [0, 16_384, 65_536])
async def test_run_on_a_full_disk_says_so(tmp_path: Path, small_disk: Path, leaving: int) -> None:
    fill(small_disk / "filler", leaving=leaving)
    async with ScriptedModel([LOOK, DONE]) as model:
        fabric = Fabric(small_disk, settings(model.base_url), home=tmp_path / "home")
        ended = await fabric("run", "do it", "--json")
        assert (ended.code, ended.json["error"]["code"]) == (1, "disk_full"), ended.out
        (small_disk / "filler").unlink()
        assert (await fabric("run", "do it", "--json")).code == 0, "and works when there is space"


@pytest.mark.parametrize(
    ("option", "code", "hint"),
    [
        (("--pack", "nobody"), "pack_unknown", "engineering"),
        (("--model-key", "nothing"), "config_invalid", "fast, quality"),
        (("--max-steps", "0"), "config_invalid", "fabric run --help"),
    ],
)
async def test_wrong_usage_is_exit_code_two_and_makes_no_run(
    tmp_path: Path, option: tuple[str, str], code: str, hint: str
) -> None:
    async with ScriptedModel([DONE]) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        ended = await fabric("run", "do it", *option, "--json")
        listed = await fabric("logs", "list", "--json")
    assert (ended.code, ended.json["error"]["code"]) == (2, code)
    assert hint in ended.json["error"]["hint"]
    assert fabric.run_dirs() == []
    assert listed.json == {"runs": []}
    assert model.requests == []


async def test_failure_is_exit_code_one_in_words_and_the_same_again_on_resume(tmp_path: Path) -> None:
    async with ScriptedModel([Status(404)]) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        ended = await fabric("run", "do it")
        again = await fabric("resume", "--last", "--json")
    assert ended.code == again.code == 1
    assert "answered 404" in ended.out
    assert "hint: Check `base_url` and `model`" in ended.out
    assert "Traceback" not in ended.out + ended.err
    assert again.json["error"]["code"] == "model_refused"
    assert len(model.requests) == 1, "a settled run only tells its result"


# ── for every run ─────────────────────────────────────────────────────────────────────────────────────────────────────


@contextlib.asynccontextmanager
async def overheard(port: int) -> AsyncIterator[tuple[str, bytearray]]:
    """Stand between client and server and note every byte that the client sends."""
    heard = bytearray()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", port)

        async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter, note: bytearray) -> None:
            with contextlib.suppress(ConnectionError):
                while data := await source.read(65_536):
                    note += data
                    target.write(data)
                    await target.drain()
            target.close()

        await asyncio.gather(pass_on(reader, server_writer, heard), pass_on(server_reader, writer, bytearray()))

    async with await asyncio.start_server(relay, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", heard


@pytest.mark.proves("AF-074")
@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "whole"])
async def test_each_request_begins_with_the_bytes_of_the_one_before(tmp_path: Path, streaming: bool) -> None:
    script = (
        Calls((echo(1), Call("list_files", '{ "path" :  "."}')), text="First, é ☃."),
        Call("read_file", "{broken"),
        Call("shell", {"command": "printf '\\xff\\xfe'"}),
        Turn(Say("Hm."), faults=(Status(503, retry_after=0), Raw("<html>"), Empty())),
        WRITE,
        DONE,
    )
    async with ScriptedModel(script) as model, overheard(model.port) as (url, heard):
        outcome = await carry_out(tmp_path, url, sink=ListSink(wants_deltas=streaming), prompt="do ünïcode it")
    assert outcome.result.status is RunStatus.COMPLETED
    bodies = re.findall(rb'"messages":\[(.*?)\],"temperature":', bytes(heard))
    assert len(bodies) == len(model.requests) > 6
    for before, after in pairwise(bodies):
        assert after.startswith(before)
    asked = outcome.payloads("llm_request")
    assert [payload["message_count"] for payload in asked] == [len(r.body["messages"]) for r in model.requests]
    assert {"model", "temperature", "top_p", "max_tokens"} <= model.requests[0].body.keys()


@pytest.mark.proves("AF-065", "AF-133", "AF-138", "AF-139", "AF-141", "AF-142", "AF-143", "AF-144", "AF-145")
async def test_what_was_said_and_done_is_in_the_log_and_in_the_live_events_alike(case: Case) -> None:
    sink = ListSink()
    outcome = await case.run(Calls((LOOK,), text=LONG * 2), Call("read_file", {"path": "../x"}), DONE, sink=sink)
    assert outcome.kinds == [event.body.kind for event in sink.events]
    assert outcome.kinds == [
        *("run_created", "recruitment", "pack_start"),
        *("llm_request", "llm_response", "tool_call", "tool_result"),
        *("llm_request", "llm_response", "tool_call", "tool_error", "security_event"),
        *("llm_request", "llm_response", "workspace_compared", "tool_call", "tool_result", "run_complete"),
    ]
    fields = {
        "llm_request": {"step", "message_count"},
        "llm_response": {"content", "tool_calls"},
        "tool_call": {"tool", "args"},
        "tool_result": {"tool", "result"},
        "tool_error": {"tool", "error_type", "error_message"},
        "security_event": {"event_type", "tool", "error_message"},
        "run_complete": {"run_id", "specialist_ids", "task_force_mode"},
    }
    for line in outcome.lines:
        assert fields.get(line["kind"], set()) <= line["payload"].keys()
        assert list(line)[:4] == ["ts", "kind", "step", "payload"]
    assert outcome.payloads("llm_response")[0]["content"] == (LONG * 2)[:2_000], "cut in the log"
    assert case.messages(1)[2]["content"] == LONG * 2, "but not in the conversation"
    (complete,) = outcome.payloads("run_complete")
    assert complete["run_id"] == outcome.result.run_id
    assert (complete["specialist_ids"], complete["task_force_mode"]) == (["engineering"], "sequential")


SECRET = "sk-very-secret-0123456789"


def files_that_hold(text: str, folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file() and text.encode() in file.read_bytes()]


async def test_key_is_sent_and_appears_in_no_event_and_no_file(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_MODEL_KEY", SECRET)
    sink = ListSink()
    outcome = await case.run(LOOK, DONE, sink=sink, model={"api_key": "env:LAB_MODEL_KEY"})
    require_completed(outcome, summary="done")
    assert {request.headers["authorization"] for request in case.model.requests} == {f"Bearer {SECRET}"}
    assert files_that_hold(SECRET, case.folder) == []
    assert SECRET not in repr(sink.events)


async def test_key_that_a_server_repeats_in_its_error_is_not_written_down(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_MODEL_KEY", SECRET)
    body = json.dumps({"error": {"message": f"Incorrect API key provided: {SECRET}"}})
    outcome = await case.run(Status(401, body), model={"api_key": "env:LAB_MODEL_KEY"})
    outcome.require_failed("model_refused")
    assert files_that_hold(SECRET, case.folder) == []


async def test_key_that_is_not_set_fails_with_its_name(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAB_MODEL_KEY", raising=False)
    outcome = await case.run(LOOK, DONE, model={"api_key": "env:LAB_MODEL_KEY"})
    outcome.require_failed("config_invalid")
    assert "LAB_MODEL_KEY" in outcome.hint
    assert case.asked == 0


NASTY_ARGUMENTS = (
    '{"path": "\\ud800"}',
    '{"path": "\\u0000"}',
    '{"path": "' + "a/" * 3_000 + '"}',
    '{"path": "' + "x" * 100_000 + '"}',
    '{"path": 1e999}',
    '{"path": ' + "9" * 4_000 + "}",
    '{"path": ' + "9" * 5_000 + "}",
    '{"path": NaN}',
    '{"path": ' + "[" * 300 + "]" * 300 + "}",
    '{"path": ' + '{"a": ' * 900 + "1" + "}" * 901,
    "[" * 5_000,
    '{"$blob": "00", "chars": 1, "path": "a"}',
    "\u2028\x1b[2J",
)


@pytest.mark.parametrize("tool", ["read_file", "list_files", "shell", "finish_task", "fly"])
async def test_no_arguments_whatever_can_break_a_run(tmp_path: Path, tool: str) -> None:
    def respond(request: dict[str, Any], attempt: int) -> Answer:
        number = int(re.findall(r"number (\d+)", request["messages"][1]["content"])[0])
        text = NASTY_ARGUMENTS[number].replace('"path"', '"command"' if tool == "shell" else '"path"')
        if tool == "finish_task":
            text = text.replace('"path"', '"summary"')
        return (LOOK, Call(tool, text), Call("list_files", {"path": "."}), DONE, DONE)[
            sum(message["role"] == "assistant" for message in request["messages"])
        ]

    # A command that is none is asked about.
    expected = {RunStatus.COMPLETED, *([RunStatus.WAITING] if tool == "shell" else [])}
    async with ScriptedModel(respond) as model:
        configured = settings(model.base_url)
        config = read_config({}, overrides=configured).config
        async with local_fabric(tmp_path, configured) as fabric, asyncio.timeout(30):
            tasks = [
                task_from(config, f"number {number}", pack="engineering") for number in range(len(NASTY_ARGUMENTS))
            ]
            results = await asyncio.gather(*map(fabric.execute_task, tasks), return_exceptions=True)
            broken = [
                (number, result)
                for number, result in enumerate(results)
                if isinstance(result, BaseException) or result.status not in expected
            ]
    assert broken == []


PAGE = Path(__file__).parents[3] / "docs" / "reference" / "outcomes.md"


def test_every_row_of_the_page_for_people_names_its_test() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    outcomes = [row for row in rows if not row.startswith(("| What happens", "| Exit code", "| code", "| `"))]
    assert len(outcomes) > 40
    tests = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parents[2].rglob("test_*.py"))
    for row in outcomes:
        names = re.findall(r"`(test_\w+)`", row)
        assert names, row
        assert all(f"def {name}(" in tests for name in names), row
