"""What the page costs: first load, a long session, many sessions, many tabs, fast tokens.

In headless Chromium, each figure beside its floor in the same run:

    python benchmarks/bench_page.py [first-load session drawer tabs tokens]
"""

import asyncio
import gzip
import json
import os
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from playwright.sync_api import Browser, Page  # noqa: E402 - the path comes first
from websockets.asyncio.client import connect  # noqa: E402
from websockets.typing import Origin  # noqa: E402

from agent_fabric.interfaces.http.page.assets import FIRST_LOAD, load_assets  # noqa: E402
from e2e.page.page_model import Written  # noqa: E402
from e2e.page.page_world import PageWorld, launched, new_context, page_world  # noqa: E402

WORDS = "The quick brown fox jumps over the lazy dog, and **nobody** minds. "
FIRST = """
    addEventListener('focusin', (event) => {
        if (event.target.tagName === 'TEXTAREA') window.focused ??= performance.now();
    }, true);
    new MutationObserver((_, watcher) => {
        if (!document.querySelector('[data-test=send]')) return;
        window.ready = performance.now();
        watcher.disconnect();
    }).observe(document, { childList: true, subtree: true });
"""
"""When the message box takes keys, and when the program works, by the page's own clock: from the navigation on."""
KEYS = """() => {
    window.delays = [];
    document.getElementById('composer').addEventListener('keydown', () => {
        const at = performance.now();
        requestAnimationFrame(() => setTimeout(() => window.delays.push(performance.now() - at)));
    });
}"""
FRAMES = """() => {
    window.longest = 0; window.frames_seen = 0; let last = performance.now();
    const tick = (now) => { window.longest = Math.max(window.longest, now - last); last = now; window.frames_seen += 1;
                            requestAnimationFrame(tick); };
    requestAnimationFrame((now) => { last = now; tick(now); });
}"""

PARSER = """async ([text, piece]) => {
    const program = document.querySelector('script[type=module]').src.replace('main.js', 'view/turn.js');
    const { markdownInto } = (await import(program))['view/markdown.js'];
    const writer = markdownInto(document.createElement('div'));
    const at = performance.now();
    for (let start = 0; start < text.length; start += piece) writer.write(text.slice(start, start + piece));
    return performance.now() - at;
}"""


def tell(what: str, value: str, target: str, floor: str = "") -> None:
    """Print one figure."""
    print(f"{what:<58} {value:>16}   target {target:<22} {'floor ' + floor if floor else ''}", flush=True)


def answers(question: str, _: int, __: list[dict[str, Any]]) -> Written:
    """Write as fast as the question says."""
    if "fast" in question:
        return Written(WORDS * 300, pause_s=0.001, piece=5)  # about a thousand pieces a second
    if "steady" in question:
        return Written(WORDS * 60, pause_s=0.01, piece=5)
    return Written("Yes.")


def first_load(world: PageWorld, browser: Browser) -> None:
    """Requests, bytes, and how long until one can type."""
    assets = load_assets()
    page = world.open(browser)
    state = page.context.storage_state()
    page.context.close()
    times, ready, count = [], [], 0
    for _ in range(5):
        context = new_context(browser, storage_state=state)
        page = context.new_page()
        page.add_init_script(FIRST)
        seen: list[str] = []
        page.on("request", partial(_note, seen))
        page.on("websocket", partial(_note, seen))
        page.goto(world.url + "/")
        page.wait_for_selector("[data-test=send]")
        times.append(page.evaluate("window.focused"))
        ready.append(page.evaluate("window.ready"))  # the program has taken over the box that came with the page
        page.wait_for_timeout(400)
        count = len(seen)
        context.close()
    floor = _floor(browser, b"".join(assets.files[name].content for name in FIRST_LOAD))
    size = sum(len(assets.files[name].compressed) for name in FIRST_LOAD) + len(assets.shell.compressed)
    tell("first load: compressed bytes", f"{size / 1000:.1f} KB", "≤ 120 KB")
    tell("first load: requests, the socket among them", str(count), "≤ 20")
    tell(
        "until the composer takes keys, median of 5",
        f"{sorted(times)[2]:.0f} ms",
        "≤ 500 ms",
        f"{floor:.0f} ms, the same bytes without scripts",
    )
    tell("  until Enter sends at once, median of 5", f"{sorted(ready)[2]:.0f} ms", "≤ 500 ms")


