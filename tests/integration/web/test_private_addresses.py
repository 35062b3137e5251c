"""What only this machine can reach stays out of reach, whatever names, name servers and proxies do."""

import asyncio
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from aiohttp import web

from agent_fabric.application.ports.web import WebError
from agent_fabric.config.schema.tools import WebConfig
from agent_fabric.infrastructure.sandbox.egress.addresses import AddressGuard
from agent_fabric.infrastructure.web.fetch import HttpPageFetcher
from integration.web.site import OTTERS, Site, reader, site
from services import need


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "[::ffff:127.0.0.1]", "0x7f.1", "0"])
async def test_this_machine_is_not_read_unless_allowed(host: str) -> None:
    async with site({"/": "<p>secret</p>"}) as private, reader() as fetcher:
        with pytest.raises(PermissionError, match=r"`web\.allow_hosts`"):
            await fetcher.fetch(private.url(host=host), timeout_s=10)
    assert private.requests == []


@pytest.mark.parametrize(
    ("allowed", "host"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1:{port}", "127.0.0.1"),
        ("127.0.0.0/8", "127.1"),
        ("127.0.0.1", "2130706433"),
        ("127.0.0.1", "[::ffff:7f00:1]"),
        ("wiki.corp", "wiki.corp"),
        ("wiki.corp:{port}", "WIKI.corp."),
        ("127.0.0.1", "wiki.corp"),
        ("xn--bcher-kva.test", "bücher.test"),
    ],
)
async def test_an_allowed_host_is_read(allowed: str, host: str) -> None:
    names = {name: ["127.0.0.1"] for name in ("wiki.corp", "wiki.corp.", "xn--bcher-kva.test")}
    async with site({"/": OTTERS}) as private, reader(allowed.format(port=private.port), names=names) as fetcher:
        page = await fetcher.fetch(private.url(host=host), timeout_s=10)
    assert page.title == "Otters"


@pytest.mark.parametrize(
    ("allowed", "host"),
    [
        ("wiki.corp", "evil.test"),
        ("wiki.corp", "127.0.0.1"),
        ("wiki.corp:1", "wiki.corp"),
        ("127.0.0.1:1", "127.0.0.1"),
        ("127.0.0.2", "wiki.corp"),
        ("localhost", "127.0.0.1"),
    ],
)
async def test_what_is_allowed_for_one_host_is_not_for_another(allowed: str, host: str) -> None:
    names = {name: ["127.0.0.1"] for name in ("wiki.corp", "evil.test")}
    async with site({"/": "<p>secret</p>"}) as private, reader(allowed, names=names) as fetcher:
        with pytest.raises(PermissionError, match=host):
            await fetcher.fetch(private.url(host=host), timeout_s=10)
    assert private.requests == []


async def test_a_name_with_a_public_and_a_private_address_is_refused() -> None:
    names = {"two.test": ["93.184.216.34", "127.0.0.1"]}
    async with site({"/": "<p>secret</p>"}) as private, reader(names=names) as fetcher:
        with pytest.raises(PermissionError, match=r"two\.test"):
            await fetcher.fetch(private.url(host="two.test"), timeout_s=10)
    assert private.requests == []


# ── a name server that changes its mind ───────────────────────────────────────────────────────────────────────────────


class FickleNames:
    """Answers the first address once, and the second one ever after."""

    def __init__(self, first: str, second: str) -> None:
        self._answers = [first, second]
        self.asked = 0

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked += 1
        return [self._answers[min(self.asked, 2) - 1]]


@asynccontextmanager
async def two_faces() -> AsyncIterator[tuple[int, Site]]:
    """Serve a harmless page on 127.0.0.2, which stands for the internet, and a secret on 127.0.0.1, same port."""
    try:
        socket.create_server(("127.0.0.2", 0)).close()
    except OSError:
        need(False, "127.0.0.2 is not an address of this machine")
    async with site({"*": "<p>secret</p>"}) as private:
        runner = web.ServerRunner(web.Server(_harmless))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.2", private.port).start()
        yield private.port, private
        await runner.cleanup()


async def _harmless(_: web.BaseRequest) -> web.Response:
    return web.Response(text="harmless", headers={"Connection": "close"})


async def test_a_name_that_turns_private_after_the_check_is_dialled_where_it_was_checked() -> None:
    async with two_faces() as (port, private):
        names = FickleNames("127.0.0.2", "127.0.0.1")
        fetcher = HttpPageFetcher(WebConfig(), AddressGuard(["127.0.0.2"], names))
        page = await fetcher.fetch(f"http://rebind.test:{port}/", timeout_s=10)
        assert page.text == "harmless"
        assert names.asked == 1, "what was checked is what was dialled"
        with pytest.raises(PermissionError, match=r"rebind\.test"):
            await fetcher.fetch(f"http://rebind.test:{port}/", timeout_s=10)
        assert names.asked == 2
        await fetcher.aclose()
    assert private.requests == []


