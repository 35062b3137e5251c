"""The client of OpenAI-compatible servers over real sockets: proxies, certificates, keys, and servers gone mad."""

import asyncio
import contextlib
import gzip
import json
import random
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
import uvloop

from agent_fabric.domain.errors import (
    ConfigError,
    FabricError,
    ModelAnswerUnusable,
    ModelError,
    ModelRefused,
    ModelUnreachable,
)
from agent_fabric.domain.models.messages import LLMResponse, Message, ModelSettings, Role
from agent_fabric.infrastructure.models.model_http import HttpSession
from agent_fabric.infrastructure.models.openai_compatible import OpenAICompatibleBackend, OpenAICompatibleClient
from agent_fabric.testing.scripted_answers import Raw, Say
from agent_fabric.testing.scripted_model import ScriptedModel, Status
from agent_fabric.testing.scripted_wire import ChatCompletion
from agent_fabric.testing.workbench import SETTINGS
from services import need

MESSAGES = (Message(Role.SYSTEM, "You greet."), Message(Role.USER, "hello"))
SECRET = "sk-very-secret-0123456789"
GREETING = ChatCompletion(reply=Say("hi"), request={}, name="n", model="m", prompt_size=40, created=0).whole()
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(GREETING), GREETING)


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "ssl_cert_dir"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def ask(settings: ModelSettings, on_delta: Callable[[str], None] | None = None) -> LLMResponse:
    session = HttpSession()
    clients = OpenAICompatibleBackend(session)
    try:
        async with asyncio.timeout(60):
            return await ask_with(clients.client_for(settings), on_delta)
    finally:
        await session.aclose()


async def ask_with(client: OpenAICompatibleClient, on_delta: Callable[[str], None] | None = None) -> LLMResponse:
    return await client.chat(MESSAGES, "m", tools=(), temperature=0.0, top_p=1.0, max_tokens=9, on_delta=on_delta)


class Heard(NamedTuple):
    """A server that answers the same bytes to everybody, and the first bytes of each request."""

    port: int
    heads: list[bytes]

    def settings(self, scheme: str = "http") -> ModelSettings:
        return replace(SETTINGS, base_url=f"{scheme}://127.0.0.1:{self.port}/v1")


@contextlib.asynccontextmanager
async def answering(answer: bytes, tls: ssl.SSLContext | None = None) -> AsyncIterator[Heard]:
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            heads.append(head)
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            writer.write(answer)
            await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls) as server:
        yield Heard(int(server.sockets[0].getsockname()[1]), heads)


# ── answers ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.proves("AF-070", "AF-072", "AF-074", "A33-032")
async def test_one_call_asks_the_configured_address_and_tells_content_model_and_tokens() -> None:
    async with ScriptedModel([Say("hi", usage=(12, 3))]) as model:
        answer = await ask(replace(SETTINGS, base_url=model.base_url + "/", headers={"X-Team": "lab"}))
    (request,) = model.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["x-team"] == "lab"
    assert "authorization" not in request.headers
    assert (answer.content, answer.model) == ("hi", "m")
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (12, 3)


async def test_servers_share_connections_and_one_parser_whatever_their_backend() -> None:
    session = HttpSession()
    clients = OpenAICompatibleBackend(session)
    async with ScriptedModel([Say("hi")]) as model:
        settings = replace(SETTINGS, base_url=model.base_url)
        generic, ollama = clients.client_for(settings), clients.client_for(replace(settings, backend="ollama"))
        assert await ask_with(generic) == await ask_with(ollama)
        assert clients.client_for(replace(settings, model="other")) is generic
        await session.aclose()


async def test_models_of_one_server_each_keep_their_own_time_to_connect() -> None:
    session = HttpSession()
    clients = OpenAICompatibleBackend(session)
    patient, hasty = (clients.client_for(replace(SETTINGS, connect_timeout_s=seconds)) for seconds in (9.0, 0.5))
    await session.aclose()
    assert patient is not hasty


async def test_streamed_text_arrives_in_pieces_and_as_a_whole() -> None:
    pieces: list[str] = []
    async with ScriptedModel([Say("one two three four five six")]) as model:
        answer = await ask(replace(SETTINGS, base_url=model.base_url), pieces.append)
    assert len(pieces) > 3
    assert "".join(pieces) == answer.content == "one two three four five six"


