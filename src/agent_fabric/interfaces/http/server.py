"""`fabric serve`: listens, serves until it is told to stop, and stops in time whatever hangs."""

import asyncio
import errno
import gc
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from agent_fabric.bootstrap.server import ServerFabric, build_server
from agent_fabric.config.loader import Loaded
from agent_fabric.domain.errors import ConfigError, StoreUnavailable
from agent_fabric.interfaces.http.access_log import AccessLog
from agent_fabric.interfaces.http.app import create_app
from agent_fabric.interfaces.http.errors import refusal
from agent_fabric.interfaces.http.live import LiveRuns

SEND_BUFFER_BYTES = 16 * 1024
"""What we take, and what the kernel takes, for a client that does not read. The kernel alone would take megabytes."""
SPARE_THREADS = 16
"""Threads beside one for each run, so that tools that block do not keep the store from being read."""
GARBAGE = 10_000
"""New objects after which Python looks for garbage that refers to itself; some runs make as many."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
STOPPED = 0
KILLED = 130


def serve(root: Path, loaded: Loaded, *, on_listening: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; `on_listening` gets the address as soon as there is one to connect to.

    Raises:
        ConfigError: the address cannot be listened on.
        StoreUnavailable: the store cannot be opened.
    """
    with open_listener(loaded.config.server.host, loaded.config.server.port) as listener:
        host, port = listener.getsockname()[:2]
        live = LiveRuns()
        fabric = build_server(root, loaded, readers=(live,), log_to_stderr=True)
        server = _Server(fabric, live, port)
        server.on_started = lambda: on_listening(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        try:
            server.run(sockets=[listener])
        except SystemExit:
            raise StoreUnavailable("The server could not start", hint="See the messages above.") from None
        finally:
            for number in SIGNALS:
                signal.signal(number, signal.SIG_IGN)  # all is done: nothing is left to be stopped


def open_listener(host: str, port: int) -> socket.socket:
    """Take an address of this machine; connections are accepted later.

    Raises:
        ConfigError: it cannot be had.
    """
    address = "127.0.0.1" if host == "localhost" else host
    listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)  # connections inherit it
    try:
        listener.bind((address, port))
    except OSError as problem:
        listener.close()
        taken = problem.errno == errno.EADDRINUSE
        raise ConfigError(
            f"Port {port} of {host} is taken" if taken else f"{host}:{port} cannot be used: {problem.strerror}",
            hint="Is another server running? Choose another port with --port; 0 takes a free one.",
        ) from None
    return listener


class Connection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]  # chosen by what is installed
    """uvicorn's own, with a small buffer, our errors, and the host that a target names."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(SEND_BUFFER_BYTES)

    def on_headers_complete(self) -> None:
        # `GET http://HOST/path`: uvicorn forgets this host, and the gate would look at the other one only.
        _, absolute, rest = self.url.partition(b"://")
        if absolute and not self.url.startswith(b"/"):
            host = (b"host", re.split(b"[/?#]", rest, maxsplit=1)[0])
            if host not in self.headers:
                self.headers.append(host)
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        refused = refusal(400, msg, hint="Send HTTP/1.1.")
        headers = [*self.server_state.default_headers, *refused.raw_headers, (b"connection", b"close")]
        lines = [b"HTTP/1.1 400 Bad Request", *(b"%s: %s" % header for header in headers)]
        self.transport.write(b"\r\n".join(lines) + b"\r\n\r\n" + bytes(refused.body))
        self.transport.close()


class _Server(uvicorn.Server):
    """uvicorn that stops runs before it waits for connections, and is gone in time."""

    on_started: Callable[[], None]

    def __init__(self, fabric: ServerFabric, live: LiveRuns, port: int) -> None:
        self._fabric = fabric
        self._live = live
        self._told = threading.Event()
        timeout_s = fabric.settings.shutdown_timeout_s
        super().__init__(
            uvicorn.Config(
                AccessLog(create_app(fabric, live, port=port)),
                http=Connection,
                lifespan="on",
                ws="none",
                log_config=None,
                log_level="critical",  # what matters is logged where it happens
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=max(1, int(0.2 * timeout_s)),
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        threads = ThreadPoolExecutor(self._fabric.settings.max_running + SPARE_THREADS, "fabric")
        asyncio.get_running_loop().set_default_executor(threads)
        threading.Thread(target=self._end_in_time, name="fabric-end", daemon=True).start()
        await super().startup(sockets)
        # What is there by now stays as long as the server; to look for garbage in it, again and again, is wasted.
        gc.collect()
        gc.freeze()
        gc.set_threshold(GARBAGE)
        self.on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        await self._fabric.stop()
        self._live.close()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        for number in SIGNALS:
            signal.signal(number, self.handle_exit)
        yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's
        if self._told.is_set():
            os._exit(KILLED)  # told twice: at once. What is durable is durable, and the kernel frees the locks
        self._told.set()
        self.should_exit = True

    def _end_in_time(self) -> None:
        """End the process, whatever hangs: threads of tools cannot be stopped in any other way."""
        self._told.wait()
        time.sleep(self._fabric.settings.shutdown_timeout_s)
        os._exit(STOPPED)
