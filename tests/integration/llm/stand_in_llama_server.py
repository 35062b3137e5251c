"""A stand-in for llama.cpp's `llama-server`, whose binary is not to be had everywhere.

It takes the arguments of the real one that we use, and refuses others, as the real one does. A model file that is a
real GGUF is served by the same llama.cpp, from xllamacpp; any other file says in JSON how to behave. To every task it
looks around and finishes; with `hold` in its file, each answer takes until /finish.
"""

import argparse
import importlib
import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("--model", "--host", "--api-key-file", "--cache-type-k", "--cache-type-v", "--n-gpu-layers"):
        parser.add_argument(name)
    for name in ("--port", "--parallel", "--ctx-size", "--threads", "--batch-size"):
        parser.add_argument(name, type=int)
    parser.add_argument("--flash-attn", choices=("on", "off", "auto"))
    for name in ("--slots", "--jinja", "--no-webui"):
        parser.add_argument(name, action="store_true")
    return parser.parse_args()


class Answers(BaseHTTPRequestHandler):
    server: "StandIn"

    def do_GET(self) -> None:
        server = self.server
        if self.path == "/health":
            return self._say(200, {"status": "ok"})
        if self.headers["authorization"] != f"Bearer {server.api_key}":
            return self._say(401, {"error": {"message": "Invalid API Key"}})
        if self.path == "/props":
            return self._say(200, {"argv": sys.argv[1:], "pid": os.getpid()})
        if self.path == "/generate":  # goes on until /finish
            server.generating += 1
            server.finish.wait(30)
            server.generating -= 1
        if self.path == "/finish":
            server.finish.set()
        if self.path == "/crash":
            os.kill(os.getpid(), signal.SIGSEGV)
            time.sleep(60)  # this thread may be quicker than the signal
        slots = [
            {"n_ctx": server.context // server.parallel, "is_processing": i < server.generating}
            for i in range(server.parallel)
        ]
        return self._say(200, slots)

    def do_POST(self) -> None:
        server = self.server
        if self.headers["authorization"] != f"Bearer {server.api_key}":
            return self._say(401, {"error": {"message": "Invalid API Key"}})
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        server.generating += 1
        if server.hold:
            server.finish.wait(30)
        server.generating -= 1
        looked = any(message["role"] == "tool" for message in asked["messages"])
        done = {"summary": f"done by {server.model}", "artifacts": [], "next_steps": [], "notes": ""}
        name, arguments = ("finish_task", done) if looked else ("list_files", {"path": "."})
        call = {
            "id": f"call_{time.monotonic_ns()}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        message = {"role": "assistant", "content": "", "tool_calls": [call]}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        return self._say(200, {"model": asked["model"], "choices": [choice], "usage": usage})

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _say(self, status: int, body: object) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())


class StandIn(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, options: argparse.Namespace, *, hold: bool) -> None:
        super().__init__((options.host, options.port), Answers)
        self.api_key = Path(options.api_key_file).read_text().strip()
        self.parallel, self.context = options.parallel, options.ctx_size
        self.model, self.hold = Path(options.model).stem, hold
        self.generating = 0
        self.finish = threading.Event()


def serve_real(options: argparse.Namespace) -> None:
    xllamacpp: Any = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = options.model
    params.hostnames, params.port = [options.host], options.port
    params.api_keys = [Path(options.api_key_file).read_text().strip()]
    params.n_parallel, params.n_ctx = options.parallel, options.ctx_size
    params.flash_attn_type = {
        "on": xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED,
        "off": xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED,
        "auto": xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_AUTO,
    }[options.flash_attn]
    params.cache_type_k = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{options.cache_type_k.upper()}")
    params.cache_type_v = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{options.cache_type_v.upper()}")
    params.use_jinja = params.endpoint_slots = True
    server = xllamacpp.Server(params)
    print("listening on", server.listening_address, flush=True)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    os._exit(0)


def main() -> None:
    options = parsed()
    with Path(options.model).open("rb") as model:
        if model.read(4) == b"GGUF":
            return serve_real(options)
    how = json.loads(Path(options.model).read_text())
    if "say" in how:
        print(how["say"], flush=True)
    if "ignore_term" in how:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "exit" in how:
        sys.exit(how["exit"])
    time.sleep(how.get("load_s", 0))
    return StandIn(options, hold=how.get("hold", False)).serve_forever()


if __name__ == "__main__":
    main()
