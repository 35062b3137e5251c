"""One command on a machine with nothing configured: logged in, a model on its way, an answer with a tool call."""

import hashlib
import http.server
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from e2e.page.page_world import new_context
from e2e.page.test_page import COMPOSER, TRANSCRIPT, ask, watched

pytestmark = pytest.mark.slow

WEIGHTS = b"GGUF" + bytes(range(256)) * 12_000
PIECES = 40
STAND_IN = Path(__file__).parent / "stand_in"


@contextmanager
def hub(pause_s: float) -> Iterator[str]:
    """Give the address of a hub that sends the weights of every model, a piece at a time."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._head()

        def do_GET(self) -> None:
            self._head()
            size = len(WEIGHTS) // PIECES + 1
            for start in range(0, len(WEIGHTS), size):
                self.wfile.write(WEIGHTS[start : start + size])
                time.sleep(pause_s)

        def _head(self) -> None:
            self.send_response(200)
            self.send_header("content-length", str(len(WEIGHTS)))
            self.send_header("etag", '"1"')
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def fresh_page(folder: Path, **more: str) -> Iterator[str]:
    """Start `fabric web` in an empty folder of a machine without a past; give the address that it prints."""
    home = folder / "fresh"
    home.mkdir()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("FABRIC_", "XDG_", "HF_"))},
        **{f"XDG_{name}_HOME": str(folder / name) for name in ("DATA", "CONFIG", "CACHE", "STATE")},
        "HOME": str(folder),
        **more,
    }
    command = [sys.executable, "-m", "agent_fabric", "web", "--print", "--port", "0"]
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, check=False, timeout=90)
    assert done.returncode == 0, done.stderr
    (pid,) = re.findall(r"kill (\d+)", done.stderr)
    try:
        yield done.stdout.strip()
    finally:
        os.kill(int(pid), signal.SIGTERM)


@pytest.mark.proves("CO-3", "FC-050")
def test_one_command_opens_the_page_fetches_a_model_and_answers_with_a_tool(browser: Browser, tmp_path: Path) -> None:
    told = json.dumps({"sha256": hashlib.sha256(WEIGHTS).hexdigest(), "size": len(WEIGHTS)})
    with (
        hub(pause_s=0.1) as endpoint,
        fresh_page(tmp_path, HF_ENDPOINT=endpoint, PYTHONPATH=str(STAND_IN), STAND_IN_WEIGHTS=told) as address,
    ):
        context = new_context(browser)
        page = context.new_page()
        wrong = watched(page)
        page.goto(address)
        expect(page.locator(COMPOSER)).to_be_visible()
        assert "#login" not in page.url
        ask(page, "Which files are here?")
        expect(page.locator("[data-test=activity]")).to_contain_text(re.compile(r"\d+ %|\d MB"), timeout=30_000)
        expect(page.locator("[data-test=tool]").first).to_contain_text("list_files", timeout=60_000)
        expect(page.locator(TRANSCRIPT)).to_contain_text("no files here yet", timeout=30_000)
        assert wrong == []
        context.close()


@pytest.mark.soak
def test_the_real_embedded_model_answers_on_the_page(browser: Browser, tmp_path: Path) -> None:
    """With the weights of this user, if they are there, else downloaded."""
    models = os.environ.get("FABRIC_MODELS_DIR") or str(Path.home() / ".local/share/agent-fabric/models")
    with fresh_page(tmp_path, FABRIC_MODELS_DIR=models) as address:
        context = new_context(browser)
        page = context.new_page()
        page.goto(address)
        ask(page, "List the files in this folder with a tool, then say how many there are.")
        expect(page.locator("[data-test=tool]").first).to_be_visible(timeout=900_000)
        expect(page.locator("[data-test=stop]")).to_have_count(0, timeout=900_000)
        context.close()
