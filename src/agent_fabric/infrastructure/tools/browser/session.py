"""Browser over playwright and an installed Chromium."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, Dialog, ElementHandle, Frame, JSHandle, Page, Request, Response
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import TimeoutError as PlaywrightTimeout

from agent_fabric.application.ports.browser import PageView
from agent_fabric.application.ports.web import WebError
from agent_fabric.config.schema.tools import BrowserConfig
from agent_fabric.infrastructure.sandbox.egress.addresses import Malformed, endpoint_from
from agent_fabric.infrastructure.sandbox.egress.proxy import EgressProxy
from agent_fabric.infrastructure.tools.browser.chromium import running_chromium, said_by
from agent_fabric.infrastructure.tools.browser.page_text import (
    FRAME_STEP,
    MAX_CHARS,
    NEW_NUMBERS,
    READ,
    THING,
    FrameText,
    frame_text,
)
from agent_fabric.infrastructure.web.url_syntax import problem_with

_SETTLE_S: Final = 3.0
"""How long a page that is there may go on loading before it is read."""
_QUIET_S: Final = 1.0
_SUBMITTED_S: Final = 2.0
"""Until what was sent off leads elsewhere, which it nearly always does; on a busy machine later."""
_REACTION_S: Final = 0.1
"""How long a click may take to set something in motion; what comes later is seen by reading again."""
_GRACE_S: Final = 5.0
"""A page whose scripts never pause cannot be read; the browser is given up after this."""
_MAX_PAGES: Final = 4
_MAX_FRAMES: Final = 8
_MAX_HTML: Final = 5_000_000
_PORTS: Final = {"http": 80, "https": 443}
_AGAIN: Final = "Open the page again with browser_open."


class _Memory(NamedTuple):
    """Which things of a frame have which numbers."""

    place: int
    numbers: JSHandle


class ChromiumBrowser:
    """Browser that is started when the first page is opened, and again after it has crashed."""

    def __init__(self, config: BrowserConfig, proxy: Callable[[], EgressProxy]) -> None:
        """Make a browser; `proxy` makes the way out, which listens on a loopback port."""
        self._config = config
        self._new_proxy = proxy
        self._turn = asyncio.Lock()
        self._open: contextlib.AsyncExitStack | None = None
        self._context: BrowserContext | None = None
        self._proxy: EgressProxy | None = None
        self._page: Page | None = None
        self._memories: dict[Frame, _Memory] = {}
        self._heading_for = ""
        """Where the page goes, or has gone last."""
        self._arrived = asyncio.Event()
        self._leaves = asyncio.Event()
        """Set when the page is on its way to another one."""
        """Not set while the page is on its way to somewhere else."""
        self._follows = False
        """Whether a new window is what someone clicked for; a page that opens windows by itself gets none."""
        self._status = 0
        self._notes: list[str] = []

    async def open(self, url: str, *, timeout_s: float) -> PageView:
        url = _web_address(url)
        async with self._at_work(timeout_s, starts=True) as limit_s:
            page = self._current()
            self._status, self._heading_for = 0, url
            with self._explain(url):
                answer = await _gone_to(page, url, limit_s)
            self._status = answer.status if answer is not None else self._status
            return await self._settled_view()

    async def read(self, *, timeout_s: float) -> PageView:
        async with self._at_work(timeout_s):
            self._current()
            return await self._view()

    async def click(self, number: int, *, timeout_s: float) -> PageView:
        async with self._at_work(timeout_s, follows=True) as limit_s:
            thing = await self._thing(number)
            with self._explain(f"[{number}]"):
                await thing.click(timeout=limit_s * 1000 / 2)
            return await self._outcome(limit_s)

    async def type(self, number: int, text: str, *, submit: bool, timeout_s: float) -> PageView:
        async with self._at_work(timeout_s, follows=True) as limit_s:
            thing = await self._thing(number)
            with self._explain(f"[{number}]"):
                if await thing.evaluate("e => e.tagName") == "SELECT":
                    await thing.select_option(label=text, timeout=limit_s * 1000 / 2)
                else:
                    await thing.fill(text, timeout=limit_s * 1000 / 2)
                if submit:
                    await thing.press("Enter", timeout=limit_s * 1000 / 2, no_wait_after=True)
            return await self._outcome(limit_s, _SUBMITTED_S if submit else _REACTION_S)

    async def screenshot(self, *, whole_page: bool, timeout_s: float) -> tuple[str, bytes]:
        async with self._at_work(timeout_s) as limit_s:
            page = self._current()
            with self._explain(page.url):
                return page.url, await page.screenshot(full_page=whole_page, timeout=limit_s * 1000)

    async def aclose(self) -> None:
        """End the browser and forget everything that it knew."""
        async with self._turn:
            await self._end()

    # ── the browser ───────────────────────────────────────────────────────────────────────────────────────────────────

    @contextlib.asynccontextmanager
    async def _at_work(self, timeout_s: float, *, starts: bool = False, follows: bool = False) -> AsyncIterator[float]:
        """Hold the browser for one call; one that hangs is ended, so that the next call gets a new one."""
        limit_s = min(timeout_s, self._config.timeout_s)
        async with self._turn:
            self._follows = follows
            self._leaves.clear()
            try:
                if starts:
                    await self._start()
                async with asyncio.timeout(limit_s + _SETTLE_S + _GRACE_S):
                    yield limit_s
            except TimeoutError:
                await self._end()
                raise WebError(f"The page did not react within {limit_s:g} s, and the browser was closed.") from None
            except (PlaywrightError, OSError) as problem:
                if isinstance(problem, PermissionError):
                    raise
                if self._context is None or self._page is None or self._page.is_closed():
                    await self._end()
                    raise WebError(f"The browser crashed. {_AGAIN}") from None
                raise WebError(f"The browser could not do that: {said_by(problem)}") from None
            finally:
                self._follows = False

    async def _start(self) -> Page:
        """Return the current page, starting a browser if there is none."""
        if self._context is not None and self._page is not None and not self._page.is_closed():
            return self._page
        await self._end()
        async with contextlib.AsyncExitStack() as stack:
            self._proxy = await stack.enter_async_context(self._new_proxy())
            context = await stack.enter_async_context(running_chromium(self._config, self._proxy))
            context.on("page", self._welcome)
            context.on("dialog", self._dismiss)
            context.on("request", self._note_heading)
            context.on("response", self._note_status)
            context.on("requestfailed", self._note_failure)
            context.on("close", self._forget)
            self._page = context.pages[0] if context.pages else await context.new_page()
            self._watch(self._page)
            self._context = context
            self._open = stack.pop_all()
        return self._page

    async def _end(self) -> None:
        stack, self._open = self._open, None
        self._forget()
        if stack is not None:
            await stack.aclose()

    def _forget(self, *_: object) -> None:
        self._context = self._page = self._proxy = None
        self._memories.clear()

    def _give_up(self, page: Page) -> None:
        if page is self._page:
            self._page = None

    async def _welcome(self, page: Page) -> None:
        """Go on in a window that a click has opened; close any other."""
        with contextlib.suppress(PlaywrightError):
            if not self._follows:
                self._note("The page tried to open a window by itself, which was closed.")
                await page.close()
                return
            self._watch(page)
            self._page = page
            self._arrived.set()  # the page before it stays where it is; its own loading is waited for
            self._note("A new window was opened; this is it now.")
            for old in page.context.pages[:-_MAX_PAGES]:
                await old.close()

    async def _dismiss(self, dialog: Dialog) -> None:
        with contextlib.suppress(PlaywrightError):
            if dialog.type == "beforeunload":
                await dialog.accept()
            else:
                self._note(f"The page showed a dialog, which was dismissed: {dialog.message[:200]!r}")
                await dialog.dismiss()

    def _note(self, text: str) -> None:
        if len(self._notes) < 10:
            self._notes.append(text)

    def _watch(self, page: Page) -> None:
        page.on("crash", self._give_up)
        page.on("framenavigated", lambda frame: None if frame.parent_frame else self._arrived.set())

    def _note_heading(self, request: Request) -> None:
        if self._moves_page(request):
            self._heading_for = request.url
            self._arrived.clear()
            self._leaves.set()

    def _note_failure(self, request: Request) -> None:
        if self._moves_page(request):
            self._arrived.set()

    def _note_status(self, response: Response) -> None:
        if self._moves_page(response.request):
            self._status = response.status

    def _moves_page(self, request: Request) -> bool:
        """Tell whether a request is for the page as a whole, or for a window that a click has opened."""
        if not request.is_navigation_request():
            return False
        try:
            return request.frame.parent_frame is None and (self._follows or request.frame.page is self._page)
        except PlaywrightError:  # a window that is only about to open
            return self._follows

    # ── the page ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _current(self) -> Page:
        if self._page is None or self._page.is_closed():
            raise WebError("No page is open. Open one with browser_open.")
        return self._page

    async def _thing(self, number: int) -> ElementHandle:
        page, found = self._current(), None
        for frame, memory in self._memories.items():
            if memory.place == number // FRAME_STEP and frame.page is page:
                with contextlib.suppress(PlaywrightError):  # the page has gone on, and its memory with it
                    found = (await memory.numbers.evaluate_handle(THING, number)).as_element()
        if found is None:
            raise WebError(f"There is nothing with the number {number} on the page. Look at it with browser_read.")
        return found

    async def _outcome(self, limit_s: float, react_s: float = _REACTION_S) -> PageView:
        """Look at what came of a click: the page may change, go elsewhere, or open another window."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(react_s):
                await self._leaves.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s / 2):
                await self._arrived.wait()
        return await self._settled_view()

    async def _settled_view(self) -> PageView:
        """Wait until a page is more or less there, and look at it."""
        for state, most_s in (("load", _SETTLE_S), ("networkidle", _QUIET_S)):
            with contextlib.suppress(PlaywrightTimeout):
                await self._current().wait_for_load_state(state, timeout=most_s * 1000)  # type: ignore[arg-type]
        return await self._view()

    async def _view(self) -> PageView:
        page = self._current()
        self._refuse_forbidden(page)
        first, *others = [part async for part in self._frames(page)] or [FrameText("", "", {}, cut=False)]
        text = "\n".join(
            [first.text, *(f"--- a frame in the page ---\n{other.text}" for other in others if other.text)]
        )
        if first.cut or len(text) > MAX_CHARS:
            self._note("The page is longer than can be read; this is its beginning.")
        notes, self._notes = tuple(self._notes), []
        links = {number: to for part in (first, *others) for number, to in part.links.items()}
        html = ""
        with contextlib.suppress(PlaywrightError):
            html = (await page.content())[:_MAX_HTML]
        return PageView(
            url=page.url,
            title=first.title,
            status=self._status,
            text=text[:MAX_CHARS],
            links=links,
            notes=notes,
            html=html,
        )

    async def _frames(self, page: Page) -> AsyncIterator[FrameText]:
        frames = [page.main_frame, *(frame for frame in page.frames if frame is not page.main_frame)][:_MAX_FRAMES]
        self._memories = {frame: memory for frame, memory in self._memories.items() if frame in frames}
        for frame in frames:
            try:
                yield await self._frame(frame)
            except PlaywrightError:
                if frame is page.main_frame and (page.is_closed() or self._context is None):
                    raise
                continue  # it went away while it was read

    async def _frame(self, frame: Frame) -> FrameText:
        """Read a frame; on a new document its memory starts anew."""
        memory = self._memories.get(frame)
        if memory is not None:
            try:
                return frame_text(await frame.evaluate(READ, [memory.numbers, MAX_CHARS]))
            except PlaywrightError:
                self._memories.pop(frame, None)  # the page went on, or the browser has died
        taken = {each.place for each in self._memories.values()}
        place = 0 if frame.parent_frame is None else min(set(range(1, _MAX_FRAMES + 1)) - taken)
        memory = _Memory(place, await frame.evaluate_handle(NEW_NUMBERS, place * FRAME_STEP + (0 if place else 1)))
        self._memories[frame] = memory
        return frame_text(await frame.evaluate(READ, [memory.numbers, MAX_CHARS]))

    def _refuse_forbidden(self, page: Page) -> None:
        """Refuse to show a page that did not come from the web, or the proxy's own answer instead of a page.

        Raises:
            PermissionError: it is one of them.
        """
        scheme = urlsplit(page.url).scheme
        if scheme not in ("http", "https", "about", "chrome-error"):
            address, self._page = page.url[:100], None
            raise PermissionError(f"The page led to {address!r}, which is not on the web. {_AGAIN}")
        failed = scheme == "chrome-error"
        if (failed or self._status == 403) and (reason := self._why_refused(self._heading_for)):
            raise PermissionError(reason)
        if failed:
            raise WebError(f"{self._heading_for[:200]} could not be loaded. {_AGAIN}")

    def _why_refused(self, url: str) -> str:
        parts = urlsplit(url)
        if self._proxy is None or parts.scheme not in _PORTS:
            return ""
        try:
            endpoint = endpoint_from(parts.netloc.rpartition("@")[2], default_port=_PORTS[parts.scheme])
        except Malformed as problem:
            return f"{url[:200]} is not reached: {problem}."
        return self._proxy.record.refusal_of(endpoint)

    @contextlib.contextmanager
    def _explain(self, what: str) -> Iterator[None]:
        """Say what went wrong in words for the model."""
        try:
            yield
        except PlaywrightTimeout as problem:
            why = "It is covered, moving or not to be seen. " if what.startswith("[") else ""
            raise WebError(
                f"{what} did not react in time: {said_by(problem)}. {why}Look at the page with browser_read."
            ) from None
        except PlaywrightError as problem:
            if self._context is None or self._page is None:
                raise
            if reason := self._why_refused(self._heading_for):
                raise PermissionError(reason) from None
            said = said_by(problem)
            if "Download is starting" in said or "net::ERR_ABORTED" in said:
                raise WebError(
                    f"{what} is a file to download, which the browser does not do. Use fetch_url, or another page."
                ) from None
            raise WebError(f"{what} could not be opened or used: {said}.") from None


