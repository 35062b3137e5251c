import asyncio
import contextlib
import errno
import io
import json
import signal
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

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
    Reply,
    Reset,
    Say,
    Script,
    ScriptedModel,
    Slow,
    Status,
    Turn,
)

BOUND_S = 8.0
HELLO = {"role": "user", "content": "hello"}
READ = Call("read_file", {"path": "später.txt"}, call_id="call_1")


def after(turns: int, opening: str = "hello") -> list[dict[str, Any]]:
    """Messages of a conversation in which the model has had this many turns."""
    answered = [{"role": "assistant", "content": "…"}, {"role": "user", "content": "go on"}]
    return [{"role": "user", "content": opening}, *answered * turns]


@dataclass(frozen=True)
class Client:
    session: aiohttp.ClientSession

    async def post(self, model: ScriptedModel | str, messages: Any = (HELLO,), **more: Any) -> tuple[int, str]:
        url = model if isinstance(model, str) else model.base_url
        body = {"model": "tiny", "messages": list(messages), **more}
        async with self.session.post(f"{url}/chat/completions", json=body) as response:
            return response.status, await response.text()

    async def text(self, model: ScriptedModel | str, messages: Any = (HELLO,)) -> str:
        """The text of a good answer, or the status of a bad one."""
        status, body = await self.post(model, messages)
        return str(json.loads(body)["choices"][0]["message"]["content"]) if status == 200 else str(status)

    async def whole(self, model: ScriptedModel) -> dict[str, Any]:
        status, body = await self.post(model)
        assert status == 200
        completion: dict[str, Any] = json.loads(body)
        return completion

    async def stream(self, model: ScriptedModel, **more: Any) -> list[dict[str, Any]]:
        status, body = await self.post(model, stream=True, **more)
        assert status == 200
        *events, done, end = body.split("\n\n")
        assert (done, end) == ("data: [DONE]", "")
        return [json.loads(event.removeprefix("data: ")) for event in events]

    async def message(self, model: ScriptedModel, *, stream: bool) -> dict[str, Any]:
        """The assistant's message, put together from its deltas when streamed, with the reason of its end."""
        if not stream:
            choice = (await self.whole(model))["choices"][0]
            return {**choice["message"], "finish_reason": choice["finish_reason"]}
        message: dict[str, Any] = {}
        calls: dict[int, dict[str, Any]] = {}
        for choice in (chunk["choices"][0] for chunk in await self.stream(model)):
            delta = choice["delta"]
            if "role" in delta:
                message = dict(delta)
            elif "content" in delta:
                message["content"] += delta["content"]
            for piece in delta.get("tool_calls", []):
                index = piece.pop("index")
                if index in calls:
                    calls[index]["function"]["arguments"] += piece["function"]["arguments"]
                else:
                    calls[index] = piece
            message["finish_reason"] = choice["finish_reason"]
        return message | ({"tool_calls": list(calls.values())} if calls else {})


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    timeout = aiohttp.ClientTimeout(total=BOUND_S)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        yield Client(session)


def sent_call(call_id: str, tool: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": tool, "arguments": arguments}}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Say("grüß Gott, 世界"), {"content": "grüß Gott, 世界", "finish_reason": "stop"}),
        (Empty(), {"content": None, "finish_reason": "stop"}),
        (
            READ,
            {
                "content": None,
                "tool_calls": [sent_call("call_1", "read_file", '{"path": "später.txt"}')],
                "finish_reason": "tool_calls",
            },
        ),
        (
            Call("read_file", '{"path": ', call_id="broken"),
            {
                "content": None,
                "tool_calls": [sent_call("broken", "read_file", '{"path": ')],
                "finish_reason": "tool_calls",
            },
        ),
        (
            Calls((READ, Call("now", call_id="call_2")), text="Both at once."),
            {
                "content": "Both at once.",
                "tool_calls": [
                    sent_call("call_1", "read_file", '{"path": "später.txt"}'),
                    sent_call("call_2", "now", "{}"),
                ],
                "finish_reason": "tool_calls",
            },
        ),
    ],
)
async def test_reply_arrives_whole_and_streamed(
    client: Client, reply: Reply, expected: dict[str, Any], stream: bool
) -> None:
    async with ScriptedModel([reply]) as model:
        assert await client.message(model, stream=stream) == {"role": "assistant", **expected}


