"""`fabric serve`: listens, serves until it is told to stop, and stops in time whatever hangs."""

import asyncio
import errno
import gc
import os
import resource
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI

from agent_fabric.bootstrap.server import ServerFabric, build_server
from agent_fabric.config.loader import Loaded
from agent_fabric.config.schema.server import ServerConfig
from agent_fabric.domain.cluster.roles import Role
from agent_fabric.domain.errors import ConfigError, StoreUnavailable
from agent_fabric.interfaces.http.access_log import AccessLog
from agent_fabric.interfaces.http.app import create_app
from agent_fabric.interfaces.http.connection import SEND_BUFFER_BYTES, SOCKETS, uvicorn_config
from agent_fabric.interfaces.http.names import is_loopback, names_of, seen_from_here, url_of
from agent_fabric.interfaces.http.runs.live import LiveRuns

SPARE_THREADS = 16
"""Threads beside one for each run, so that tools that block do not keep the store from being read."""
GARBAGE = 10_000
"""New objects after which Python looks for garbage that refers to itself; some runs make as many."""
MAX_FILES = 65_536
SIGNALS = (signal.SIGINT, signal.SIGTERM)
STOPPED = 0
KILLED = 130


def serve(root: Path, loaded: Loaded, *, on_listening: Callable[[str], None], drives: bool = True) -> None:
    """Serve until SIGTERM or SIGINT; `on_listening` gets the address as soon as there is one to connect to.

    Unless it `drives`, runs are left to the workers that share the store.

    Raises:
        ConfigError: the address cannot be listened on, others could reach it and no user or API key exists, or a
            secret can be guessed.
        StoreUnavailable: the store cannot be opened.
    """
    settings = loaded.config.server
    _allow_many_connections()
    tls = _tls(settings)
    with open_listener(loaded.config.server.host, loaded.config.server.port) as listener:
        host, port = listener.getsockname()[:2]
        live = LiveRuns()
        role = Role.SERVER if drives else Role.DOOR
        fabric = build_server(root, loaded, readers=(live,), log_to_stderr=True, role=role)
        try:
            if not is_loopback(settings.host):
                asyncio.run(_require_accounts(fabric))
            asyncio.run(fabric.webhooks.require_strong_secrets())
            hosts = names_of(settings.host, port, settings.hosts)
        except ConfigError:
            asyncio.run(fabric.aclose())
            raise
        own_url = url_of(seen_from_here(host), port, tls=tls is not None)
        server = _Server(fabric, live, create_app(fabric, live, hosts=hosts, own_url=own_url), tls)

        def on_started() -> None:
            fabric.record_address(own_url)
            on_listening(url_of(host, port, tls=tls is not None))

        server.on_started = on_started
        try:
            server.run(sockets=[listener])
        except SystemExit:
            raise StoreUnavailable("The server could not start", hint="See the messages above.") from None
        finally:
            for number in SIGNALS:
                signal.signal(number, signal.SIG_IGN)  # all is done: nothing is left to be stopped


def _allow_many_connections() -> None:
    """Use as many connections as the system grants: many shells start with few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # some systems promise more than they grant
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _require_accounts(fabric: ServerFabric) -> None:
    """Check that a user or an API key exists before other machines can connect.

    Raises:
        ConfigError: there is none.
    """
    if await fabric.identity.has_people():
        return
    raise ConfigError(
        f"Other machines could reach {fabric.settings.host}, but no user or API key exists yet",
        hint="Create one first: fabric users add NAME --role admin, or fabric keys create NAME. "
        "From one other machine, a tunnel does as well: ssh -L 8787:127.0.0.1:8787 HOST",
    )


def _tls(settings: ServerConfig) -> ssl.SSLContext | None:
    """Return how to serve HTTPS, if that is wanted.

    Raises:
        ConfigError: the certificate or its key cannot be used.
    """
    if settings.tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    for name, file in (("certificate", settings.tls.certificate), ("key", settings.tls.key)):
        if not os.access(file, os.R_OK):
            raise ConfigError(
                f"`server.tls` cannot be used: the {name} {file} cannot be read",
                hint="Give the whole path of the file, and let the user that serves read it.",
            )
    try:
        context.load_cert_chain(settings.tls.certificate, settings.tls.key, password=_no_password)
    except OSError as problem:
        raise ConfigError(
            f"`server.tls` cannot be used: {problem.strerror or problem}",
            hint="Give the files of a PEM certificate and of its private key, without a password, readable by you.",
        ) from None
    return context


def _no_password() -> str:
    """Stand where OpenSSL would ask at the terminal."""
    return ""


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
            hint="--host takes an address of this machine; 0.0.0.0 means all of them."
            if problem.errno == errno.EADDRNOTAVAIL
            else "Is another server running? Choose another port with --port; 0 takes a free one.",
        ) from None
    return listener


class _Server(uvicorn.Server):
    """uvicorn that stops runs before it waits for connections, and is gone in time."""

    on_started: Callable[[], None]

    def __init__(self, fabric: ServerFabric, live: LiveRuns, app: FastAPI, tls: ssl.SSLContext | None) -> None:
        self._fabric = fabric
        self._live = live
        self._told = threading.Event()
        timeout_s = fabric.settings.shutdown_timeout_s
        super().__init__(
            uvicorn_config(
                AccessLog(app, count=fabric.operations.watchers.metrics.count_answer),
                timeout_graceful_shutdown=max(1, int(0.2 * timeout_s)),
                ssl_context_factory=None if tls is None else lambda *_: tls,
                **SOCKETS,
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
