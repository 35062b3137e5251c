"""What models and tools write cannot make the page run anything, ask anybody, or leave."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from e2e.page.page_model import Written
from e2e.page.page_world import page_world
from e2e.page.test_page import TRANSCRIPT, ask, watched
from effort import effort, report

pytestmark = pytest.mark.slow

URL = "http://127.0.0.1:{port}/{nth}"
SHAPES = (
    "![x]({url})",
    '![x]({url} "title")',
    "[![x]({url})]({url})",
    "<img src={url}>",
    "<img src=x onerror=\"fetch('{url}')\">",
    "<script>fetch('{url}')</script>",
    "<script src={url}></script>",
    "<iframe src={url}></iframe>",
    "<svg onload=\"fetch('{url}')\"><image href={url} /></svg>",
    "<link rel=stylesheet href={url}>",
    "<style>@import '{url}'; body{{background:url({url})}}</style>",
    "<meta http-equiv=refresh content='0;url={url}'>",
    "<base href={url}>",
    "<form action={url}><input name=a autofocus onfocus=\"fetch('{url}')\"></form>",
    "<video src={url} autoplay></video><audio src={url} autoplay></audio>",
    "<object data={url}></object><embed src={url}>",
    "[click](javascript:fetch('{url}'))",
    "[click](  JaVaScRiPt:fetch('{url}'))",
    "[click](data:text/html,<script>fetch('{url}')</script>)",
    "[click](vbscript:x) <a href=\"javascript:fetch('{url}')\">x</a>",
    "[a]: {url} 'x'\n\n![b][a] ![a]",
    "```html\n<img src={url} onerror=fetch('{url}')>\n```",
    "`<img src={url}>`",
    "| <img src={url}> | ![x]({url}) |\n|---|---|\n| <script>fetch('{url}')</script> | y |",
    "- [ ] <img src={url}>\n- [x] ![x]({url})",
    "# <img src={url}>\n> ![x]({url})",
    "\u202e![x]({url})\u202c \u0000 \ufffe",
    "<template><img src={url}></template><noscript><img src={url}></noscript>",
    "<math><mtext><img src={url} onerror=fetch('{url}')></mtext></math>",
    "{{{{constructor.constructor('fetch(\"{url}\")')()}}}} ${{fetch('{url}')}}",
    "<a href={url} ping={url}>x</a> <a href={url} download>y</a>",
    "[" * 200 + "![x]({url})" + "](" * 200,
    "*" * 500 + "![x]({url})" + "_" * 500,
    "<link rel=preload as=image href={url}><link rel=dns-prefetch href={url}><link rel=prefetch href={url}>",
    "<body background={url} onload=\"fetch('{url}')\"><table background={url}>",
    "$$\\href{{{url}}}{{x}}$$ $\\includegraphics{{{url}}}$",
    "<input type=image src={url}><picture><source srcset={url}></picture>",
    "![x](//127.0.0.1:{port}/{nth}) ![x](\\\\127.0.0.1:{port}\\{nth})",
    "![x](http:127.0.0.1:{port}/{nth}) <http://127.0.0.1:{port}/{nth}>",
    '<div style="background-image:url({url})">x</div>',
)


ATTACK = """async ([url, token]) => {
    const tried = {};
    for (const [name, init] of Object.entries({
        plain: {credentials: 'include'},
        stolen: {credentials: 'include', headers: {'X-Fabric-Page': token}},
        simple: {credentials: 'include', mode: 'no-cors', method: 'POST', body: '{}'},
    })) {
        try {
            const answer = await fetch(url + '/api/v1/me', init);
            tried[name] = `${answer.type} ${answer.status}`;
        } catch (error) { tried[name] = 'refused'; }
    }
    tried.socket = await new Promise((done) => {
        const socket = new WebSocket(url.replace('http', 'ws') + '/api/v1/web/ws');
        socket.onopen = () => done('open');
        socket.onerror = () => done('refused');
    });
    tried.frame = await new Promise((done) => {
        const frame = document.createElement('iframe');
        frame.onload = () => {
            try { done(frame.contentDocument ? 'readable' : 'closed'); } catch (error) { done('closed'); }
        };
        frame.src = url + '/';
        document.body.append(frame);
    });
    return tried;
}"""


@contextmanager
def counting() -> Iterator[tuple[int, list[str]]]:
    """Listen, and count who asks."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>x</title>")

        do_POST = do_GET  # noqa: N815 - the name that the server looks for

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1], asked
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.proves("C38", "CO-2")
def test_hostile_messages_make_no_request_and_run_no_script(browser: Browser, tmp_path: Path) -> None:
    count = effort(len(SHAPES), 200)
    with counting() as (port, asked):
        texts = [
            SHAPES[nth % len(SHAPES)].format(url=URL.format(port=port, nth=nth), port=port, nth=nth)
            for nth in range(count)
        ]

        def answers(question: str, results: int, _: list[dict[str, Any]]) -> Written:
            if "tool" in question:
                return (
                    Written(calls=(("shell", {"command": f"cat <<'E'\n{texts[4]}\n{texts[5]}\nE"}),))
                    if not results
                    else Written("seen")
                )
            number = int(question.rsplit(" ", 1)[-1])
            return Written("\n\n".join(texts[number : number + 10]) + "\n\nover", pause_s=0.0, piece=37)

        with page_world(tmp_path / "hostile", answers) as world:
            page = world.open(browser)
            wrong = watched(page)
            for number in range(0, count, 10):
                ask(page, f"say {number}")
                expect(page.locator(".answer").last).to_contain_text("over", timeout=20_000)
                expect(page.locator("[data-test=stop]")).to_have_count(0)
            ask(page, "use a tool")
            expect(page.locator(".answer").last).to_contain_text("seen", timeout=20_000)
            page.locator("[data-test=tool]").last.click()
            page.wait_for_timeout(500)
            page.reload()
            expect(page.locator(TRANSCRIPT)).to_contain_text("seen")
            page.wait_for_timeout(500)
            inside = page.locator(TRANSCRIPT)
            assert (
                inside.locator(
                    "img, script, iframe, style, link, object, embed, form, video, audio, svg[onload]"
                ).count()
                == 0
            )
            for link in inside.locator("a").all():
                assert (link.get_attribute("href") or "").startswith(("http://", "https://", "mailto:", "/r/"))
            assert asked == []
            assert [each for each in wrong if "Content Security Policy" in each or "Trusted" in each] == []
            assert page.url.startswith(world.url)
            page.context.close()
    report("hostile messages shown", count)