async def test_completion_has_the_fields_of_openai(client: Client) -> None:
    async with ScriptedModel([Say("hi", usage=(12, 3))]) as model:
        completion = await client.whole(model)
    assert completion.pop("id").startswith("chatcmpl-")
    assert abs(completion.pop("created") - time.time()) < 60
    assert completion == {
        "object": "chat.completion",
        "model": "tiny",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
    }


async def test_stream_splits_text_and_tool_calls_over_several_chunks(client: Client) -> None:
    async with ScriptedModel([Calls((READ,), text="one two three")]) as model:
        chunks = await client.stream(model)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert all("usage" not in chunk for chunk in chunks)
    assert len([delta for delta in deltas if delta.get("content")]) > 2
    first, *pieces = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert first == {"index": 0, **sent_call("call_1", "read_file", "")}
    assert len(pieces) > 2
    assert all(piece.keys() == {"index", "function"} for piece in pieces)
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * (len(chunks) - 1) + ["tool_calls"]


async def test_stream_ends_with_the_usage_when_asked_for_it(client: Client) -> None:
    async with ScriptedModel([Say("hi", usage=(12, 3))]) as model:
        *chunks, last = await client.stream(model, stream_options={"include_usage": True})
    assert last["choices"] == []
    assert last["usage"] == {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
    assert all(chunk["usage"] is None for chunk in chunks)


async def test_usage_is_estimated_from_the_sizes_of_request_and_answer(client: Client) -> None:
    async with ScriptedModel([Say("x" * 400)]) as model:
        usage = (await client.whole(model))["usage"]
        assert usage["completion_tokens"] == 100
        assert usage["prompt_tokens"] == int(model.requests[0].headers["content-length"]) // 4
        assert usage["total_tokens"] == usage["prompt_tokens"] + 100


async def test_call_ids_differ_between_turns_and_stay_the_same_for_the_same_question(client: Client) -> None:
    async with ScriptedModel([Calls((Call("a"), Call("b")))]) as model:

        async def ids(turns: int) -> list[str]:
            body = json.loads((await client.post(model, after(turns)))[1])
            return [call["id"] for call in body["choices"][0]["message"]["tool_calls"]]

        first, second, again = await ids(0), await ids(1), await ids(0)
    assert len({*first, *second}) == 4
    assert again == first


def test_finish_is_a_call_of_finish_task() -> None:
    assert Finish(summary="done", success=True) == Call("finish_task", {"summary": "done", "success": True})


@pytest.mark.parametrize("stream", [False, True])
async def test_status_is_an_openai_error_with_retry_after(client: Client, stream: bool) -> None:
    async with ScriptedModel([Status(429, retry_after=2)]) as model:
        body = {"messages": [HELLO], "stream": stream}
        async with client.session.post(f"{model.base_url}/chat/completions", json=body) as response:
            assert (response.status, response.headers["Retry-After"]) == (429, "2")
            assert (await response.json())["error"]["message"] == "scripted status 429"


async def test_status_sends_the_given_body(client: Client) -> None:
    async with ScriptedModel([Status(502, "<html>bad gateway</html>")]) as model:
        assert await client.post(model) == (502, "<html>bad gateway</html>")


@pytest.mark.parametrize("stream", [False, True])
async def test_prompt_that_is_too_long_is_refused_like_llama_cpp_does(client: Client, stream: bool) -> None:
    async with ScriptedModel([ContextExceeded(5000, 4096)]) as model:
        status, body = await client.post(model, stream=stream)
    error = json.loads(body)["error"]
    assert status == 400
    assert "5000" in error.pop("message")
    assert error == {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 5000, "n_ctx": 4096}


@pytest.mark.parametrize("stream", [False, True])
async def test_hanging_model_stays_silent_until_the_client_leaves(client: Client, stream: bool) -> None:
    async with ScriptedModel([Turn(Say("hi"), faults=(Hang(),))]) as model:
        asking = asyncio.create_task(client.post(model, stream=stream))
        await model.wait_for_requests(1)
        assert not (await asyncio.wait([asking], timeout=0.05))[0]
        asking.cancel()
        assert await client.text(model) == "hi"


async def test_hanging_model_hangs_up_after_the_given_time(client: Client) -> None:
    async with ScriptedModel([Hang(0.02)]) as model:
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await client.post(model)


async def test_slow_answer_comes_late_and_whole(client: Client) -> None:
    async with ScriptedModel([Slow(Say("at last"), 0.05)]) as model:
        assert await client.text(model) == "at last"
        assert time.monotonic() - model.requests[0].at >= 0.05


@pytest.mark.parametrize("after_bytes", [0, 1, 100, 10**9])
@pytest.mark.parametrize("stream", [False, True])
async def test_cut_answer_breaks_off_inside_its_body(client: Client, stream: bool, after_bytes: int) -> None:
    async with ScriptedModel([Turn(Say("hi"), faults=(Cut(Say("never whole"), after_bytes),))]) as model:
        body = {"messages": [HELLO], "stream": stream}
        async with client.session.post(f"{model.base_url}/chat/completions", json=body) as response:
            assert response.status == 200
            if after_bytes <= 100:
                assert len(await response.content.readexactly(after_bytes)) == after_bytes
            with pytest.raises(aiohttp.ClientPayloadError):
                await response.content.read()
        assert await client.text(model) == "hi"


@pytest.mark.parametrize("stream", [False, True])
async def test_reset_breaks_the_tcp_connection(client: Client, stream: bool) -> None:
    async with ScriptedModel([Reset(), Say("hi")]) as model:
        with pytest.raises(aiohttp.ClientOSError) as caught:
            await client.post(model, stream=stream)
        assert caught.value.errno == errno.ECONNRESET
        assert await client.text(model) == "hi"


@pytest.mark.parametrize("stream", [False, True])
async def test_raw_body_is_sent_as_it_is(client: Client, stream: bool) -> None:
    async with ScriptedModel([Raw(b"\xff{]", "text/event-stream"), Raw("nothing")]) as model:
        url, body = f"{model.base_url}/chat/completions", {"messages": [HELLO], "stream": stream}
        async with client.session.post(url, json=body) as response:
            assert (response.status, response.content_type) == (200, "text/event-stream")
            assert await response.read() == b"\xff{]"
        assert await client.post(model, stream=stream) == (200, "nothing")


async def test_turn_gives_its_faults_before_its_answer(client: Client) -> None:
    script: list[Entry] = [Say("zero"), Turn(Say("one"), faults=(Status(503, times=2), Status(500)))]
    async with ScriptedModel(script) as model:
        assert [await client.text(model, after(1)) for _ in range(5)] == ["503", "503", "500", "one", "one"]
        assert await client.text(model, after(0)) == "zero"


async def test_bare_faults_belong_to_the_turn_of_the_next_answer(client: Client) -> None:
    async with ScriptedModel([Status(503), Status(500), Say("zero"), Slow(Say("one"), 0.0), Empty()]) as model:
        assert [await client.text(model) for _ in range(3)] == ["503", "500", "zero"]
        assert await client.text(model, after(1)) == "one"
        assert await client.text(model, after(2)) == "None"


async def test_last_entry_repeats_when_the_script_is_used_up(client: Client) -> None:
    async with ScriptedModel([Say("zero"), Say("one")]) as model:
        assert [await client.text(model, after(n)) for n in range(4)] == ["zero", "one", "one", "one"]


async def test_faults_without_an_answer_after_them_end_in_the_last_one(client: Client) -> None:
    async with ScriptedModel([Status(503), Status(500)]) as model:
        assert [await client.text(model) for _ in range(4)] == ["503", "500", "500", "500"]


async def test_default_answers_when_the_script_is_used_up(client: Client) -> None:
    async with ScriptedModel(Script([Say("zero"), Status(503)], default=Say("over"))) as model:
        assert await client.text(model) == "zero"
        assert [await client.text(model, after(1)) for _ in range(2)] == ["503", "over"]
        assert await client.text(model, after(2)) == "over"


async def test_restarted_client_gets_the_same_answer_again(client: Client) -> None:
    async with ScriptedModel([Say("zero"), Say("one"), Say("two")]) as model:
        turns = [0, 1, 1, 2, 0]
        assert [await client.text(model, after(n)) for n in turns] == ["zero", "one", "one", "two", "zero"]


async def test_beginning_of_an_answer_does_not_count_as_a_turn(client: Client) -> None:
    async with ScriptedModel([Say("zero"), Say("one")]) as model:
        assert await client.text(model, [*after(0), {"role": "assistant", "content": "<tool_call>\n"}]) == "zero"


async def test_conversations_meet_their_faults_apart(client: Client) -> None:
    async with ScriptedModel([Status(503), Say("hi")]) as model:
        for opening in ("first", "second"):
            assert await client.text(model, after(0, opening)) == "503"
        for opening in ("first", "second"):
            assert await client.text(model, after(0, opening)) == "hi"


async def test_tag_in_the_first_user_message_chooses_the_script(client: Client) -> None:
    async with ScriptedModel(Script([Say("default")], {"b": [Say("b0"), Say("b1")]})) as model:
        parts = {"role": "user", "content": [{"type": "text", "text": "do it [[script=b]]"}]}
        assert await client.text(model, [{"role": "system", "content": "be good"}, parts]) == "b0"
        assert await client.text(model, after(1, "[[script=b]] go")) == "b1"
        assert await client.text(model, after(0, "[[script=unknown]]")) == "default"


async def test_request_without_a_script_is_refused_with_the_reason(client: Client) -> None:
    async with ScriptedModel(Script(named={"a": [Say("a")]})) as model:
        status, body = await client.post(model, after(0, "[[script=b]]"))
        assert status == 400
        assert "nothing is scripted for 'b'" in body


async def test_function_chooses_by_request_and_attempt(client: Client) -> None:
    def respond(request: dict[str, Any], attempt: int) -> Answer:
        return Say(f"{request['model']} {attempt}")

    async with ScriptedModel(respond) as model:
        assert [await client.text(model) for _ in range(2)] == ["tiny 0", "tiny 1"]
        assert await client.text(model, after(1)) == "tiny 0"


async def test_error_of_the_function_is_raised_on_leaving(client: Client) -> None:
    def respond(request: dict[str, Any], attempt: int) -> Answer:
        raise LookupError(request["model"])

    async def ask() -> None:
        async with ScriptedModel(respond) as model:
            await client.post(model)

    with pytest.raises(LookupError, match="tiny") as caught:
        await ask()
    assert isinstance(caught.value.__context__, aiohttp.ServerDisconnectedError)


async def test_requests_are_recorded_with_headers_and_time(client: Client) -> None:
    before = time.monotonic()
    async with ScriptedModel([Say("hi")]) as model:
        headers = {"Authorization": "Bearer secret"}
        body = {"messages": [HELLO], "model": "m"}
        async with client.session.post(f"{model.base_url}/chat/completions", json=body, headers=headers):
            pass
        [recorded] = await model.wait_for_requests(1)
    assert recorded.body == body
    assert recorded.headers["authorization"] == "Bearer secret"
    assert recorded.path == "/v1/chat/completions"
    assert before <= recorded.at <= time.monotonic()


async def test_waiting_for_requests_is_bounded() -> None:
    async with ScriptedModel([Say("hi")]) as model:
        with pytest.raises(TimeoutError):
            await model.wait_for_requests(1, timeout_s=0.01)


async def test_models_are_listed(client: Client) -> None:
    async with (
        ScriptedModel([Say("hi")], name="tiny-1b") as model,
        client.session.get(f"{model.base_url}/models") as response,
    ):
        data = await response.json()
    assert data["object"] == "list"
    assert [item["id"] for item in data["data"]] == ["tiny-1b"]


@contextlib.asynccontextmanager
async def connected(model: ScriptedModel) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", model.port)
    try:
        async with asyncio.timeout(BOUND_S):
            yield reader, writer
    finally:
        writer.close()
        await writer.wait_closed()


def http_request(body: bytes, *headers: str, version: str = "1.1") -> bytes:
    lines = [f"POST /v1/chat/completions HTTP/{version}", "Host: model", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


QUESTION = json.dumps({"messages": [HELLO]}).encode()
STREAMED = json.dumps({"messages": [HELLO], "stream": True}).encode()


async def test_connection_is_kept_for_many_requests_whole_and_streamed() -> None:
    async with ScriptedModel([Say("hi")]) as model, connected(model) as (reader, writer):
        for _ in range(3):
            writer.write(http_request(QUESTION))
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(line.split()[1] for line in head.splitlines() if line.lower().startswith(b"content-length"))
            assert json.loads(await reader.readexactly(int(length)))["choices"]
            writer.write(http_request(STREAMED))
            assert (await reader.readuntil(b"0\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
        assert len(model.requests) == 6


@pytest.mark.parametrize("body", [QUESTION, STREAMED])
@pytest.mark.parametrize("request_form", [("1.1", "Connection: close"), ("1.0", "Accept: */*")])
async def test_connection_is_closed_for_clients_that_want_it(request_form: tuple[str, str], body: bytes) -> None:
    version, header = request_form
    async with ScriptedModel([Say("hi")]) as model, connected(model) as (reader, writer):
        writer.write(http_request(body, header, version=version))
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert (b"chunked" in answer) == (version == "1.1" and body == STREAMED)


async def test_aiohttp_reuses_its_one_connection() -> None:
    connector = aiohttp.TCPConnector(limit=1)
    async with ScriptedModel([Say("hi")]) as model, aiohttp.ClientSession(connector=connector) as session:
        client = Client(session)
        assert await client.text(model) == "hi"
        await client.stream(model)
        assert len(model._connections) == 1


async def test_chunked_and_announced_bodies_are_read(client: Client) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(QUESTION), 7):
            yield QUESTION[start : start + 7]

    async with ScriptedModel([Say("hi")]) as model:
        async with client.session.post(f"{model.base_url}/chat/completions", data=pieces()) as response:
            assert response.status == 200
        assert model.requests[0].headers["transfer-encoding"] == "chunked"
        url = f"{model.base_url}/chat/completions"
        async with client.session.post(url, data=QUESTION, expect100=True) as response:
            assert response.status == 200
        assert model.requests[1].body == model.requests[0].body


@pytest.mark.slow
async def test_body_of_64_megabytes_is_read(client: Client) -> None:
    content = "x" * (64 * 1024 * 1024 - len(QUESTION) + len("hello"))
    body = json.dumps({"messages": [{"role": "user", "content": content}]}).encode()
    async with ScriptedModel([Say("hi")]) as model:
        patient = aiohttp.ClientTimeout(total=10 * BOUND_S)  # it is about the size, not about the time
        async with client.session.post(
            f"{model.base_url}/chat/completions", data=io.BytesIO(body), timeout=patient
        ) as response:
            assert response.status == 200
        assert model.requests[0].headers["content-length"] == str(64 * 1024 * 1024)
        assert model.requests[0].body["messages"][0]["content"] == content


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"hello\r\n\r\n", 400),
        (b"POST /v1/chat/completions HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 67108865\r\n\r\n", 413),
        (b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 400),
        (b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        (b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc", 400),
        (b"POST /v1/chat/completions HTTP/1.1\r\nX: " + b"x" * 1024 * 1024, 431),
        (http_request(b""), 400),
        (http_request(b"{"), 400),
        (http_request(b"\xff"), 400),
        (http_request(b"[]"), 400),
        (http_request(b"[" * 100_000), 400),
        (http_request(b'{"messages": []}'), 400),
        (http_request(b'{"messages": ["hello"]}'), 400),
        (http_request(b'{"messages": [{"role": "user"}], "stream_options": 1}'), 400),
    ],
)
async def test_bad_request_is_refused_and_not_recorded(sent: bytes, status: int) -> None:
    async with ScriptedModel([Say("hi")]) as model, connected(model) as (reader, writer):
        writer.write(sent)
        line = await reader.readline()
        assert line.split()[1] == str(status).encode()
        assert model.requests == []


@pytest.mark.parametrize(("method", "path"), [("GET", "/"), ("POST", "/v1/models"), ("POST", "/v1/embeddings")])
async def test_other_paths_are_not_found(client: Client, method: str, path: str) -> None:
    async with ScriptedModel([Say("hi")]) as model:
        url = model.base_url.removesuffix("/v1") + path
        async with client.session.request(method, url, json={}) as response:
            assert response.status == 404
            assert (await response.json())["error"]["message"] == f"there is no {method} {path}"


async def test_two_hundred_clients_are_answered_at_once(client: Client) -> None:
    async def converse(number: int) -> list[str]:
        return [await client.text(model, after(turn, f"[[script={number % 2}]] {number}")) for turn in (0, 0, 1)]

    even: list[Entry] = [Status(503), Say("even 0"), Slow(Say("even 1"), 0.05)]
    async with ScriptedModel(Script([Say("odd 0"), Say("odd 1")], {"0": even})) as model:
        got = await asyncio.gather(*(converse(number) for number in range(200)))
        assert len(model.requests) == 600
    assert got == [["503", "even 0", "even 1"], ["odd 0", "odd 0", "odd 1"]] * 100


async def test_two_hundred_requests_hang_at_the_same_time_and_leave_nothing_behind(client: Client) -> None:
    before = asyncio.all_tasks()
    async with ScriptedModel([Hang()]) as model, asyncio.timeout(BOUND_S):
        asking = [asyncio.create_task(client.post(model)) for _ in range(200)]
        await model.wait_for_requests(200)
        assert len(model._connections) == 200
    assert not model._connections
    results = await asyncio.gather(*asking, return_exceptions=True)
    assert all(isinstance(result, aiohttp.ClientError) for result in results)
    assert asyncio.all_tasks() == before


async def test_leaving_closes_idle_slow_and_unread_connections() -> None:
    async with asyncio.timeout(BOUND_S):
        big = Raw(b"x" * 32 * 1024 * 1024)
        async with ScriptedModel([Turn(big, faults=(Slow(Say("never"), 3600.0),))]) as model:
            clients = [await asyncio.open_connection("127.0.0.1", model.port) for _ in range(3)]
            for _, writer in clients[:2]:
                writer.write(http_request(QUESTION))
            await model.wait_for_requests(2)
        assert not model._connections
        for reader, writer in clients:
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(32 * 1024 * 1024)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


@pytest.mark.parametrize("steps", range(8))
async def test_leaving_while_clients_connect_leaves_nothing_behind(steps: int) -> None:
    before = asyncio.all_tasks()
    async with ScriptedModel([Hang()]) as model:
        connecting = [asyncio.create_task(asyncio.open_connection("127.0.0.1", model.port)) for _ in range(20)]
        for _ in range(steps):
            await asyncio.sleep(0)
    assert asyncio.all_tasks() - before <= set(connecting)
    assert not model._connections
    for connection in await asyncio.gather(*connecting, return_exceptions=True):
        if isinstance(connection, tuple):
            connection[1].close()
            with contextlib.suppress(ConnectionError):
                await connection[1].wait_closed()


async def test_model_comes_back_on_the_same_port_and_remembers(client: Client) -> None:
    model = ScriptedModel([Status(503), Say("hi")])
    with pytest.raises(RuntimeError, match="no port before"):
        _ = model.base_url
    async with model:
        assert await client.text(model) == "503"
    with pytest.raises(aiohttp.ClientConnectionError):
        await client.text(model)
    async with model:
        assert await client.text(model) == "hi"


EVERYTHING = Script(
    turns=(
        Turn(Calls((READ, Call("x", "{")), text="t", usage=(1, 2)), faults=(Status(503, "b", 1.5, times=3), Reset())),
        ContextExceeded(10, 5),
        Hang(2.0),
        Raw(b"\x00\xff"),
        Raw("text", "text/plain"),
        Cut(Say("s"), 4),
        Slow(Turn(Empty(usage=(1, 0))).answer, 0.5),
        Finish(kind="say", usage=[1, 2], answer={"kind": "none"}),
    ),
    named={"other": (Say("o"),)},
    default=Status(500),
)


def test_script_survives_its_json_form() -> None:
    assert Script.from_json(EVERYTHING.to_json()) == EVERYTHING


def test_script_file_reads_as_documented() -> None:
    text = """[
        {"kind": "say", "text": "hi", "usage": [10, 2]},
        {"kind": "turn", "answer": {"kind": "finish", "payload": {"summary": "done"}},
         "faults": [{"kind": "status", "code": 503, "times": 2}, {"kind": "reset"}]}
    ]"""
    turn = Turn(Finish(summary="done"), faults=(Status(503, times=2), Reset()))
    assert Script.from_json(text) == Script((Say("hi", usage=(10, 2)), turn))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "Expecting"),
        ("3", "a script is a list"),
        ('{"turn": []}', "a script is a list"),
        ('{"turns": {}}', "expected a list"),
        ('["hi"]', "expected a script entry"),
        ('[{"kind": "sing"}]', "'sing' cannot stand here"),
        ('[{"text": "hi"}]', "None cannot stand here"),
        ('[{"kind": "say"}]', "missing 1 required"),
        ('[{"kind": "say", "text": "hi", "tone": "low"}]', "unexpected keyword"),
        ('[{"kind": "turn", "answer": {"kind": "turn"}}]', "'turn' cannot stand here"),
        ('[{"kind": "turn", "answer": {"kind": "empty"}, "faults": [{"kind": "say", "text": ""}]}]', "'say' cannot"),
        ('[{"kind": "cut", "after_bytes": 1, "answer": {"kind": "reset"}}]', "'reset' cannot stand here"),
        ('{"default": {"kind": "turn", "answer": {"kind": "empty"}}}', "'turn' cannot stand here"),
    ],
)
def test_wrong_script_file_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Script.from_json(text)


