"""Pages over real sockets: what is read, how much of it, for how long, and how failures are explained."""

import asyncio
import contextlib
import gzip
import threading
import time
import tracemalloc
import zlib
from typing import Any

import pytest
from aiohttp import web

from agent_fabric.application.ports.web import WebError
from integration.web.site import OTTERS, answering, raw, read_page, reader, site

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"


async def failure(answer: bytes, **settings: Any) -> str:
    async with answering(answer) as server:
        with pytest.raises(WebError) as caught:
            await read_page(server, **settings)
    return str(caught.value)


# ── what is read ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_page_is_read_with_its_title_and_main_text() -> None:
    async with site({"/otters": OTTERS}) as otters:
        page = await read_page(otters, "/otters#sleep")
    assert (page.title, page.text) == ("Otters", "Sea otters hold hands while they sleep.")
    assert (page.url, page.final_url) == (otters.url("/otters#sleep"), otters.url("/otters"))
    assert (page.status, page.content_type, page.cut) == (200, "text/html", False)
    assert page.body == OTTERS.encode()


async def test_a_page_is_asked_for_politely() -> None:
    async with site({"*": OTTERS}) as otters:
        await read_page(otters, "/a b/ü?q=ä&x=1#no", user_agent="otter/1")
    (request,) = otters.requests
    assert (request.method, request.raw_path) == ("GET", "/a%20b/%C3%BC?q=%C3%A4&x=1")
    assert request.headers["User-Agent"] == "otter/1"
    assert request.headers["Accept-Encoding"] == "gzip, deflate"
    assert "text/html" in request.headers["Accept"]
    assert not {"Cookie", "Referer", "Authorization"} & set(request.headers)


@pytest.mark.parametrize(
    ("content_type", "body", "text"),
    [
        ("text/plain; charset=utf-8", "grün".encode(), "grün"),
        ("application/json", b'{"a": 1}', '{"a": 1}'),
        ("application/atom+xml", b"<feed/>", "<feed/>"),
        ("text/csv", b"a,b\n1,2\n", "a,b\n1,2\n"),
        ("application/octet-stream", b"just words", "just words"),
        (
            "application/xhtml+xml",
            b"<html xmlns='http://www.w3.org/1999/xhtml'><body><p>hi there</p></body></html>",
            "hi there",
        ),
    ],
)
async def test_text_of_any_kind_is_read(content_type: str, body: bytes, text: str) -> None:
    async with site({"/": web.Response(body=body, headers={"Content-Type": content_type})}) as texts:
        page = await read_page(texts)
    assert page.text == text
    assert page.body == body


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("text/html; charset=iso-8859-1", "<p>schöne Grüße</p>".encode("latin-1")),
        ("text/html; charset=klingon", "<p>schöne Grüße</p>".encode()),
        ("text/html", '<meta charset="iso-8859-15"><p>schöne Grüße</p>'.encode("iso-8859-15")),
        ("text/html", "<p>schöne Grüße</p>".encode()),
        ("text/html", "<p>schöne Grüße</p>".encode("latin-1")),
        ("text/html; charset=latin-1", "<p>schöne Grüße</p>".encode("utf-16")),
    ],
    ids=["declared", "no charset", "in the page", "none, UTF-8", "none, Latin", "byte order mark"],
)
async def test_the_charset_is_found_out(content_type: str, body: bytes) -> None:
    async with site({"/": web.Response(body=body, headers={"Content-Type": content_type})}) as page:
        assert (await read_page(page)).text == "schöne Grüße"


async def test_a_wrong_charset_spoils_letters_and_nothing_else() -> None:
    body = "<title>Grüße</title><p>schöne Grüße an alle".encode("latin-1")
    async with site({"/": web.Response(body=body, headers={"Content-Type": "text/html; charset=utf-8"})}) as wrong:
        page = await read_page(wrong)
    assert page.title == "Gr\ufffd\ufffde"
    assert page.text == "sch\ufffdne Gr\ufffd\ufffde an alle"


async def test_content_without_a_type_is_looked_at() -> None:
    async with answering(b"HTTP/1.1 200 OK\r\n\r\n<!doctype html><title>T</title><p>untyped text") as server:
        page = await read_page(server)
    assert (page.content_type, page.title, page.text) == ("text/html", "T", "untyped text")


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"Content-Length: 0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        OK + b"\r\n<html></html>",
    ],
    ids=["empty", "no content", "nothing at all", "no text"],
)
async def test_an_empty_page_is_a_page(answer: bytes) -> None:
    async with answering(answer) as server:
        page = await read_page(server)
    assert (page.title, page.text, page.cut) == ("", "", False)