def _note(seen: list[str], asked: Any) -> None:
    seen.append(asked.url)


def _floor(browser: Browser, content: bytes) -> float:
    body = gzip.compress(b"<!doctype html><textarea autofocus></textarea><!--" + content.replace(b"--", b"") + b"-->")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.send_header("content-encoding", "gzip")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    times = []
    for _ in range(5):
        context = new_context(browser)
        page = context.new_page()
        page.add_init_script(FIRST)
        page.goto(f"http://127.0.0.1:{server.server_address[1]}/")
        page.wait_for_function("window.focused")
        times.append(page.evaluate("window.focused"))
        context.close()
    server.shutdown()
    server.server_close()
    return float(sorted(times)[2])


class Api:
    """Requests with the local token."""

    def __init__(self, world: PageWorld) -> None:
        self.url = world.url
        self.token = (world.folder / ".fabric/token").read_text().strip()

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        """Send one."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"{}")


def long_session(world: PageWorld, browser: Browser, messages: int) -> None:
    """A session with very many messages: what is shown, how large it is, how it types."""
    api = Api(world)
    session = api("POST", "/api/v1/sessions", {})["id"]
    empty = api("POST", "/api/v1/sessions", {})["id"]
    for _ in range(messages // 2):
        api("POST", f"/api/v1/sessions/{session}/messages", {"content": "And now?"})
    _settle(api, session)
    times = {}
    for name, which in (("long", session), ("empty", empty)):
        page = world.open(browser)
        started = time.perf_counter()
        page.evaluate("(id) => document.querySelector(`[data-id='${id}'] a`).click()", which)
        if name == "long":
            page.locator(".turn").nth(24).wait_for(state="attached")
        else:
            page.get_by_text("Nothing was said yet").wait_for()
        times[name] = time.perf_counter() - started
        if name == "long":
            nodes = page.evaluate("document.getElementsByTagName('*').length")
            heap = page.evaluate("performance.memory.usedJSHeapSize") / 1e6
            delays = _typing(page)
            tell(f"session of {messages:,} messages: last 50 shown", f"{times['long'] * 1000:.0f} ms", "≤ 500 ms")
            tell("  elements in the document", f"{nodes:,}", "≤ 3,000")
            tell("  heap", f"{heap:.1f} MB", "≤ 80 MB")
            tell("  key to paint while 100 tokens a second come, p95", f"{delays:.0f} ms", "≤ 50 ms")
        page.context.close()
    print(f"{'  an empty session in the same run':<58} {times['empty'] * 1000:>13.0f} ms")


def _settle(api: Api, session: str) -> None:
    while True:
        state = api("GET", f"/api/v1/sessions/{session}")
        if not state["turn"] and not state["queued"]:
            return
        time.sleep(0.5)


def _typing(page: Page) -> float:
    page.fill("[data-test=composer]", "steady please")
    page.keyboard.press("Enter")
    page.locator("[data-test=activity]").first.wait_for()
    page.evaluate(KEYS)
    for letter in "the quick brown fox jumps over it":
        page.keyboard.type(letter)
        page.wait_for_timeout(40)
    delays = sorted(page.evaluate("window.delays"))
    return float(delays[int(len(delays) * 0.95)])


def drawer(world: PageWorld, browser: Browser, sessions: int) -> None:
    """Very many sessions: the drawer, and the search in it."""
    api = Api(world)
    for number in range(sessions):
        api(
            "POST",
            "/api/v1/sessions",
            {"title": f"Session number {number} about {'marzipan' if number % 97 == 0 else 'bread'}"},
        )
    page = world.open(browser)
    page.locator("[data-test=session]").nth(99).wait_for(state="attached")
    started = time.perf_counter()
    page.reload(wait_until="commit")
    page.wait_for_selector("[data-test=composer]")
    typed = time.perf_counter()
    page.locator("[data-test=session]").nth(99).wait_for(state="attached")
    shown = time.perf_counter()
    searches = []
    for words in ("marzi", "bread", "number", "session", "about", "session+number", "bread+about"):
        at = time.perf_counter()
        api("GET", f"/api/v1/sessions/search?q={words}")
        searches.append(time.perf_counter() - at)
    tell(
        f"{sessions:,} sessions: drawer after the composer is there",
        f"{max(0.0, shown - typed) * 1000:.0f} ms",
        "≤ 200 ms",
        f"{(typed - started) * 1000:.0f} ms for the page",
    )
    tell("  search, worst of seven, two of them for two words", f"{max(searches) * 1000:.0f} ms", "≤ 100 ms")
    page.context.close()


def tokens(world: PageWorld, browser: Browser) -> None:
    """A thousand tokens a second: the longest frame."""
    page = world.open(browser)
    page.evaluate(FRAMES)
    page.fill("[data-test=composer]", "fast please")
    with _traced(page) as trace:
        started = time.perf_counter()
        page.evaluate("window.longest = 0")
        page.keyboard.press("Enter")
        page.locator("[data-test=stop]").wait_for()
        page.locator("[data-test=stop]").wait_for(state="detached", timeout=60_000)
        seconds = time.perf_counter() - started
        longest = page.evaluate("window.longest")
    pieces = len(WORDS * 300) / 5
    alone = page.evaluate(PARSER, [WORDS * 300, 5])
    tell(
        f"{pieces / seconds:,.0f} tokens a second: longest frame",
        f"{longest:.0f} ms",
        "≤ 50 ms",
        f"{alone:.0f} ms for the markdown parser alone, all {pieces:,.0f} of them",
    )
    tell("  processor time of the longest task of the page", f"{_longest_task(trace):.0f} ms", "≤ 50 ms")
    page.context.close()


@contextmanager
def _traced(page: Page) -> Iterator[list[dict[str, Any]]]:
    """Collect what the browser's own clock says: processor time is the same on a busy machine."""
    session = page.context.new_cdp_session(page)
    events: list[dict[str, Any]] = []
    over: list[Any] = []
    session.on("Tracing.dataCollected", lambda told: events.extend(told["value"]))
    session.on("Tracing.tracingComplete", lambda told: over.append(told))  # noqa: PLW0108 - the driver marks what it calls
    session.send("Tracing.start", {"transferMode": "ReportEvents", "categories": "toplevel,devtools.timeline"})
    yield events
    session.send("Tracing.end")
    while not over:
        page.wait_for_timeout(50)


