"""Starts Chromium so that nothing of it gets past the egress proxy, and not as root."""

import asyncio
import contextlib
import os
import shlex
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

from playwright.async_api import BrowserContext, async_playwright
from playwright.async_api import Error as PlaywrightError

from agent_fabric.application.ports.web import WebError
from agent_fabric.config.schema.tools import BrowserConfig
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.infrastructure.own_path import own_path
from agent_fabric.infrastructure.sandbox.egress.private_folder import PrivateFolder
from agent_fabric.infrastructure.sandbox.egress.proxy import USER, EgressProxy

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_USUAL_PLACES: Final = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
NOBODY: Final = 65_534
"""Who the browser runs as where we are root."""

FLAGS: Final = (
    # Names are for the proxy to look up; the only address that may be dialled is the proxy's.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--proxy-bypass-list=<-loopback>",
    "--dns-prefetch-disable",
    # What does not go through an HTTP proxy.
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    # What a browser asks for by itself.
    "--disable-background-networking",
    "--component-updater=url-source=http://127.0.0.1:9/",  # a port that it never dials; checks happen all the same
    "--gaia-url=http://127.0.0.1:9/",
    "--disable-client-side-phishing-detection",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-sync",
    "--no-first-run",
    "--no-pings",
    # What a page without a window does not need.
    "--disable-gpu",
    "--disable-extensions",
    "--disable-notifications",
    "--disable-print-preview",
    "--mute-audio",
)
UDP_OFF: Final = """
for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "RTCDataChannel", "WebTransport"]) {
  try { Object.defineProperty(globalThis, name, { value: undefined, writable: false, configurable: false }); }
  catch (problem) {}
}
"""
"""Runs in each page before its own scripts: what speaks UDP is not there. The flags hold it too; this says it early."""


def find_chromium(config: BrowserConfig) -> str:
    """Return the path of the browser.

    Raises:
        WebError: there is none.
    """
    if config.executable is not None:
        if os.access(config.executable, os.X_OK):
            return str(config.executable)
        raise WebError(f"There is no browser at {config.executable}. A person can correct `browser.executable`.")
    path = own_path(os.environ.get("PATH"))
    places = (*filter(None, (shutil.which(name, path=path) for name in NAMES)), *filter(os.path.exists, _USUAL_PLACES))
    if not places:
        raise WebError(
            "No browser is installed. Go on without one, and tell the person: install Chromium "
            "(Debian and Ubuntu: apt install chromium), or name one with `browser.executable`."
        )
    return places[0]


@dataclass(frozen=True, slots=True)
class ChromiumLaunch:
    """A folder for one browser, and how it is started from there."""

    folder: PrivateFolder
    profile: Path
    program: Path

    @classmethod
    def prepare(cls, chromium: str) -> "ChromiumLaunch":
        """Make a fresh profile; where we are root, one that belongs to no one, with a starter that gives up being root.

        As root, Chromium would only start without its own sandbox, which is what holds a hostile page.
        """
        folder = PrivateFolder.make("fabric-browser-")
        profile = folder.path / "profile"
        profile.mkdir(mode=0o700)
        if os.geteuid() != 0:
            return cls(folder, profile, Path(chromium))
        dropping = shutil.which("setpriv")
        if dropping is None:
            folder.remove()
            raise WebError("The browser is not started as root, and the program setpriv (util-linux) is not there.")
        os.chown(profile, NOBODY, NOBODY)
        folder.path.chmod(0o711)
        program = folder.path / "start"
        ids = f"--reuid={NOBODY} --regid={NOBODY} --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs"
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(dropping)} {ids} -- {shlex.quote(chromium)} "$@"\n')
        program.chmod(0o755)
        return cls(folder, profile, program)

    def environment(self) -> dict[str, str | float | bool]:
        """Return the browser's environment: nothing of ours is in it."""
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.profile),
            "TMPDIR": str(self.profile),
            "LANG": "C.UTF-8",
        }

    def remove(self) -> None:
        """Remove the profile and all that was in it."""
        self.folder.remove()


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