async def test_headers_longer_than_usual_are_taken() -> None:
    async with answering(OK + b"Content-Security-Policy: " + b"x" * 30_000 + b"\r\n\r\n<p>long") as server:
        assert (await read_page(server)).text == "long"


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_compressed_pages_are_unpacked(encoding: str) -> None:
    packed = gzip.compress(OTTERS.encode()) if encoding == "gzip" else zlib.compress(OTTERS.encode())
    async with answering(OK + f"Content-Encoding: {encoding}\r\n\r\n".encode() + packed) as server:
        page = await read_page(server)
    assert page.body == OTTERS.encode()


# ── what cannot be read ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("content_type", ["application/pdf", "text/html", "", "application/octet-stream"])
async def test_a_pdf_is_named_whatever_its_server_says(content_type: str) -> None:
    head = f"Content-Type: {content_type}\r\n" if content_type else ""
    message = await failure(
        f"HTTP/1.1 200 OK\r\n{head}Content-Length: 1007\r\n\r\n".encode() + b"%PDF-1.7" + b"x" * 999
    )
    assert "is a PDF (application/pdf, 1,007 bytes)" in message
    assert "HTML version" in message


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (b"Content-Type: image/png\r\nContent-Length: 5\r\n\r\n\x89PNG\r", "image/png, 5 bytes"),
        (b"Content-Type: video/mp4\r\n\r\n", "video/mp4, of unknown size"),
        (b"Content-Type: text/plain\r\n\r\n\0\1\2\3", "application/octet-stream, 4 bytes"),
        (b"\r\n\x7fELF\0\0\0", "application/octet-stream, 7 bytes"),
    ],
)
async def test_what_is_not_text_is_named_with_its_size(head: bytes, said: str) -> None:
    assert said in await failure(b"HTTP/1.1 200 OK\r\n" + head)


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        *((401, "login"), (403, "keeps programs out"), (404, "Check the address"), (410, "removed")),
        *((418, "another source"), (429, "fewer requests"), (500, "try again later"), (503, "try again later")),
    ],
)
async def test_a_refusal_is_told_with_its_status_its_text_and_what_to_do(status: int, advice: str) -> None:
    page = "<title>Sorry</title><p>The otter\n is asleep.</p>" + "<p>filler text</p>" * 10_000
    async with site({"/": web.Response(status=status, text=page, content_type="text/html")}) as sorry:
        with pytest.raises(WebError, match=rf"{sorry.url()} answered {status} ") as caught:
            await read_page(sorry)
    assert advice in str(caught.value)
    assert "It said: Sorry The otter is asleep." in str(caught.value)
    assert len(str(caught.value)) < 600


async def test_a_refusal_without_words_or_in_pictures_is_told_all_the_same() -> None:
    assert (await failure(b"HTTP/1.1 404 \r\nContent-Length: 0\r\n\r\n")).endswith("or search for the page.")
    assert "answered 500" in await failure(
        b"HTTP/1.1 500 No\r\nContent-Type: image/png\r\nContent-Length: 4\r\n\r\n\x89PNG"
    )


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"hello",
        b"HTTP/9.9 abc\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"220 mail.example ESMTP\r\n",
        OK + b"Content-Length: 100\r\n\r\nhalf",
        OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab",
        OK + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope",
        OK + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(OTTERS.encode())[:30] + b"\xff" * 30,
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: " + b"x" * 100_000 + b"\r\n\r\n",
    ],
)
async def test_an_answer_that_is_none_is_explained(answer: bytes) -> None:
    assert "another source" in await failure(answer)


@pytest.mark.parametrize("packed", [b"nope", gzip.compress(OTTERS.encode())[:30] + b"\xff" * 30])
async def test_broken_compression_is_explained(packed: bytes) -> None:
    told = await failure(OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed)
    assert "sent compressed content that is broken and cannot be unpacked. Use another source." in told


def test_the_end_of_a_program_does_not_wait_for_a_page_that_is_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    released, begun = threading.Event(), threading.Event()

    def endless(*_: object) -> None:
        begun.set()
        released.wait(60)

    monkeypatch.setattr("agent_fabric.infrastructure.web.fetch.read", endless)

    async def give_up() -> None:
        async with site({"/": OTTERS}) as running:
            with pytest.raises(WebError, match="took longer than"):
                await read_page(running, wait_s=1)

    try:
        start = time.monotonic()
        asyncio.run(give_up())  # which waits for the threads of asyncio's own pool
        assert begun.is_set()
        assert time.monotonic() - start < 30
    finally:
        released.set()


