"""A server inside another program, for as long as that needs one: only this machine reaches it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn

from agent_fabric.bootstrap.server import build_server
from agent_fabric.config.loader import Loaded
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.interfaces.http.app import create_app
from agent_fabric.interfaces.http.connection import uvicorn_config
from agent_fabric.interfaces.http.names import names_of, url_of
from agent_fabric.interfaces.http.runs.live import LiveRuns
from agent_fabric.interfaces.http.server import open_listener

HOST = "127.0.0.1"
PAUSE_S = 0.01


@asynccontextmanager
async def serving_inside(root: Path, loaded: Loaded) -> AsyncIterator[str]:
    """Serve a fabric folder on a free port, and give its address. Runs that are under way at the end continue later.

    Raises:
        StoreUnavailable: the store cannot be opened.
    """
    live = LiveRuns()
    fabric = build_server(root, loaded, readers=(live,))
    with open_listener(HOST, 0) as listener:
        port = listener.getsockname()[1]
        app = create_app(fabric, live, hosts=names_of(HOST, port, ()), own_url=url_of(HOST, port))
        server = uvicorn.Server(uvicorn_config(app, ws="none", timeout_graceful_shutdown=1))
        serving = asyncio.create_task(server._serve([listener]))  # noqa: SLF001 - `serve` takes over the signals
        try:
            while not server.started:
                if serving.done():
                    raise StoreUnavailable("The server could not start", hint="See the messages above.")
                await asyncio.sleep(PAUSE_S)
            yield url_of(HOST, port)
        finally:
            await fabric.stop()
            live.close()
            server.should_exit = True
            await asyncio.gather(serving, return_exceptions=True)