@contextlib.asynccontextmanager
async def model_process(script: Script, folder: Path, *options: str) -> AsyncIterator[str]:
    """Serve a script from a process of its own; yield its base URL."""
    file = folder / "script.json"
    file.write_text(script.to_json())
    module = ["-m", "agent_fabric.testing.scripted_model", "--script", str(file), *options]
    process = await asyncio.create_subprocess_exec(sys.executable, *module, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield (await asyncio.wait_for(process.stdout.readline(), BOUND_S)).decode().strip()
    finally:
        process.terminate()
        rest, _ = await asyncio.wait_for(process.communicate(), BOUND_S)
    assert (process.returncode, rest) == (0, b"")


async def test_process_serves_a_script_and_tells_what_it_was_asked(client: Client, tmp_path: Path) -> None:
    port_file = tmp_path / "port"
    async with model_process(Script([Say("hi")]), tmp_path, "--port-file", str(port_file)) as base_url:
        assert base_url == f"http://127.0.0.1:{int(port_file.read_text())}/v1"
        assert await client.text(base_url) == "hi"
        async with client.session.get(base_url.removesuffix("/v1") + "/_requests") as response:
            assert await response.json() == {"count": 1, "bodies": [{"model": "tiny", "messages": [HELLO]}]}
    async with model_process(Script([Say("back")]), tmp_path, "--port", port_file.read_text().strip()) as again:
        assert again == base_url
        assert await client.text(base_url) == "back"


KILLED_CLIENT = """
import sys, urllib.request
urllib.request.urlopen(sys.argv[1] + "/chat/completions", data=sys.argv[2].encode())
"""


async def test_process_outlives_a_killed_client_and_answers_the_next_one(client: Client, tmp_path: Path) -> None:
    async with model_process(Script([Hang(), Say("hi")]), tmp_path) as base_url:
        arguments = [base_url, QUESTION.decode()]
        killed = await asyncio.create_subprocess_exec(sys.executable, "-c", KILLED_CLIENT, *arguments)
        async with client.session.get(base_url.removesuffix("/v1") + "/_requests?wait_for=1") as response:
            assert (await response.json())["count"] == 1
        killed.kill()
        assert await asyncio.wait_for(killed.wait(), BOUND_S) == -signal.SIGKILL
        assert await client.text(base_url) == "hi"


async def test_process_ends_at_once_with_a_client_that_hangs(client: Client, tmp_path: Path) -> None:
    async with model_process(Script([Hang()]), tmp_path) as base_url:
        asking = asyncio.create_task(client.post(base_url))
        async with client.session.get(base_url.removesuffix("/v1") + "/_requests?wait_for=1") as response:
            assert (await response.json())["count"] == 1
    with pytest.raises(aiohttp.ClientError):
        await asking


async def test_process_refuses_a_wrong_script_with_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "script.json"
    file.write_text('[{"kind": "sing"}]')
    module = ["-m", "agent_fabric.testing.scripted_model", "--script", str(file)]
    process = await asyncio.create_subprocess_exec(sys.executable, *module, stderr=asyncio.subprocess.PIPE)
    _, said = await asyncio.wait_for(process.communicate(), BOUND_S)
    assert process.returncode == 2
    assert b"'sing' cannot stand here" in said
