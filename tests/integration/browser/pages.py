"""A site for a real browser: `site.test` leads to 127.0.0.2; everything else of this machine is secret."""

import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from agent_fabric.config.schema.tools import BrowserConfig
from agent_fabric.infrastructure.sandbox.egress.policy import EgressRefusal, browser_policy
from agent_fabric.infrastructure.sandbox.egress.proxy import EgressProxy
from agent_fabric.infrastructure.tools.browser.session import ChromiumBrowser
from integration.egress.wire import Net
from integration.web.site import Site
from services import need, need_program

CHROMIUM = Path(need_program("chromium", package="chromium"))
Routes = Mapping[str, Callable[[web.BaseRequest], Awaitable[web.Response]] | str]


@dataclass
class Bench:
    """A browser and what it was refused."""

    browser: ChromiumBrowser
    proxies: list[EgressProxy] = field(default_factory=list)
    refusals: list[EgressRefusal] = field(default_factory=list)


@contextlib.asynccontextmanager
async def served(routes: Routes) -> AsyncIterator[Site]:
    """Serve pages on 127.0.0.2."""
    try:
        socket.create_server(("127.0.0.2", 0)).close()
    except OSError:
        need(False, "127.0.0.2 is not an address of this machine")
    requests: list[web.BaseRequest] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        requests.append(request)
        found = routes.get(request.path)
        if found is None:
            return web.Response(status=404, text="no such page")
        if isinstance(found, str):
            return web.Response(text=f"<!doctype html><meta charset=utf-8>{found}", content_type="text/html")
        return await found(request)

    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.2", 0).start()
    try:
        yield Site(runner.addresses[0][1], requests)
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def browsing(site: Site, **settings: Any) -> AsyncIterator[Bench]:
    """Browse with `site.test` allowed and nothing else of this machine."""
    names = {"site.test": ["127.0.0.2"], "evil.test": ["127.0.0.1"], "localhost": ["127.0.0.1", "::1"]}
    config = BrowserConfig(enabled=True, executable=CHROMIUM, **settings)
    policy = browser_policy(config, (f"site.test:{site.port}",))
    proxies: list[EgressProxy] = []
    refusals: list[EgressRefusal] = []

    def proxy() -> EgressProxy:
        proxies.append(EgressProxy(policy, loopback=True, lookup=Net(names).lookup, on_refused=refusals.append))
        return proxies[-1]

    browser = ChromiumBrowser(config, proxy)
    try:
        yield Bench(browser, proxies, refusals)
    finally:
        await browser.aclose()
