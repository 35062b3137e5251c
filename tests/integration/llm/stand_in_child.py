"""A stand-in for the embedded child: the same life, with a tiny HTTP server where llama.cpp would be.

What it does comes from its arguments, so that a test can have it fail in any way. Its life (state file, leases, idle
time, signals) is the real one.
"""

import argparse
import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from agent_fabric.infrastructure.models.servers.server_files import ServerFiles
from agent_fabric.infrastructure.models.servers.serving import serve_until_idle


class Answers(BaseHTTPRequestHandler):
    """`/health` for everybody; `/slots`, `/busy` and `/free` for who has the key."""

    server: "StandIn"

    def do_GET(self) -> None:
        if self.server.deaf.is_set():
            time.sleep(60)
        if self.path == "/health":
            return self._say(200, {"status": "ok"})
        if self.headers["authorization"] != f"Bearer {self.server.api_key}":
            return self._say(401, {"error": {"message": "Invalid API Key"}})
        if self.path in ("/busy", "/free"):
            self.server.busy = self.path == "/busy"
        if self.path == "/deaf":
            self.server.deaf.set()
        slot = {"n_ctx": self.server.context_window, "is_processing": self.server.busy}
        return self._say(200, [slot] * self.server.slots)

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _say(self, status: int, body: object) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())


class StandIn(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, api_key: str, slots: int, context_window: int) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.api_key, self.slots, self.context_window = api_key, slots, context_window
        self.busy = False
        self.deaf = threading.Event()


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--say", default="")
    arguments.add_argument("--exit", type=int)
    arguments.add_argument("--signal", type=int)
    arguments.add_argument("--count", type=Path)
    arguments.add_argument("--load-s", type=float, default=0.0)
    how = arguments.parse_args()
    settings = json.load(sys.stdin)
    if how.count:
        with how.count.open("a") as count:
            count.write("x")
    print(how.say, flush=True)
    if how.exit is not None:
        sys.exit(how.exit)
    if how.signal is not None:
        os.kill(os.getpid(), how.signal)
        signal.pause()
    time.sleep(how.load_s)
    server = StandIn(settings["api_key"], settings["slots"], settings["context_window"])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    serve_until_idle(ServerFiles(Path(settings["folder"]), settings["key"]), server.server_port, settings)
    os._exit(0)


if __name__ == "__main__":
    main()