async def test_server_that_ignores_the_wish_to_stream_is_understood() -> None:
    async with answering(OK) as server:
        assert (await ask(server.settings(), lambda _: None)).content == "hi"


# ── proxies ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy"])
async def test_proxy_is_used_for_a_server_elsewhere(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    async with answering(OK) as proxy:
        monkeypatch.setenv(variable, f"http://127.0.0.1:{proxy.port}")
        answer = await ask(replace(SETTINGS, base_url="http://model.test/v1"))
    assert answer.content == "hi"
    (head,) = proxy.heads
    assert head.startswith(b"POST http://model.test/v1/chat/completions HTTP/1.1\r\n")


async def test_proxy_without_a_scheme_is_understood_as_curl_does(monkeypatch: pytest.MonkeyPatch) -> None:
    async with answering(OK) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"127.0.0.1:{proxy.port}")
        assert (await ask(replace(SETTINGS, base_url="http://model.test/v1"))).content == "hi"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_proxy_is_never_used_for_this_machine(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    async with answering(OK) as proxy, ScriptedModel([Say("direct")]) as model:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        answer = await ask(replace(SETTINGS, base_url=f"http://{host}:{model.port}/v1"))
    assert answer.content == "direct"
    assert proxy.heads == []


async def test_no_proxy_names_servers_that_are_asked_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    async with answering(OK) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("NO_PROXY", ".test")
        with pytest.raises(ModelUnreachable):
            await ask(replace(SETTINGS, base_url="http://model.test/v1"))
    assert proxy.heads == []


async def test_proxy_that_is_gone_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://user:{SECRET}@127.0.0.1:{unused_tcp_port}")
    with pytest.raises(ModelUnreachable) as caught:
        await ask(replace(SETTINGS, base_url="http://model.test/v1"))
    assert SECRET not in caught.value.message
    assert str(unused_tcp_port) in caught.value.message


# ── certificates ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Authority(NamedTuple):
    """A certificate authority of our own, and a server it vouches for."""

    ca_file: Path
    server: ssl.SSLContext


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    folder = tmp_path_factory.mktemp("tls")

    def openssl(*arguments: str) -> None:
        try:
            subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)
        except FileNotFoundError:
            need(False, "certificates are made with the openssl program")

    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    # Python 3.13 is strict: an authority has to say that it may sign, and whose key a certificate was signed with.
    may_sign = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
    subject = ("-days", "2", "-subj", "/CN=Lab CA")
    openssl("req", "-x509", *new_key, "-keyout", "ca.key", "-out", "ca.pem", *subject, *may_sign)
    openssl("req", *new_key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=127.0.0.1")
    names = "subjectAltName=IP:127.0.0.1,DNS:localhost\nauthorityKeyIdentifier=keyid\nsubjectKeyIdentifier=hash\n"
    (folder / "names").write_text(names)
    signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
    openssl("x509", "-req", "-in", "server.csr", "-out", "server.pem", *signing)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    return Authority(folder / "ca.pem", context)


async def test_own_authority_is_trusted_when_ca_file_names_it(authority: Authority) -> None:
    async with answering(OK, authority.server) as server:
        answer = await ask(replace(server.settings("https"), ca_file=str(authority.ca_file)))
    assert answer.content == "hi"


async def test_own_authority_is_trusted_when_ssl_cert_file_names_it(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca_file))
    async with answering(OK, authority.server) as server:
        assert (await ask(server.settings("https"))).content == "hi"


async def test_unknown_authority_is_a_clear_error_about_certificates(authority: Authority) -> None:
    async with answering(OK, authority.server) as server:
        with pytest.raises(ModelRefused) as caught:
            await ask(server.settings("https"))
    assert "is not trusted: unable to get local issuer certificate" in caught.value.message
    assert "ca_file" in caught.value.hint, caught.value.hint
    assert "No model server answers" not in caught.value.message, "it did answer"
    assert server.heads == []


@pytest.mark.proves("DU-11")
async def test_https_where_http_is_spoken_says_that_and_nothing_about_certificates() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        address = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        with pytest.raises(ModelRefused) as caught:
            await ask(replace(SETTINGS, base_url=address))
    assert caught.value.message == f"This port does not speak TLS: {address}"
    assert caught.value.hint == "Use a `base_url` that begins with http://, or the right port."


