"""Where pages send us: followed step by step, each step checked like the first."""

import pytest
from aiohttp import web

from agent_fabric.application.ports.web import WebError
from agent_fabric.domain.tools.allowlists import Allowlists
from integration.web.site import OTTERS, Handler, Site, answering, read_page, reader, site


def to(location: str, status: int = 302) -> web.Response:
    return web.Response(status=status, headers={"Location": location}, text="moved")


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
async def test_a_redirect_is_followed_and_the_last_address_told(status: int) -> None:
    async with site({"/old": to("/new", status), "/new": OTTERS}) as moved:
        page = await read_page(moved, "/old")
    assert (page.url, page.final_url, page.title) == (moved.url("/old"), moved.url("/new"), "Otters")
    assert [request.method for request in moved.requests] == ["GET", "GET"]


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("b", "/dir/b"),
        ("./b", "/dir/b"),
        ("../b", "/b"),
        ("/b?x=1", "/b"),
        ("?x=1", "/dir/a"),
        ("//{host}/b", "/b"),
        ("http://{host}/b#part", "/b"),
        ("HTTP://{host}/b", "/b"),
        ("  /b  ", "/b"),
        ("/ü", "/ü"),
        ("/%C3%BC", "/ü"),
    ],
)
async def test_a_redirect_may_be_relative(location: str, path: str) -> None:
    async def answer(request: web.Request) -> web.Response:
        if len(running.requests) == 1:
            return to(location.format(host=running.host))
        return web.Response(text=request.path)

    async with site({"*": answer}) as running:
        page = await read_page(running, "/dir/a")
    assert page.text == path
    assert "#" not in page.final_url


async def test_a_choice_without_a_proposal_is_shown() -> None:
    async with site({"/": web.Response(status=300, text="either or")}) as choice:
        page = await read_page(choice)
    assert (page.status, page.text) == (300, "either or")


async def test_an_answer_that_nothing_has_changed_is_explained() -> None:
    async with answering(b"HTTP/1.1 304 Not Modified\r\n\r\n") as server:
        with pytest.raises(WebError, match="answered 304"):
            await read_page(server)


@pytest.mark.parametrize(
    "routes", [{"/": to("/")}, {"/": to("/b"), "/b": to("/c"), "/c": to("/b#other")}], ids=["itself", "three"]
)
async def test_a_circle_is_noticed(routes: dict[str, Handler | web.Response | str]) -> None:
    async with site(routes) as circle:
        with pytest.raises(WebError, match="redirects in a circle, back to"):
            await read_page(circle, max_redirects=20)
    assert len(circle.requests) == len(routes)


async def test_a_site_that_sets_a_cookie_and_sends_us_back_is_no_circle() -> None:
    async def ask_for_cookie(request: web.Request) -> web.Response:
        if "session=1" in request.headers.get("Cookie", ""):
            return web.Response(text="welcome")
        return web.Response(status=302, headers={"Location": "/", "Set-Cookie": "session=1; Path=/"})

    async with (
        site({"/": ask_for_cookie}) as picky,
        reader("picky.test", names={"picky.test": ["127.0.0.1"]}) as fetcher,
    ):
        page = await fetcher.fetch(picky.url(host="picky.test"), timeout_s=10)
    assert page.text == "welcome"


@pytest.mark.parametrize("allowed", [0, 1, 5])
async def test_redirects_are_followed_as_often_as_configured(allowed: int) -> None:
    async def on(request: web.Request) -> web.Response:
        number = int(request.query.get("n", "0"))
        return to(f"/?n={number + 1}") if number < 5 else web.Response(text="arrived")

    async with site({"/": on}) as chain:
        if allowed == 5:
            assert (await read_page(chain, max_redirects=allowed)).text == "arrived"
        else:
            with pytest.raises(WebError, match=f"redirects more than {allowed} times, at last to"):
                await read_page(chain, max_redirects=allowed)
    assert len(chain.requests) == allowed + 1


@pytest.mark.parametrize(
    "location",
    [
        "ftp://example.org/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "data:text/html,hi",
        "http://[::1",
        "http://a:b/",
    ],
)
async def test_a_redirect_out_of_the_web_is_refused(location: str) -> None:
    async with site({"/": to(location)}) as odd:
        with pytest.raises(WebError, match="redirects to"):
            await read_page(odd)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation:\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://\xff\xfe/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: /" + b"x" * 10_000 + b"\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://me:hunter2@127.0.0.1/\r\nContent-Length: 0\r\n\r\n",
    ],
    ids=["no address", "an empty one", "no text", "too long", "a password"],
)
async def test_a_redirect_that_leads_nowhere_is_explained(answer: bytes) -> None:
    async with answering(answer) as server:
        with pytest.raises(WebError, match="redirect") as caught:
            await read_page(server)
    assert "hunter2" not in str(caught.value)
    assert len(str(caught.value)) < 600


async def private_and(start: str, **names: str) -> tuple[Site, str]:
    """Follow a redirect to a private site; return that site and what was said."""
    async with site({"*": "<p>secret</p>"}) as private, site({"/": to(start.format(port=private.port))}) as public:
        looked_up = {host: [address] for host, address in names.items()}
        async with reader(public.host, names=looked_up) as fetcher:
            with pytest.raises(PermissionError) as caught:
                await fetcher.fetch(public.url(), timeout_s=10)
    assert str(caught.value).startswith(f"{public.url()} redirects to ")
    return private, str(caught.value)


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1:{port}/",
        "//127.0.0.1:{port}/",
        "http://127.1:{port}/",
        "http://2130706433:{port}/",
        "http://0x7f.0.0.1:{port}/",
        "http://0177.0.0.1:{port}/",
        "http://127.0.0.1.:{port}/",
        "http://0:{port}/",
        "http://[::1]:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "http://[64:ff9b::7f00:1]:{port}/",
        "http://１２７.０.０.１:{port}/",
        "http://169.254.169.254/latest/meta-data/",
        "http://10.0.0.1/",
        "https://192.168.0.1/",
    ],
)
async def test_a_redirect_to_a_private_address_is_refused(location: str) -> None:
    private, said = await private_and(location)
    assert "web.allow_hosts" in said
    assert private.requests == []


@pytest.mark.parametrize(
    ("host", "address"),
    [("localhost", "127.0.0.1"), ("localhost.", "127.0.0.1"), ("evil.test", "127.0.0.1"), ("v6.test", "::1")],
)
async def test_a_redirect_to_a_name_of_a_private_address_is_refused(host: str, address: str) -> None:
    private, said = await private_and(f"http://{host}:{{port}}/", **{host: address})
    assert host in said
    assert private.requests == []


@pytest.mark.proves("A33-085")
async def test_a_redirect_off_the_domain_allowlist_is_refused() -> None:
    async with (
        site({"*": OTTERS}) as other,
        site({"/": OTTERS, "/away": to(f"http://localhost:{other.port}/")}) as start,
        reader(start.host, "localhost") as fetcher,
    ):
        lists = (Allowlists(domains=("127.0.0.1",), owner="the agent a"),)
        assert (await fetcher.fetch(start.url(), timeout_s=10, limits=lists)).title == "Otters"
        with pytest.raises(PermissionError, match="'localhost' is not on the domain allowlist of the agent a"):
            await fetcher.fetch(start.url("/away"), timeout_s=10, limits=lists)
    assert other.requests == []