def test_a_page_of_another_origin_gets_nothing(browser: Browser, tmp_path: Path) -> None:
    with page_world(tmp_path / "other") as world:
        page = world.open(browser)
        token = page.evaluate("localStorage.getItem('fabric.page_token')")
        cookies = page.context.cookies()
        assert all(each["httpOnly"] and each["sameSite"] == "Strict" for each in cookies)
        assert page.evaluate("document.cookie") == "", "no script reads the cookie"
        with counting() as (port, _):
            evil = page.context.new_page()
            evil.goto(f"http://127.0.0.1:{port}/")  # the same host: cookies ignore ports
            said = evil.evaluate(
                ATTACK,
                [world.url, token],
            )
            assert said["plain"] == "refused"
            assert said["stolen"] == "refused"
            assert said["simple"] == "opaque 0"
            assert said["socket"] == "refused"
            assert said["frame"] == "closed"
        page.context.close()


TRICK = "make deploy TO=example.org \u202e# daer ylno\u200b"


def tricky(question: str, results: int, _: list[dict[str, Any]]) -> Written:
    """Ask for something that looks like something else, or show a long and hostile output."""
    if "trick" in question:
        return Written(calls=(("shell", {"command": TRICK}),)) if not results else Written("seen")
    names = "\\n".join(f"<img src=x onerror=alert({n})> \\033[2J [a](javascript:alert({n}))" for n in range(500))
    return Written(calls=(("shell", {"command": f"printf '{names}'"}),)) if not results else Written("**all shown**")


@pytest.mark.proves("CO-18", "CO-19")
def test_an_approval_shows_what_hides_and_a_hostile_output_stays_text(browser: Browser, tmp_path: Path) -> None:
    with page_world(tmp_path / "tricks", tricky) as world:
        page = world.open(browser)
        wrong = watched(page)
        ask(page, "trick me")
        card = page.locator("[data-test=approval][data-status=pending]")
        expect(card).to_contain_text("make deploy TO=example.org \\u{202e}# daer ylno\\u{200b}")
        expect(card).to_contain_text("hidden characters")
        page.keyboard.press("Enter")
        page.keyboard.press("Space")
        expect(card).to_be_visible()
        page.wait_for_timeout(600)
        card.locator("[data-test=deny]").click()
        card.get_by_role("button", name="Deny", exact=True).click()
        expect(page.locator(TRANSCRIPT)).to_contain_text("seen")
        ask(page, "show a long one")
        expect(page.locator(".answer").last).to_contain_text("all shown", timeout=20_000)
        page.locator("[data-test=tool]").last.click()
        expect(page.locator(".tool-body").last).to_contain_text("<img src=x onerror=alert(0)>")
        page.locator(".tool-body").last.get_by_role("button", name="get all of it").click()
        expect(page.locator(".tool-body").last).to_contain_text("more characters: show more")
        assert page.locator(TRANSCRIPT).locator("img, script, a[href^=javascript]").count() == 0
        assert wrong == []
        page.context.close()
