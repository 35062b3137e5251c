"""Requests of workflows: what is sent, what is told of the answer, and who is never reached."""

import asyncio
import base64
import gzip
import json
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

import pytest
from aiohttp import web

from agent_fabric.application.ports.http import HttpError
from agent_fabric.config.schema.tools import WebConfig
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.tools.allowlists import Allowlists
from agent_fabric.domain.tools.json_schema import problems_with
from agent_fabric.domain.tools.specs import ToolContext
from agent_fabric.infrastructure.sandbox.egress.addresses import AddressGuard, system_lookup
from agent_fabric.infrastructure.tools.http import HTTP_REQUEST, MAX_TIMEOUT_S, MakeRequest, NetworkDisabled
from agent_fabric.infrastructure.web.requests import HttpRequests
from integration.web.site import Site, answering, raw, site


@asynccontextmanager
async def requests(
    *allow_hosts: str, names: Mapping[str, Sequence[str]] | None = None, **settings: Any
) -> AsyncIterator[HttpRequests]:
    """Make requests with these hosts allowed; `names` are looked up here instead of asking the system."""

    async def lookup(host: str, port: int) -> Sequence[str]:
        return names[host] if names and host in names else await system_lookup(host, port)

    sender = HttpRequests(WebConfig(allow_hosts=allow_hosts, **settings), AddressGuard(allow_hosts, lookup))
    try:
        yield sender
    finally:
        await sender.aclose()


def context(timeout_s: float = 10, *, network_allowed: bool = True) -> ToolContext:
    return ToolContext(run_id=RunId("r"), call_id=CallId("c"), timeout_s=timeout_s, network_allowed=network_allowed)


async def ask(running: Site, path: str = "/", *, timeout_s: float = 10, **args: Any) -> Mapping[str, Any]:
    """Make one request to a site that is allowed, as a workflow's step does."""
    given = {"url": running.url(path), **args}
    assert problems_with(given, HTTP_REQUEST.parameters) == []
    async with requests("127.0.0.1", "localhost") as sender:
        return (await MakeRequest(sender)(given, context(timeout_s))).output


async def mirror(request: web.Request) -> web.Response:
    """Answer with what was asked."""
    seen = {
        "method": request.method,
        "query": request.rel_url.raw_query_string,
        "headers": {name.lower(): value for name, value in request.headers.items()},
        "body": (await request.read()).decode(),
    }
    return web.json_response(seen, headers={"X-Kind": "mirror"})


def redirect(location: str, status: int = 302) -> web.Response:
    return web.Response(status=status, headers={"Location": location})


async def test_an_answer_is_told_whole() -> None:
    async with site({"/": mirror}) as running:
        answer = await ask(running, "/?a=1#part")
    assert (answer["status"], answer["reason"], answer["truncated"]) == (200, "OK", False)
    assert answer["headers"]["x-kind"] == "mirror"
    assert answer["url"] == running.url("/?a=1")
    assert answer["json"] == json.loads(answer["body"])
    assert answer["json"]["method"] == "GET"
    assert answer["json"]["headers"]["accept"] == "*/*"


@pytest.mark.parametrize(
    ("args", "body", "content_type"),
    [
        ({"json": {"a": [1, None, "é"]}}, '{"a": [1, null, "é"]}', "application/json"),
        ({"json": None}, "null", "application/json"),
        ({"body": "grüße"}, "grüße", "text/plain; charset=utf-8"),
        (
            {"form": {"a": "x y&z", "b": [1, True], "c": None}},
            "a=x+y%26z&b=1&b=true",
            "application/x-www-form-urlencoded",
        ),
        ({"body": "<a/>", "headers": {"content-type": "text/xml"}}, "<a/>", "text/xml"),
    ],
)
@pytest.mark.parametrize("method", [{}, {"method": "put"}, {"method": "PATCH"}])
async def test_what_is_sent(args: dict[str, Any], body: str, content_type: str, method: dict[str, Any]) -> None:
    async with site({"/": mirror}) as running:
        seen = (await ask(running, **args, **method))["json"]
    assert seen["method"] == method.get("method", "POST").upper()
    assert seen["body"] == body
    assert seen["headers"]["content-type"] == content_type