def _longest_task(events: list[dict[str, Any]]) -> float:
    main = {
        (each["pid"], each["tid"])
        for each in events
        if each["name"] == "thread_name" and each["args"]["name"] == "CrRendererMain"
    }
    tasks = [each for each in events if each["name"].endswith("::RunTask") and (each["pid"], each["tid"]) in main]
    return float(max(each.get("tdur", 0) for each in tasks)) / 1000


def tabs(world: PageWorld, browser: Browser, count: int) -> None:
    """Many tabs on one stream: all complete, memory and processor of the server."""
    page = world.open(browser)
    token = page.evaluate("localStorage.getItem('fabric.page_token')")
    cookie = "; ".join(f"{each['name']}={each['value']}" for each in page.context.cookies())
    api = Api(world)
    session = api("POST", "/api/v1/sessions", {})["id"]
    pid = world.pid

    async def follow() -> tuple[int, float, float]:
        complete = 0
        address = world.url.replace("http", "ws") + "/api/v1/web/ws"

        async def tab(ready: asyncio.Semaphore) -> None:
            nonlocal complete
            headers = {"Cookie": cookie}
            async with connect(
                address, origin=Origin(world.url), additional_headers=headers, compression=None
            ) as socket:
                await socket.send(json.dumps({"type": "hello", "page_token": token}))
                await socket.send(json.dumps({"type": "follow", "session": session}))
                ready.release()
                text = ""
                async for message in socket:
                    told = json.loads(message)
                    if told["type"] == "partial":
                        text = told["text"]
                    elif told["type"] == "delta":
                        assert told["offset"] == len(text), "something was missed"
                        text += told["text"]
                    elif told["type"] == "event" and told["event"]["kind"] == "llm_response":
                        assert (WORDS * 60).startswith(text)
                    elif told["type"] == "event" and told["event"]["kind"] == "run_complete":
                        complete += 1
                        return

        before = _memory(pid)
        ready = asyncio.Semaphore(0)
        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                group.create_task(tab(ready))
            for _ in range(count):
                await ready.acquire()
            await asyncio.sleep(1)
            memory, processor = _memory(pid), _processor(pid)
            await asyncio.to_thread(api, "POST", f"/api/v1/sessions/{session}/messages", {"content": "steady please"})
        return complete, (memory - before) / count, _processor(pid) - processor

    with ThreadPoolExecutor(1) as thread:  # the browser has an event loop of its own in this one
        complete, memory, processor = thread.submit(asyncio.run, follow()).result()
        floor = thread.submit(asyncio.run, _raw_broadcast(count)).result()
    tell(f"{count} tabs on one stream: complete", f"{complete}", f"{count}")
    tell("  memory for each socket", f"{memory / 1000:.0f} KB", "≤ 100 KB")
    tell(
        "  processor of the server",
        f"{processor:.2f} s",
        "≤ 2 x the floor",
        f"{floor:.2f} s, a raw broadcast of the same pieces",
    )
    page.context.close()