async def test_nobody_listening_is_explained(unused_tcp_port: int) -> None:
    async with reader(f"127.0.0.1:{unused_tcp_port}") as fetcher:
        with pytest.raises(WebError, match=f"No server answers at 127.0.0.1:{unused_tcp_port}"):
            await fetcher.fetch(f"http://127.0.0.1:{unused_tcp_port}/", timeout_s=10)


@pytest.mark.parametrize("host", ["no-such-host.invalid", f"{'a' * 64}.example", f"{'long.' * 60}example"])
async def test_a_host_that_does_not_exist_is_explained(host: str) -> None:
    async with reader() as fetcher:
        with pytest.raises(WebError, match=r"Check the address|another source"):
            await fetcher.fetch(f"http://{host}/", timeout_s=20)


@pytest.mark.parametrize(
    "url",
    [
        *("", "otters", "example.org/page", "//example.org/", "http://", "http:///x", "http:/a.org", "https:a.org"),
        *("ftp://a.org/", "file:///etc/passwd", "javascript:alert(1)", "data:text/html,hi", "about:blank"),
        *(
            "http://a b/",
            "http://a%20b/",
            "http://%31%32%37.0.0.1/",
            "http://x\\@a.org/",
            "http://a..b/",
            "http://[::1",
        ),
        *("http://a:0/", "http://a:99999/", "http://a:b/", "http://1.2.3.4.5/", "http://127.0.0.1../"),
        *("http://exa\u00admple.org/", "http://\ud800/"),
    ],
)
async def test_what_is_not_a_web_address_is_explained(url: str) -> None:
    async with reader(names={}) as fetcher:
        with pytest.raises(WebError, match="not a web address"):
            await fetcher.fetch(url, timeout_s=10)


async def test_an_address_without_end_is_refused_and_not_repeated() -> None:
    async with reader() as fetcher:
        with pytest.raises(WebError, match="too long") as caught:
            await fetcher.fetch("http://example.org/" + "x" * 10_000, timeout_s=10)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "url", ["http://me:hunter2@example.org/", "http://hunter2@example.org/", "http://:hunter2@example.org/"]
)
async def test_a_password_in_an_address_is_refused_and_not_repeated(url: str) -> None:
    async with reader(names={}) as fetcher:
        with pytest.raises(WebError, match="user name or password") as caught:
            await fetcher.fetch(url, timeout_s=10)
    assert "hunter2" not in str(caught.value)


# ── how much ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_page_without_end_is_cut_and_its_connection_closed() -> None:
    closed = asyncio.Event()

    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"\r\n<p>")
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b"otter " * 10_000)
                await writer.drain()
        closed.set()

    async with raw(flood) as endless:
        page = await read_page(endless, max_bytes=500_000)
        await asyncio.wait_for(closed.wait(), 60)
    assert page.cut
    assert len(page.body) == 500_000
    assert page.text.startswith("otter otter")


@pytest.mark.parametrize(("size", "cut"), [(999, False), (1_000, False), (1_001, True)])
async def test_a_page_of_just_the_right_size_is_not_cut(size: int, cut: bool) -> None:
    async with site({"/": web.Response(text="x" * size)}) as exact:
        page = await read_page(exact, max_bytes=1_000)
    assert (len(page.body), page.cut) == (min(size, 1_000), cut)


@pytest.mark.parametrize("wbits", [31, 15, -15], ids=["gzip", "deflate", "raw deflate"])
async def test_a_few_bytes_that_unpack_to_many_are_cut_before_they_fill_the_memory(wbits: int) -> None:
    packer = zlib.compressobj(6, zlib.DEFLATED, wbits)
    bomb = b"".join(packer.compress(b" " * 10_000_000) for _ in range(20)) + packer.flush()
    encoding = b"gzip" if wbits == 31 else b"deflate"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: " + encoding
    async with answering(head + b"\r\nContent-Length: %d\r\n\r\n" % len(bomb) + bomb) as server:
        tracemalloc.start()
        try:
            page = await read_page(server, max_bytes=1_000_000)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert page.cut
    assert len(page.body) == 1_000_000
    assert peak < 20_000_000, "of 200 million"


