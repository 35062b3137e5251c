"""`/api/v1/ws`: the socket that nodes open. Who it is, their first messages show; nothing else is answered before."""

import asyncio
import logging
from typing import Final

from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from agent_fabric.application.fleet.json_rpc import RpcFailed, RpcPeer
from agent_fabric.application.fleet.serve_link import ServeLink
from agent_fabric.bootstrap.fleet import Fleet
from agent_fabric.domain.fleet.protocol import SOCKET_PATH
from agent_fabric.interfaces.http.connection import abort
from agent_fabric.interfaces.http.routing import Routes

PROVE_TIMEOUT_S: Final = 20.0
"""How long a connection may take to show who it is."""

CLOSE_TIMEOUT_S: Final = 1.0
"""How long it may take to tell a node that its connection ends."""

_log = logging.getLogger(__name__)


def add_node_socket(routes: Routes, fleet: Fleet) -> None:
    """Add the socket."""

    async def serve(socket: WebSocket) -> None:
        await socket.accept()
        closing: set[asyncio.Task[None]] = set()

        def close(code: int, reason: str) -> None:
            async def end() -> None:
                await asyncio.sleep(0)  # an answer that explains it goes first
                try:
                    async with asyncio.timeout(CLOSE_TIMEOUT_S):
                        await socket.close(code, reason[:120])
                except (RuntimeError, WebSocketDisconnect):
                    pass  # it has ended already
                except TimeoutError:  # the machine reads nothing any more, and what was sent to it fills the buffers
                    abort(socket.scope)

            task = asyncio.create_task(end())
            closing.add(task)
            task.add_done_callback(closing.discard)

        link = ServeLink(fleet.hub, close, token=socket.query_params.get("token", ""))
        peer = RpcPeer(socket.send_text, link.handle)
        link.attach(peer)
        proving = asyncio.get_running_loop().call_later(
            PROVE_TIMEOUT_S, lambda: None if link.is_proven else close(4401, "it did not show who it is in time")
        )
        reason = "the connection has ended"
        try:
            while True:
                await peer.receive(await socket.receive_text())
        except WebSocketDisconnect as ended:  # not kept: its traceback would hold all of this
            reason = f"the connection has ended: {ended.code} {ended.reason or ''}".strip()
        except (RpcFailed, KeyError) as wrong:
            _log.info("A node's connection is ended: %s", wrong)
            close(1003, str(wrong))
        finally:
            proving.cancel()
            peer.close(ConnectionError(reason))
            await link.end()

    routes.add(WebSocketRoute(SOCKET_PATH, serve))
