"""A server with a page, a model that writes, and a browser that opens it as a person does."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page

from e2e.forked_command import fabric_program, passed_on
from e2e.page.page_model import Answers, PageModel, Written, page_model
from effort import SOAK
from services import need_program

WIDE = {"width": 1280, "height": 820}
NARROW = {"width": 360, "height": 740}
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--enable-precise-memory-info"),
)
PATIENCE_S = 120.0
PASSWORD = "a long and plain password"
POEM = """Here is what I found.

## Files

| file | for |
|---|---|
| `hello.py` | prints primes |
| `notes.md` | notes |

1. It **works**.
2. See [the guide](https://docs.example.org/guide).

```python
print("hello")
```
"""
REPORT = "Done! The **report** counts 4711 apples. It was sent to 815 people."


def usual_answers(question: str, results: int, _: list[dict[str, Any]]) -> Written:
    """Answer what tests and screenshots ask."""
    if "deploy" in question:
        if not results:
            return Written("I deploy it now.", calls=(("shell", {"command": "make deploy"}),))
        return Written("The deployment was handled as you said.")
    if "files" in question:
        return Written(calls=(("list_files", {"path": "."}),)) if not results else Written(POEM)
    if "report" in question:
        steps = (
            ("write_file", {"path": "report.txt", "content": "4711 apples\n"}),
            ("read_file", {"path": "report.txt"}),
        )
        return Written(calls=(steps[results],)) if results < len(steps) else Written(REPORT)
    if "count" in question:
        last = 10_000 if "a lot" in question else 400
        return Written(" ".join(str(number) for number in range(1, last)), pause_s=0.02)
    return Written(f"You said: {question[-200:]}")


@dataclass
class PageWorld:
    """A running server and its model."""

    folder: Path
    url: str
    process: "subprocess.Popen[bytes]"
    model: PageModel
    environment: Mapping[str, str]
    pid: int = 0
    """Of the server; `process` may only stand for it."""

    def fabric(self, *arguments: str, said: str = "") -> str:
        """Run a command in the folder of the server; return what it prints."""
        done = subprocess.run(
            [*fabric_program(), *arguments],
            cwd=self.folder,
            env=dict(self.environment),
            input=said.encode(),
            capture_output=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().strip()

    def address(self) -> str:
        """Return where the page opens once, logged in."""
        return self.fabric("web", "--print")

    def open(self, browser: Browser, *, narrow: bool = False, dark: bool = False, **more: Any) -> Page:
        """Open the page in a browser of its own, logged in."""
        context = new_context(browser, narrow=narrow, dark=dark, **more)
        page = context.new_page()
        page.goto(self.address())
        page.wait_for_selector("[data-test=composer]")
        return page

    def open_as(self, browser: Browser, name: str, role: str) -> Page:
        """Open the page as a new user of a role, who logs in with a password."""
        self.fabric("users", "add", name, "--role", role, "--password-stdin", said=PASSWORD)
        page = new_context(browser).new_page()
        page.goto(self.url)
        page.get_by_label("Name").fill(name)
        page.get_by_label("Password").fill(PASSWORD)
        page.keyboard.press("Enter")
        page.wait_for_selector("[data-test=composer]")
        return page


def new_context(browser: Browser, *, narrow: bool = False, dark: bool = False, **more: Any) -> BrowserContext:
    """Return a browser without a past."""
    context = browser.new_context(
        viewport=NARROW if narrow else WIDE,  # type: ignore[arg-type]
        color_scheme="dark" if dark else "light",
        has_touch=narrow,
        reduced_motion="reduce",
        **more,
    )
    context.set_default_timeout(60_000)
    return context


@contextmanager
def page_world(
    folder: Path,
    answers: Answers = usual_answers,
    *,
    configured: Mapping[str, Any] | None = None,
    slots: int | None = None,
    model_settings: Mapping[str, Any] | None = None,
    port: int = 0,
) -> Iterator[PageWorld]:
    """Serve the page; the model answers as many at a time as it has slots."""
    folder.mkdir(parents=True, exist_ok=True)
    with page_model(answers) as model:
        quality = {
            "base_url": model.base_url,
            "model": "paper",
            "backend": "generic",
            **({"slots": slots} if slots else {}),
            **(model_settings or {}),
        }
        settings = {
            "models": {"quality": quality, "fast": quality},
            "default_model_key": "quality",
            "chat": {"pack": "engineering"},
            **(configured or {}),
        }
        (folder / "config.json").write_text(json.dumps(settings))
        environment = {
            **{name: value for name, value in passed_on().items() if not name.startswith("FABRIC_")},
            "FABRIC_CONFIG_PATH": str(folder / "config.json"),
            "XDG_DATA_HOME": str(folder / "data"),
            "XDG_CONFIG_HOME": str(folder / "settings"),
            "XDG_CACHE_HOME": str(folder / "cache"),
        }
        world = PageWorld(folder, "", None, model, environment)  # type: ignore[arg-type]
        start(world, port=port)
        try:
            yield world
        finally:
            stop(world)


def start(world: PageWorld, *, port: int = 0) -> None:
    """Start the server."""
    with (world.folder / "server.log").open("ab") as log:
        world.process = subprocess.Popen(
            [*fabric_program(), "serve", "--json", "--port", str(port)],
            cwd=world.folder,
            env=dict(world.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    assert world.process.stdout is not None
    told = json.loads(world.process.stdout.readline() or b"{}")
    assert "url" in told, f"{told} {(world.folder / 'server.log').read_text()[-3000:]}"
    world.url, world.pid = told["url"], told["pid"]


def stop(world: PageWorld, number: int = signal.SIGTERM) -> None:
    """Stop the server."""
    assert world.process.stdout is not None
    world.process.stdout.close()
    with suppress(ProcessLookupError):
        os.kill(world.pid, number)
    try:
        world.process.wait(15)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.kill(world.pid, signal.SIGKILL)
        world.process.wait(60)


@contextmanager
def launched() -> Iterator[Browser]:
    """Start Debian's chromium, without a window.

    Its build without windows, where there is one: the same engine, and a page takes a quarter of the CPU time. The
    whole browser opens a window for each, and draws that. `make soak` takes the whole one.
    """
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - as late as possible: it starts a process

    windowless = None if SOAK else shutil.which("chromium-headless-shell")
    program = windowless or need_program("chromium", "chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS), headless=True)
        try:
            yield browser
        finally:
            browser.close()