async def test_a_tls_handshake_that_fails_is_not_called_a_port_without_tls() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"\x15\x03\x03\x00\x02\x02\x28")  # the alert handshake_failure
        await reader.read()
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        address = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        with pytest.raises(ModelRefused, match=r"^The TLS handshake failed \(.*handshake failure.*\): https://127"):
            await ask(replace(SETTINGS, base_url=address))


async def test_a_connection_that_is_closed_at_once_was_not_refused() -> None:
    async def leave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(leave, "127.0.0.1", 0) as server:
        address = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        with pytest.raises(ModelUnreachable) as caught:
            await ask(replace(SETTINGS, base_url=address))
    assert "refused" not in caught.value.message


@pytest.mark.parametrize("content", [None, "no certificate"])
async def test_ca_file_that_cannot_be_used_is_named(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigError, match=r"ca\.pem"):
        await ask(replace(SETTINGS, base_url="https://127.0.0.1:9/v1", ca_file=str(file)))


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_key_is_read_from_the_environment_and_sent_as_bearer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_MODEL_KEY", SECRET)
    async with ScriptedModel([Say("hi")]) as model:
        await ask(replace(SETTINGS, base_url=model.base_url, api_key="env:LAB_MODEL_KEY"))
    assert model.requests[0].headers["authorization"] == f"Bearer {SECRET}"


async def test_key_with_a_line_end_from_a_file_is_sent_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_MODEL_KEY", f"{SECRET}\n")
    async with ScriptedModel([Say("hi")]) as model:
        await ask(replace(SETTINGS, base_url=model.base_url, api_key="env:LAB_MODEL_KEY"))
    assert model.requests[0].headers["authorization"] == f"Bearer {SECRET}"


async def test_key_that_the_server_repeats_is_left_out_of_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_MODEL_KEY", SECRET)
    body = json.dumps({"error": {"message": f"Incorrect API key provided: {SECRET}."}})
    async with ScriptedModel([Status(401, body)]) as model:
        with pytest.raises(ModelError) as caught:
            await ask(replace(SETTINGS, base_url=model.base_url, api_key="env:LAB_MODEL_KEY"))
    assert SECRET not in caught.value.message


@pytest.mark.parametrize("streaming", [False, True])
async def test_key_that_the_server_repeats_in_an_answer_that_seems_good_is_left_out_too(
    monkeypatch: pytest.MonkeyPatch, streaming: bool
) -> None:
    monkeypatch.setenv("LAB_MODEL_KEY", SECRET)
    body = json.dumps({"error": f"no such key: {SECRET}"})
    answer = Raw(f"data: {body}\n\n", "text/event-stream") if streaming else Raw(body)
    async with ScriptedModel([answer]) as model:
        with pytest.raises(ModelAnswerUnusable, match=r"no such key: \*\*\*") as caught:
            await ask(
                replace(SETTINGS, base_url=model.base_url, api_key="env:LAB_MODEL_KEY"),
                (lambda _: None) if streaming else None,
            )
    assert SECRET not in caught.value.message


async def test_key_of_several_lines_is_a_clear_error_that_does_not_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_MODEL_KEY", f"{SECRET}\nX-Other: 1")
    with pytest.raises(ConfigError, match="LAB_MODEL_KEY") as caught:
        await ask(replace(SETTINGS, api_key="env:LAB_MODEL_KEY"))
    assert SECRET not in caught.value.message + caught.value.hint


async def test_redirect_is_named_since_it_is_not_followed() -> None:
    async with answering(
        b"HTTP/1.1 308 Moved\r\nLocation: https://new.example/v1\r\nContent-Length: 0\r\n\r\n"
    ) as server:
        with pytest.raises(ModelRefused) as caught:
            await ask(server.settings())
    assert "https://new.example/v1" in caught.value.hint


async def test_key_is_not_carried_to_another_host_by_a_redirect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_MODEL_KEY", SECRET)
    async with answering(OK) as elsewhere:
        target = f"http://localhost:{elsewhere.port}/v1/chat/completions"
        redirect = f"HTTP/1.1 307 Moved\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode()
        async with answering(redirect) as server:
            with contextlib.suppress(ModelError):
                await ask(replace(server.settings(), api_key="env:LAB_MODEL_KEY"))
    assert not any(SECRET.encode() in head for head in elsewhere.heads)


