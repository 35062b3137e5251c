"""Runs one Chromium process and removes everything of it at its end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final

from playwright.async_api import BrowserContext, async_playwright
from playwright.async_api import Error as PlaywrightError

from agent_fabric.application.ports.web import WebError
from agent_fabric.config.schema.browser import BrowserConfig
from agent_fabric.infrastructure.sandbox.egress.proxy import USER, EgressProxy
from agent_fabric.infrastructure.tools.browser.chromium import FLAGS, UDP_OFF, ChromiumLaunch, find_chromium

_START_S: Final = 60.0
_CLOSE_S: Final = 10.0


@contextlib.asynccontextmanager
async def running_chromium(config: BrowserConfig, proxy: EgressProxy) -> AsyncIterator[BrowserContext]:
    """Start a browser with a fresh profile, whose only way out is the proxy; end it and forget everything.

    Raises:
        WebError: there is none, or it does not start.
    """
    launch = ChromiumLaunch.prepare(find_chromium(config))
    try:
        async with async_playwright() as playwright:
            try:
                context = await playwright.chromium.launch_persistent_context(
                    launch.profile,
                    executable_path=launch.program,
                    args=FLAGS,
                    env=launch.environment(),
                    chromium_sandbox=config.own_sandbox,
                    proxy={
                        "server": f"http://127.0.0.1:{proxy.port}",
                        "bypass": "",
                        "username": USER,
                        "password": proxy.credential,
                    },
                    accept_downloads=False,
                    service_workers="block",
                    handle_sigint=False,
                    handle_sigterm=False,
                    handle_sighup=False,
                    timeout=_START_S * 1000,
                )
            except PlaywrightError as problem:
                raise WebError(
                    f"The browser does not start: {said_by(problem)}. Go on without it, and tell the person: where the "
                    "system does not let Chromium make its sandbox, `browser.own_sandbox: false` starts it without."
                ) from None
            try:
                await context.add_init_script(UDP_OFF)
                yield context
            finally:
                with contextlib.suppress(PlaywrightError, TimeoutError):
                    async with asyncio.timeout(_CLOSE_S):
                        await context.close()
    finally:
        launch.remove()


def said_by(problem: BaseException) -> str:
    """Return the first line of what playwright says, without its log."""
    text: Any = getattr(problem, "message", "") or str(problem)
    lines = [line for line in str(text).splitlines() if line.strip()]
    return (lines[0] if lines else type(problem).__name__)[:300].rstrip(".")