async def _raw_broadcast(count: int) -> float:
    """Return the processor time of a bare broadcast of the same pieces, clients not counted."""
    from websockets.asyncio.server import broadcast, serve

    connections: set[Any] = set()

    async def handler(connection: Any) -> None:
        connections.add(connection)
        await connection.wait_closed()

    pieces = [json.dumps({"type": "delta", "text": (WORDS * 60)[at : at + 5]}) for at in range(0, len(WORDS * 60), 5)]
    async with serve(handler, "127.0.0.1", 0, compression=None) as server:
        port = server.sockets[0].getsockname()[1]
        clients = [await connect(f"ws://127.0.0.1:{port}", compression=None) for _ in range(count)]
        spent = 0.0
        for piece in pieces:
            at = time.process_time()
            broadcast(connections, piece)
            spent += time.process_time() - at
            await asyncio.sleep(0.01)
        for client in clients:
            await client.close()
    return spent


def _memory(pid: int) -> float:
    fields = Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()
    return float(fields[0]) * 1024


def _processor(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def main() -> None:
    """Measure what was asked for, or everything."""
    os.environ["FABRIC_TEST_PROCESSES"] = "fresh"  # a fork of a warm interpreter would have more in its memory
    chosen = {each for each in sys.argv[1:] if not each.startswith("-")}
    messages = int(next((each.partition("=")[2] for each in sys.argv if each.startswith("--messages=")), "2000"))
    with tempfile.TemporaryDirectory() as folder, launched() as browser, page_world(Path(folder), answers) as world:
        measures: dict[str, Callable[[], None]] = {
            "first-load": partial(first_load, world, browser),
            "tokens": partial(tokens, world, browser),
            "tabs": partial(tabs, world, browser, 100),
            "drawer": partial(drawer, world, browser, 1000),
            "session": partial(long_session, world, browser, messages),
        }
        for name, measure in measures.items():
            if not chosen or name in chosen:
                measure()
                print(f"{'':<58} load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