# ── how long ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_page_that_drips_is_given_up() -> None:
    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.05)

    async with raw(drip) as slow:
        with pytest.raises(WebError, match=r"took longer than 0\.5 s"):
            await read_page(slow, wait_s=0.5)


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\n", OK + b"\r\n"], ids=["silent", "half a head", "no body"])
async def test_a_server_that_never_answers_is_given_up(head: bytes) -> None:
    async def wait(request: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        await request.read()
        await asyncio.Event().wait()

    async with raw(wait) as silent:
        with pytest.raises(WebError, match="took longer"):
            await read_page(silent, wait_s=0.5)


async def test_the_configured_time_holds_even_if_the_caller_would_wait_longer() -> None:
    async def wait(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with raw(wait) as silent:
        with pytest.raises(WebError, match=r"took longer than 0\.3 s"):
            await read_page(silent, wait_s=600, timeout_s=0.3)


async def test_time_is_counted_over_all_redirects() -> None:
    async def slowly(request: web.Request) -> web.Response:
        await asyncio.sleep(0.2)
        number = int(request.query.get("n", "0"))
        return web.Response(status=302, headers={"Location": f"/?n={number + 1}"})

    async with site({"/": slowly}) as chain:
        with pytest.raises(WebError, match="took longer than 1 s"):
            await read_page(chain, wait_s=1, max_redirects=20)


# ── several at once ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_many_pages_are_read_at_once() -> None:
    together = asyncio.Barrier(20)

    async def numbered(request: web.Request) -> web.Response:
        await together.wait()
        return web.Response(text=f"<title>{request.path}</title><p>page {request.path}", content_type="text/html")

    async with site({"*": numbered}) as many, reader(many.host) as fetcher:
        pages = await asyncio.gather(*(fetcher.fetch(many.url(f"/{n}"), timeout_s=20) for n in range(20)))
    assert [page.title for page in pages] == [f"/{n}" for n in range(20)]


async def test_cancelling_closes_the_connection() -> None:
    asked, closed = asyncio.Event(), asyncio.Event()

    async def hold(request: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request.readuntil(b"\r\n\r\n")
        writer.write(OK + b"\r\n<p>begin")
        asked.set()
        await request.read()
        closed.set()

    async with raw(hold) as server, reader(server.host) as fetcher:
        task = asyncio.create_task(fetcher.fetch(server.url(), timeout_s=20))
        await asyncio.wait_for(asked.wait(), 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(closed.wait(), 60)


async def test_cancelling_one_page_leaves_the_others_alone() -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def hold(request: web.Request) -> web.Response:
        asked.set()
        await go_on.wait()
        return web.Response(text="held")

    async with site({"/held": hold, "/other": hold}) as held, reader(held.host) as fetcher:
        other = asyncio.create_task(fetcher.fetch(held.url("/other"), timeout_s=20))
        task = asyncio.create_task(fetcher.fetch(held.url("/held"), timeout_s=20))
        await asyncio.wait_for(asked.wait(), 60)
        task.cancel()
        go_on.set()
        assert (await other).text == "held"


async def test_nothing_is_remembered_between_two_pages() -> None:
    async def tracking(request: web.Request) -> web.Response:
        response = web.Response(text=request.headers.get("Cookie", "nothing"))
        response.set_cookie("seen", "you")
        return response

    names = {"otters.test": ["127.0.0.1"]}
    async with site({"/": tracking}) as tracker, reader("otters.test", names=names) as fetcher:
        first = await fetcher.fetch(tracker.url(host="otters.test"), timeout_s=10)
        second = await fetcher.fetch(tracker.url(host="otters.test"), timeout_s=10)
    assert (first.text, second.text) == ("nothing", "nothing")


def test_a_reader_works_in_one_event_loop_after_another() -> None:
    async def read() -> str:
        async with site({"/": OTTERS}) as otters:
            return (await read_page(otters)).title

    assert [asyncio.run(read()), asyncio.run(read())] == ["Otters", "Otters"]


async def test_a_reader_can_be_closed_twice_and_used_again() -> None:
    async with site({"/": OTTERS}) as otters, reader(otters.host) as fetcher:
        await fetcher.aclose()
        assert (await fetcher.fetch(otters.url(), timeout_s=10)).title == "Otters"
        await fetcher.aclose()
        await fetcher.aclose()
        assert (await fetcher.fetch(otters.url(), timeout_s=10)).title == "Otters"