async def test_conversation_is_not_carried_to_another_host_by_a_redirect() -> None:
    async with answering(OK) as elsewhere:
        target = f"http://localhost:{elsewhere.port}/v1/chat/completions"
        redirect = f"HTTP/1.1 307 Moved\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode()
        async with answering(redirect) as server:
            with contextlib.suppress(ModelError):
                await ask(server.settings())
    assert elsewhere.heads == [], "only the configured address may read the conversation"


# ── servers gone mad ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "soon", "Wed, 21 Oct 2026 07:28:00 GMT"])
async def test_retry_after_is_a_number_or_nothing(value: str) -> None:
    async with ScriptedModel([Status(429, retry_after=value)]) as model:
        with pytest.raises(ModelError) as caught:
            await ask(replace(SETTINGS, base_url=model.base_url))
    wait_s = caught.value.retry_after_s
    assert wait_s is None or 0 <= wait_s < 1e9


async def test_name_that_cannot_be_looked_up_is_given_up_in_the_time_to_connect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def drop_every_question(*_: object, **__: object) -> list[object]:
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", drop_every_question)
    started = time.monotonic()
    with pytest.raises(ModelUnreachable):
        await ask(replace(SETTINGS, base_url="http://model.test/v1", connect_timeout_s=0.2))
    assert time.monotonic() - started < 30


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
ODD_ANSWERS = {
    "nothing": b"",
    "half a status line": b"HTTP/1.1 2",
    "another protocol": b"SSH-2.0-OpenSSH_9.6\r\n",
    "a head without end": b"HTTP/1.1 200 OK\r\nX: " + b"y" * 20_000,
    "a bad chunk": CHUNKED + b"zz\r\n",
    "half a chunk": CHUNKED + b"ffff\r\n{",
    "two lengths": HEAD + b"Content-Length: 5\r\nContent-Length: 7\r\n\r\n{}",
    "a negative length": HEAD + b"Content-Length: -5\r\n\r\n{}",
    "no gzip": HEAD + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope",
    "half a gzip": HEAD + b"Content-Encoding: gzip\r\nContent-Length: 12\r\n\r\n\x1f\x8b\x08\0\0\0\0\0\0\x03ab",
    "an unknown encoding": HEAD + b"Content-Encoding: br\r\nContent-Length: 4\r\n\r\nnope",
    "a charset that is none": b"HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=klingon\r\n\r\n{}",
    "no content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "a redirect to itself": b"HTTP/1.1 302 Found\r\nLocation: /v1/chat/completions\r\nContent-Length: 0\r\n\r\n",
    "a redirect to nowhere": b"HTTP/1.1 302 Found\r\nLocation: gopher://x\r\nContent-Length: 0\r\n\r\n",
    "continue for ever": b"HTTP/1.1 100 Continue\r\n\r\n" * 50,
    "a stream of nothing": STREAM,
    "a stream without end": STREAM + b'data: {"choices": [{"delta": {"content": "x"}}]}\n\n',
    "a stream with an error": STREAM + b'data: {"error": {"message": "out of memory"}}\n\n',
    "a stream of calls that are none": STREAM
    + b'data: {"choices": [{"delta": {"tool_calls": 5}}]}\n\ndata: [DONE]\n\n',
    "a refusal nested deep": b"HTTP/1.1 400 Bad\r\n\r\n" + b"[" * 1_000 + b"]" * 1_000,
}


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("answer", ODD_ANSWERS.values(), ids=ODD_ANSWERS)
async def test_answer_that_is_not_http_as_it_should_be_is_an_error_that_can_be_explained(
    answer: bytes, streaming: bool
) -> None:
    async with answering(answer) as server:
        with pytest.raises(ModelError) as caught:
            await ask(server.settings(), (lambda _: None) if streaming else None)
    assert caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "stream"])
async def test_three_hundred_mutated_replies_give_an_answer_or_an_error_that_can_be_explained(streaming: bool) -> None:
    rng = random.Random(7)
    reply = ChatCompletion(
        reply=Say("hi"), request={"stream_options": {}}, name="n", model="m", prompt_size=40, created=0
    )
    whole = STREAM + b"".join(reply.events()) if streaming else OK
    session = HttpSession()
    clients = OpenAICompatibleBackend(session)
    answers = 0
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data) if rng.random() < 0.5 else 90)] ^= 1 << rng.randrange(8)
        async with answering(bytes(data[: rng.randrange(len(data)) if rng.random() < 0.2 else len(data)])) as server:
            client = clients.client_for(server.settings())
            try:
                async with asyncio.timeout(60):
                    await ask_with(client, (lambda _: None) if streaming else None)
                answers += 1
            except FabricError:
                pass
            except BaseException as problem:
                problem.add_note(f"reply {bytes(data)!r}")
                raise
    await session.aclose()
    assert 20 < answers < 280