async def test_a_query_is_added_to_the_one_that_is_there() -> None:
    async with site({"/": mirror}) as running:
        seen = (await ask(running, "/?q=1", query={"a": "x&y=z#", "n": 2.0, "list": ["p", "q"], "no": None}))["json"]
    assert parse_qsl(seen["query"]) == [("q", "1"), ("a", "x&y=z#"), ("n", "2"), ("list", "p"), ("list", "q")]


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
async def test_a_refusal_is_an_error_that_says_what_the_server_said(status: int) -> None:
    async with site({"/": web.Response(status=status, text="try\nlater " + "x" * 9_000)}) as running:
        with pytest.raises(HttpError, match=rf"^GET http://\S+/ answered {status} .*: try later x+$") as refused:
            await ask(running)
        accepted = await ask(running, accept_status=[status])
        also = await ask(running, accept_status=f"{status // 100}XX")
    assert type(refused.value).__name__ == "HttpError"
    assert len(str(refused.value)) < 1_000
    assert accepted["status"] == also["status"] == status


@pytest.mark.parametrize("given", ["x", 99, [600], ["6xx"], "-1"])
async def test_a_status_that_cannot_be_is_refused(given: Any) -> None:
    async with site({"/": mirror}) as running:
        with pytest.raises(ValueError, match="accept_status"):
            await ask(running, accept_status=given)
    assert running.requests == []


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        ("größe".encode("latin-1"), "text/plain; charset=iso-8859-1", "größe"),
        ("größe".encode(), "text/plain", "größe"),
        ("größe".encode("utf-16"), "text/plain; charset=utf-16", "größe"),
        (b"\xfa\xfb\xff", "text/plain; charset=utf-8", "���"),
        (b"", "application/json", ""),
        (b"not json", "application/json", "not json"),
        (b"[" * 100_000, "application/json", "[" * 100_000),
        (b"[" * 80 + b"]" * 80, "application/json", "[" * 80 + "]" * 80),
        (b"9" * 5_000, "application/json", "9" * 5_000),
    ],
)
async def test_garbage_is_text_without_json(body: bytes, content_type: str, text: str) -> None:
    async with site({"/": web.Response(body=body, headers={"Content-Type": content_type})}) as running:
        answer = await ask(running)
    assert answer["body"] == text
    assert "json" not in answer
    assert "encoding" not in answer


async def test_json_is_read_by_its_content_type() -> None:
    kind = {"Content-Type": "application/problem+json"}
    async with site({"/": web.Response(body=b'{"a": 1}', headers=kind)}) as running:
        assert (await ask(running))["json"] == {"a": 1}


async def test_what_is_not_text_comes_in_base64() -> None:
    picture = b"\x89PNG\r\n\x1a\n\x00\x01"
    async with site({"/": web.Response(body=picture, headers={"Content-Type": "image/png"})}) as running:
        answer = await ask(running)
    assert answer["encoding"] == "base64"
    assert base64.b64decode(answer["body"]) == picture


@pytest.mark.parametrize("encoding", ["gzip", "deflate", ""])
async def test_a_huge_body_is_cut_however_small_it_is_on_the_wire(encoding: str) -> None:
    huge = b"a" * 200_000_000 if encoding else b"a" * 5_000_000
    packed = {"gzip": lambda: gzip.compress(huge, 1), "deflate": lambda: zlib.compress(huge, 1), "": lambda: huge}[
        encoding
    ]()
    headers = {"Content-Type": "text/plain", **({"Content-Encoding": encoding} if encoding else {})}
    async with site({"/": web.Response(body=packed, headers=headers)}) as running:
        answer = await ask(running, max_bytes=1_000)
    assert answer["body"] == "a" * 1_000
    assert answer["truncated"] is True


async def test_a_server_that_drips_is_left_in_time() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with raw(drip) as running:
        limits: tuple[dict[str, Any], ...] = ({"timeout": 0.3}, {"timeout_s": 0.3})
        for args in limits:
            with pytest.raises(TimeoutError, match=r"took longer than 0\.3 s"):
                await ask(running, **args)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 999999 Odd\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nxxxx",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
    ],
)
async def test_what_is_no_answer_is_a_connection_error(answer: bytes) -> None:
    async with answering(answer) as running:
        with pytest.raises(ConnectionError) as problem:
            await ask(running)
    assert type(problem.value) is ConnectionError


async def test_headers_that_are_no_text_can_be_recorded() -> None:
    async with answering(b"HTTP/1.1 200 \xff\xfe\r\nX: a\xff\r\nX: b\r\nContent-Length: 0\r\n\r\n") as running:
        answer = await ask(running)
    assert answer["headers"]["x"] == "a\ufffd, b"
    json.dumps(answer, ensure_ascii=False).encode()


