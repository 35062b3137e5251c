"""Every socket has its own largest message; nobody gains the node's by asking for the page's."""

import asyncio
from typing import Any

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from agent_fabric.domain.fleet.protocol import MAX_FRAME_BYTES
from agent_fabric.domain.fleet.protocol import SOCKET_PATH as NODE_SOCKET
from agent_fabric.interfaces.http.connection import SOCKETS, Connection
from agent_fabric.interfaces.http.gate import PAGE_SOCKET
from agent_fabric.interfaces.http.page.messages import MAX_MESSAGE_BYTES


class Wire(asyncio.Transport):
    """A transport that goes nowhere."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.protocol: Any = None

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def get_protocol(self) -> Any:
        return self.protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: Any) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        pass


async def _app(scope: Any, receive: Any, send: Any) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("path", "longest"),
    [
        (PAGE_SOCKET, MAX_MESSAGE_BYTES),
        (f"{PAGE_SOCKET}?next={NODE_SOCKET}", MAX_MESSAGE_BYTES),
        (NODE_SOCKET, MAX_FRAME_BYTES),
        (f"{NODE_SOCKET}?token=fnj_1", MAX_FRAME_BYTES),
    ],
)
async def test_messages_are_as_long_as_the_socket_allows(path: str, longest: int) -> None:
    config, state, wire = Config(_app, log_config=None, **SOCKETS), ServerState(), Wire()
    config.load()
    connection = Connection(config=config, server_state=state, app_state={})
    connection.connection_made(wire)
    head = f"GET {path} HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    connection.data_received(
        f"{head}sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n\r\n".encode()
    )
    assert wire.protocol.conn.max_message_size == longest
    assert config.ws_max_size == MAX_MESSAGE_BYTES
    for task in state.tasks:
        task.cancel()
    await asyncio.gather(*state.tasks, return_exceptions=True)