async def test_answer_without_end_is_cut_off_and_does_not_fill_the_memory() -> None:
    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(STREAM + b"data: ")
            while True:
                writer.write(b"x" * 1_000_000)
                await writer.drain()
        writer.close()

    started = time.monotonic()
    async with await asyncio.start_server(flood, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        answer = await ask(replace(SETTINGS, base_url=url), lambda _: None)
    assert (answer.content, answer.cut) == ("", SETTINGS.answer_chars)
    assert time.monotonic() - started < 60


async def test_answer_that_unpacks_to_more_than_it_may_is_cut_off() -> None:
    packed = gzip.compress(bytes(80 * 2**20), compresslevel=1)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
    async with answering(head % len(packed) + packed) as server:
        answer = await ask(server.settings())
    assert (answer.content, answer.cut) == ("", SETTINGS.answer_chars)


async def test_chunk_that_names_no_error_is_a_part_of_the_answer() -> None:
    chunk = {"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}], "error": None}
    async with answering(STREAM + f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()) as server:
        assert (await ask(server.settings(), lambda _: None)).content == "hi"


# ── connections ───────────────────────────────────────────────────────────────────────────────────────────────────────


class Keeping(NamedTuple):
    """A server that keeps connections, and how many it has seen."""

    port: int
    connections: list[asyncio.StreamWriter]

    def settings(self) -> ModelSettings:
        return replace(SETTINGS, base_url=f"http://127.0.0.1:{self.port}/v1")


@contextlib.asynccontextmanager
async def keeping(answers: int, answer: bytes = OK) -> AsyncIterator[Keeping]:
    """Serve so many answers on each connection, and close it then."""
    connections: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            for _ in range(answers):
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]))
                writer.write(answer)
                await writer.drain()
            if not answers:
                await reader.readuntil(b"\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield Keeping(int(server.sockets[0].getsockname()[1]), connections)
        for each in connections:
            each.close()
            with contextlib.suppress(ConnectionError):
                await each.wait_closed()


async def test_one_connection_serves_many_requests_and_one_that_the_server_has_closed_is_not_used_again() -> None:
    async with keeping(answers=3) as server, HttpSession() as session:
        client = OpenAICompatibleBackend(session).client_for(server.settings())
        for _ in range(7):
            assert (await ask_with(client)).content == "hi"
            if server.connections[-1].is_closing():
                await asyncio.wait_for(server.connections[-1].wait_closed(), 10)
                await asyncio.sleep(0.05)  # until the other end has seen it
        assert len(server.connections) == 3


@pytest.mark.parametrize("size", [200_000, 300_000, 3_000_000])
async def test_a_connection_goes_on_after_an_answer_that_is_larger_than_what_may_wait(size: int) -> None:
    padded = GREETING[:-1] + b" " * size + GREETING[-1:]
    large = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(padded), padded)
    async with keeping(answers=9, answer=large) as server, HttpSession() as session:
        client = OpenAICompatibleBackend(session).client_for(replace(server.settings(), max_answer_chars=1_000_000))
        for _ in range(5):
            async with asyncio.timeout(20):
                assert (await ask_with(client)).content == "hi"
        assert len(server.connections) == 1


async def test_a_request_that_is_given_up_hangs_up() -> None:
    async with keeping(answers=0) as server, HttpSession() as session:
        client = OpenAICompatibleBackend(session).client_for(server.settings())
        for _ in range(2):
            with pytest.raises(ModelError):
                await ask_with(client)
        assert len(server.connections) == 2, "nothing is sent twice over a connection of its own"


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "stream"])
def test_models_are_asked_on_uvloop_as_on_the_loop_of_the_standard_library(streaming: bool) -> None:
    async def ask_both() -> list[str]:
        async with ScriptedModel([Say("one two three"), Say("one two three")]) as model, HttpSession() as session:
            client = OpenAICompatibleBackend(session).client_for(replace(SETTINGS, base_url=model.base_url))
            return [(await ask_with(client, (lambda _: None) if streaming else None)).content for _ in range(2)]

    assert uvloop.run(ask_both()) == ["one two three"] * 2