async def test_nobody_there_is_a_connection_error() -> None:
    async with raw(lambda *_: asyncio.sleep(0)) as running:
        pass
    for url in (running.url(), "http://no-such-host.invalid/"):
        async with requests("127.0.0.1") as sender:
            with pytest.raises(ConnectionError) as problem:
                await MakeRequest(sender)({"url": url}, context())
        assert type(problem.value) is ConnectionError


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/",
        "http://user:pass@127.0.0.1/",
        "http://127.0.0.1\\@example.org/",
        "//example.org",
        "http://",
        "http://127.0.0.1:99999/",
        "http://exa mple.org/",
        "http://example.org/" + "a" * 5_000,
        "http://example.org/\r\nHost: evil",
        "file:///etc/passwd",
        "",
    ],
)
async def test_an_address_that_cannot_be_used_is_refused(url: str) -> None:
    async with requests("127.0.0.1") as sender:
        with pytest.raises(ValueError, match=r"address"):
            await MakeRequest(sender)({"url": url}, context())


@pytest.mark.parametrize(
    "headers",
    [
        {"X": "a\r\nEvil: 1"},
        {"X": "a\0"},
        {"X\r\n": "a"},
        {"": "a"},
        {"X:": "a"},
        {"Host": "evil"},
        {"content-length": "0"},
        {"Transfer-Encoding": "chunked"},
        {"Connection": "upgrade"},
        {"Proxy-Authorization": "x"},
        {"X": "\udc80"},
    ],
)
async def test_a_header_that_would_say_something_else_is_refused(headers: dict[str, str]) -> None:
    async with site({"/": mirror}) as running:
        with pytest.raises(ValueError, match="header"):
            await ask(running, headers=headers)
    assert running.requests == []


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "GET / HTTP/1.1\r\nX: y", ""])
async def test_methods_that_are_not_for_this_are_refused(method: str) -> None:
    assert problems_with({"url": "http://x", "method": method}, HTTP_REQUEST.parameters)


async def test_two_bodies_are_one_too_many() -> None:
    async with site({"/": mirror}) as running:
        with pytest.raises(ValueError, match="'json' and 'form'"):
            await ask(running, json={}, form={})


async def test_without_network_nothing_is_asked() -> None:
    async with site({"/": mirror}) as running, requests("127.0.0.1") as sender:
        with pytest.raises(NetworkDisabled):
            await MakeRequest(sender)({"url": running.url()}, context(network_allowed=False))
    assert running.requests == []


async def test_a_step_that_says_nothing_waits_a_minute_and_one_that_does_as_long_as_it_says() -> None:
    heard: list[float] = []

    class Heard(HttpRequests):
        async def send(self, request: Any, *, timeout_s: float) -> Any:
            heard.append(timeout_s)
            return await super().send(request, timeout_s=5)

    async with site({"/": mirror}) as running:
        sender = Heard(WebConfig(allow_hosts=("127.0.0.1",)))
        for args, time in (({}, MAX_TIMEOUT_S), ({}, 7_200), ({"timeout": 300}, MAX_TIMEOUT_S), ({"timeout": 300}, 20)):
            await MakeRequest(sender)({"url": running.url(), **args}, context(time))
        await sender.aclose()
    assert heard == [60, 7_200, 300, 20]


# The guard


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "0", "rebound.test"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_this_machine_is_not_even_dialled_unless_allowed(host: str, method: str) -> None:
    dialled = 0

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal dialled
        dialled += 1

    async with (
        raw(count) as private,
        requests("wiki.corp", names={"rebound.test": ["93.184.216.34", "127.0.0.1"]}) as sender,
    ):
        with pytest.raises(PermissionError, match=r"`web\.allow_hosts`"):
            await MakeRequest(sender)({"url": private.url(host=host), "method": method}, context())
    assert dialled == 0


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "10.0.0.1", "192.168.1.1", "[fe80::1]", "[fd00::1]", "metadata.test"]
)
async def test_neighbours_and_metadata_are_not_dialled(host: str) -> None:
    async with requests(names={"metadata.test": ["169.254.169.254"]}) as sender:
        with pytest.raises(PermissionError):
            await MakeRequest(sender)({"url": f"http://{host}/latest/meta-data"}, context(2))