async def _gone_to(page: Page, url: str, limit_s: float) -> Response | None:
    """Go to an address, even if the page was about to go somewhere else."""
    for pause_s in (0.1, 0.3, 1.0):
        try:
            return await page.goto(url, wait_until="domcontentloaded", timeout=limit_s * 1000)
        except PlaywrightError as problem:
            if "interrupted by another navigation" not in problem.message:
                raise
        await asyncio.sleep(pause_s)  # at once, the next try would be interrupted by the one before
    return await page.goto(url, wait_until="domcontentloaded", timeout=limit_s * 1000)


def _web_address(url: str) -> str:
    """Check an address before a browser sees it; what the browser makes of it is checked again by the proxy."""
    url = url.strip()
    if flaw := problem_with(url):
        raise WebError(f"This is not a web address: {flaw}.")
    try:
        parts = urlsplit(url)
        if parts.scheme.lower() not in _PORTS:
            raise WebError(f"{url[:100]!r} is not a web address. Give the whole of it, with http:// or https://.")
        host = parts.netloc.encode("idna").decode() if not parts.netloc.isascii() else parts.netloc
        endpoint_from(host, default_port=_PORTS[parts.scheme.lower()])
    except ValueError as problem:
        raise WebError(f"{url[:100]!r} is not a web address: {problem}.") from None
    return url