async def test_a_name_that_turns_private_between_two_redirects_is_refused() -> None:
    async def on(_: web.BaseRequest) -> web.Response:
        return web.Response(status=302, headers={"Location": "/next", "Connection": "close"})

    async with site({"*": on}) as public:
        names = FickleNames("127.0.0.1", "10.0.0.1")
        fetcher = HttpPageFetcher(WebConfig(), AddressGuard(["127.0.0.1"], names))
        with pytest.raises(PermissionError, match=r"redirects to http://rebind\.test"):
            await fetcher.fetch(public.url(host="rebind.test"), timeout_s=10)
        await fetcher.aclose()
    assert len(public.requests) == 1


async def test_every_name_of_many_fetches_at_once_is_checked_for_itself() -> None:
    names = {
        f"{kind}{n}.test": [address]
        for n in range(10)
        for kind, address in (("good", "127.0.0.2"), ("bad", "127.0.0.1"))
    }
    async with two_faces() as (port, private), reader("127.0.0.2", names=names) as fetcher:
        urls = [f"http://{name}:{port}/" for name in names]
        results = await asyncio.gather(*(fetcher.fetch(url, timeout_s=20) for url in urls), return_exceptions=True)
    assert [type(result).__name__ for result in results] == ["Page", "PermissionError"] * 10
    assert private.requests == []


# ── proxies ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with site({"*": "<p>from the proxy</p>"}) as proxy, site({"/": OTTERS}) as otters:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, f"http://{proxy.host}")
            monkeypatch.setenv(name.upper(), f"http://{proxy.host}")
        monkeypatch.delenv("no_proxy", raising=False)
        async with reader(otters.host, names={}) as fetcher:
            assert (await fetcher.fetch(otters.url(), timeout_s=10)).title == "Otters"
            with pytest.raises(PermissionError):
                await fetcher.fetch("http://169.254.169.254/", timeout_s=10)
            with pytest.raises(WebError, match="no host"):
                await fetcher.fetch("http://elsewhere.test/", timeout_s=10)
    assert proxy.requests == []


# ── certificates ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Authority(NamedTuple):
    """A certificate of `otters.test`, signed by itself."""

    ca_file: Path
    server: ssl.SSLContext
    asked_for: list[str | None]
    """The names that clients asked for when they connected."""


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "key.pem", "-out", "cert.pem")
    name = ("-days", "2", "-subj", "/CN=otters.test", "-addext", "subjectAltName=DNS:otters.test")
    try:
        subprocess.run(["openssl", "req", "-x509", *key, *name], cwd=tmp_path, check=True, capture_output=True)
    except FileNotFoundError:
        need(False, "certificates are made with the openssl program")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    asked_for: list[str | None] = []
    server.sni_callback = lambda _socket, asked, _context: asked_for.append(asked)
    return Authority(tmp_path / "cert.pem", server, asked_for)


NAMES = {"otters.test": ["127.0.0.1"], "other.test": ["127.0.0.1"]}


async def test_the_name_stays_in_the_certificate_check_and_the_request(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca_file))
    async with site({"/": OTTERS}, tls=authority.server) as otters, reader("otters.test", names=NAMES) as fetcher:
        page = await fetcher.fetch(otters.url(host="otters.test"), timeout_s=10)
    assert page.title == "Otters"
    assert page.final_url == f"https://otters.test:{otters.port}/"
    assert authority.asked_for == ["otters.test"]
    assert otters.requests[0].headers["Host"] == f"otters.test:{otters.port}"


async def test_a_redirect_from_https_to_http_is_followed_and_told(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca_file))
    async with site({"/": OTTERS}) as plain:
        down = web.Response(status=301, headers={"Location": plain.url(host="otters.test")})
        async with site({"/": down}, tls=authority.server) as safe, reader("otters.test", names=NAMES) as fetcher:
            page = await fetcher.fetch(safe.url(host="otters.test"), timeout_s=10)
    assert page.final_url == f"http://otters.test:{plain.port}/"


@pytest.mark.parametrize(("host", "trusted"), [("otters.test", False), ("other.test", True)])
async def test_a_certificate_that_does_not_fit_is_explained(
    host: str, trusted: bool, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca_file))
    async with site({"/": OTTERS}, tls=authority.server) as otters, reader(host, names=NAMES) as fetcher:
        with pytest.raises(WebError, match=rf"certificate of '{host}' is not trusted"):
            await fetcher.fetch(otters.url(host=host), timeout_s=10)
    assert otters.requests == []


async def test_https_where_http_is_spoken_is_explained() -> None:
    async with site({"/": OTTERS}) as plain, reader(plain.host) as fetcher:
        with pytest.raises(WebError, match=r"^This port does not speak TLS: .*\. Use another source\.$"):
            await fetcher.fetch(f"https://{plain.host}/", timeout_s=10)