async def test_what_was_checked_is_what_is_dialled() -> None:
    answers = iter([["127.0.0.1"], ["169.254.169.254"]])

    async def lookup(host: str, port: int) -> Sequence[str]:
        return next(answers)

    async with site({"/": mirror}) as running:
        sender = HttpRequests(WebConfig(), AddressGuard(("127.0.0.1",), lookup))
        await MakeRequest(sender)({"url": running.url(host="once.test")}, context())
        with pytest.raises(PermissionError):
            await MakeRequest(sender)({"url": running.url(host="once.test")}, context())
        await sender.aclose()


async def test_a_redirect_to_a_private_address_ends_there() -> None:
    async with (
        site({"/": mirror}) as private,
        site({"/": redirect(private.url(host="localhost"))}) as running,
        requests(running.host) as sender,
    ):
        with pytest.raises(PermissionError, match="redirects to"):
            await MakeRequest(sender)({"url": running.url()}, context())
    assert private.requests == []


# Redirects

SECRETS = {"Authorization": "Bearer x", "Cookie": "a=b", "X-Api-Key": "k", "PRIVATE-TOKEN": "p", "Accept": "text/x"}


async def test_another_origin_sees_no_header_of_ours_and_the_same_one_all() -> None:
    async with site({"/": mirror}) as other:
        routes: dict[str, Any] = {"/": redirect("/again"), "/again": mirror, "/away": redirect(other.url())}
        async with site(routes) as running:
            same = (await ask(running, headers=SECRETS))["json"]["headers"]
            away = await ask(running, "/away", headers=SECRETS)
    assert {name.lower(): value for name, value in SECRETS.items()}.items() <= same.items()
    seen = away["json"]["headers"]
    assert away["url"] == other.url()
    assert seen["accept"] == "text/x"
    assert not {"authorization", "cookie", "x-api-key", "private-token", "referer"} & seen.keys()


async def test_headers_that_were_dropped_do_not_come_back() -> None:
    async with (
        site({"*": mirror}) as home,
        site({"/": redirect(home.url("/back"))}) as away,
        site({"/": redirect(away.url())}) as running,
    ):
        seen = (await ask(running, headers=SECRETS))["json"]["headers"]
    assert "authorization" not in seen


@pytest.mark.parametrize(
    ("status", "method", "body"), [(301, "GET", ""), (303, "GET", ""), (307, "POST", "x"), (308, "POST", "x")]
)
async def test_a_redirect_keeps_the_body_only_where_it_says_so(status: int, method: str, body: str) -> None:
    async with site({"/": redirect("/next", status), "/next": mirror}) as running:
        seen = (await ask(running, body="x", method="POST"))["json"]
    assert (seen["method"], seen["body"]) == (method, body)
    assert ("content-type" in seen["headers"]) == bool(body)


@pytest.mark.parametrize("status", [307, 308])
async def test_a_body_is_not_sent_on_to_another_origin(status: int) -> None:
    async with site({"/": mirror}) as other, site({"/": redirect(other.url(), status)}) as running:
        with pytest.raises(HttpError, match="would have the request's body sent"):
            await ask(running, json={"secret": 1})
    assert other.requests == []


async def test_redirects_end() -> None:
    async with site({"/": redirect("/")}) as running:
        with pytest.raises(HttpError, match="redirects more than 5 times"):
            await ask(running)
        assert (await ask(running, accept_status=["3xx"]))["status"] == 302
        assert (await ask(running, accept_status=302))["headers"]["location"] == "/"


@pytest.mark.parametrize("location", ["file:///etc/passwd", "http://user@127.0.0.1/", "http://[", "http://\udc80/"])
async def test_a_redirect_to_nothing_that_can_be_asked_is_an_error(location: str) -> None:
    answer = f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode(errors="surrogateescape")
    async with answering(answer) as running:
        with pytest.raises((HttpError, ConnectionError)):
            await ask(running)


async def test_head_has_no_body() -> None:
    async with site({"/": mirror}) as running:
        answer = await ask(running, method="HEAD")
    assert (answer["status"], answer["body"]) == (200, "")


@pytest.mark.proves("A33-085")
async def test_a_redirect_off_the_domain_allowlist_is_refused() -> None:
    async with site({"*": "<p>secret</p>"}) as other:
        moved = web.Response(status=302, headers={"Location": f"http://localhost:{other.port}/"})
        async with site({"/": moved}) as start, requests("127.0.0.1", "localhost") as sender:
            limited = replace(context(), limits=(Allowlists(domains=("127.0.0.1",)),))
            with pytest.raises(PermissionError, match="'localhost' is not on the domain allowlist"):
                await MakeRequest(sender)({"url": start.url()}, limited)
    assert other.requests == []
