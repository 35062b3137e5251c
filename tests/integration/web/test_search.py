"""Searching: SearXNG over real sockets, and ddgs as far as it goes without the internet.

The engines behind ddgs cannot be reached from a test. Its adapter runs the real library against a proxy that is not
there, which proves how failures are told; how its rows become hits is tested in `unit/infrastructure/web/test_hits.py`.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from agent_fabric.application.ports.web import SearchHit, WebError
from agent_fabric.infrastructure.tools.search_engines import DdgsSearch, SearxngSearch
from integration.web.site import Handler, Site, answering, raw, site

RESULTS: dict[str, Any] = {
    "query": "otters",
    "results": [
        {"url": "https://otters.example/", "title": "Otters", "content": "All about\n otters", "engine": "brave"},
        {"url": "https://otters.example", "title": "Otters again", "content": ""},
        {"url": "magnet:?xt=1", "title": "No page"},
        {"url": "http://kelp.example/a", "title": "Kelp"},
        {"url": "http://sea.example/", "title": "Sea", "content": "Salty"},
    ],
    "unresponsive_engines": [["google", "CAPTCHA"]],
}


@asynccontextmanager
async def searching(search_url: str, timeout_s: float = 10) -> AsyncIterator[SearxngSearch]:
    search = SearxngSearch(search_url, user_agent="otter/1", timeout_s=timeout_s)
    try:
        yield search
    finally:
        await search.aclose()


async def ask(server: Site, query: str = "otters", *, limit: int = 10, wait_s: float = 10) -> Sequence[SearchHit]:
    async with searching(server.url("")) as search:
        return await search.search(query, limit=limit, timeout_s=wait_s)


async def test_a_search_returns_pages_each_once_and_the_best_first() -> None:
    async with site({"/search": web.json_response(RESULTS)}) as searxng:
        assert await ask(searxng, "sea otters & kelp") == [
            SearchHit(title="Otters", url="https://otters.example/", snippet="All about otters"),
            SearchHit(title="Kelp", url="http://kelp.example/a", snippet=""),
            SearchHit(title="Sea", url="http://sea.example/", snippet="Salty"),
        ]
    (request,) = searxng.requests
    assert dict(request.query) == {"q": "sea otters & kelp", "format": "json"}
    assert request.headers["User-Agent"] == "otter/1"


async def test_no_more_pages_than_asked_for() -> None:
    async with site({"/search": web.json_response(RESULTS)}) as searxng:
        assert [hit.title for hit in await ask(searxng, limit=2)] == ["Otters", "Kelp"]


async def test_the_server_may_have_a_path() -> None:
    async with (
        site({"/searx/search": web.json_response(RESULTS)}) as searxng,
        searching(searxng.url("/searx/")) as search,
    ):
        assert len(await search.search("otters", limit=9, timeout_s=10)) == 3


async def test_nothing_found_is_an_answer() -> None:
    async with site({"/search": web.json_response({"results": []})}) as searxng:
        assert await ask(searxng) == []


async def test_nothing_found_because_engines_did_not_answer_is_told() -> None:
    empty = {"results": [], "unresponsive_engines": [["google", "CAPTCHA"], ["bing", "timeout"]]}
    async with site({"/search": web.json_response(empty)}) as searxng:
        with pytest.raises(WebError, match=r"did not answer: .*google.*CAPTCHA.*bing"):
            await ask(searxng)


@pytest.mark.parametrize(
    ("status", "advice"),
    [(403, "`json` under `search: formats:`"), (404, r"web\.search_url"), (429, "limiter"), (500, "log")],
)
async def test_a_server_that_refuses_is_explained_to_the_person(status: int, advice: str) -> None:
    async with site({"/search": web.Response(status=status)}) as searxng:
        with pytest.raises(WebError, match=rf"answered {status}\. .*{advice}"):
            await ask(searxng)


async def test_a_server_that_moved_is_not_followed_but_told() -> None:
    moved = web.Response(status=301, headers={"Location": "https://search.example/search"})
    async with site({"/search": moved}) as searxng:
        with pytest.raises(WebError, match=r"now at https://search\.example/search"):
            await ask(searxng)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"null",
        b"{}",
        b'{"results": 5}',
        b'{"results": null}',
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"results": [',
    ],
)
async def test_an_answer_that_is_not_of_searxng_is_explained(body: bytes) -> None:
    async with site({"/search": web.Response(body=body)}) as other:
        with pytest.raises(WebError, match="did not answer as SearXNG does"):
            await ask(other)


async def test_rows_that_are_garbage_are_left_out() -> None:
    rows: list[Any] = [
        None,
        5,
        "x",
        [],
        {},
        {"url": None},
        {"url": 5, "title": "x"},
        {"url": "http://a.example/", "title": None},
    ]
    async with site({"/search": web.json_response({"results": rows})}) as searxng:
        assert [hit.url for hit in await ask(searxng)] == ["http://a.example/"]


async def test_a_server_that_is_not_there_is_explained(unused_tcp_port: int) -> None:
    with pytest.raises(WebError, match=r"cannot be used.*tell the person"):
        await ask(Site(unused_tcp_port))


async def test_a_server_that_breaks_off_is_explained() -> None:
    async with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{") as broken:
        with pytest.raises(WebError, match="cannot be used"):
            await ask(broken)


async def test_a_server_that_does_not_answer_in_time_is_given_up() -> None:
    async def wait(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with raw(wait) as silent:
        with pytest.raises(WebError, match=r"took longer than 0\.3 s"):
            await ask(silent, wait_s=0.3)


async def test_an_answer_without_end_is_not_read_to_its_end() -> None:
    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'HTTP/1.1 200 OK\r\n\r\n{"results": [')
        while True:
            writer.write(b"0," * 50_000)
            await writer.drain()

    async with raw(flood) as endless:
        with pytest.raises(WebError, match="did not answer as SearXNG does"):
            await ask(endless)


async def test_searches_run_at_once() -> None:
    together = asyncio.Barrier(5)

    async def answer(request: web.Request) -> web.Response:
        await together.wait()
        return web.json_response({"results": [{"url": f"http://{request.query['q']}.example/", "title": "x"}]})

    handler: Handler = answer
    async with site({"/search": handler}) as searxng, searching(searxng.url("")) as search:
        found = await asyncio.gather(*(search.search(f"q{n}", limit=1, timeout_s=10) for n in range(5)))
    assert [hits[0].url for hits in found] == [f"http://q{n}.example/" for n in range(5)]


async def test_an_empty_query_is_not_sent() -> None:
    async with site({"/search": web.json_response(RESULTS)}) as searxng:
        with pytest.raises(WebError, match="empty"):
            await ask(searxng, " ")
    assert searxng.requests == []


# ── ddgs ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_engines_that_cannot_be_reached_are_explained(
    monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    monkeypatch.setenv("DDGS_PROXY", f"http://127.0.0.1:{unused_tcp_port}")
    with pytest.raises(WebError, match=r"search engines refused.*`web\.search_url`"):
        await DdgsSearch(timeout_s=60).search("otters", limit=3, timeout_s=60)


async def test_engines_that_do_not_answer_in_time_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def wait(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with raw(wait) as silent:
        monkeypatch.setenv("DDGS_PROXY", f"http://{silent.host}")
        with pytest.raises(WebError, match=r"within 0\.5 s.*`web\.search_url`"):
            await DdgsSearch(timeout_s=60).search("otters", limit=3, timeout_s=0.5)


async def test_a_search_that_is_not_installed_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ddgs", None)
    with pytest.raises(WebError, match=r'not set up.*web\.search_url.*pip install "agent-fabric\[search\]"'):
        await DdgsSearch(timeout_s=10).search("otters", limit=3, timeout_s=10)
