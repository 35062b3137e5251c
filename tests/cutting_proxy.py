"""A proxy before PostgreSQL that cuts a connection at its next COMMIT, or loses everything that is sent."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

COMMIT = b"COMMIT\0"
CHUNK = 65_536


class Cut(Enum):
    """Where the connection ends."""

    BEFORE = "the server never sees it"
    AFTER = "it happens, and nobody hears the answer"


class CuttingProxy:
    """Forwards bytes to a port of this machine; `cuts` says what happens to the next commits."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.cuts: list[Cut] = []
        self._clients: list[socket.socket] = []
        self.lost = threading.Event()
        """While it is set, nothing gets through in either direction, and nobody is told: as with a pulled plug."""
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        for end in self._clients:  # whoever still waits for an answer is told that there is none
            _shut(end)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._clients.append(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._target)) as server:
            deaf = threading.Event()
            answering = threading.Thread(target=_forward, args=(server, client, deaf, self.lost), daemon=True)
            answering.start()
            while data := _received(client):
                if self.lost.is_set():
                    continue
                cut = self.cuts.pop(0) if self.cuts and COMMIT in data else None
                if cut is Cut.BEFORE:
                    break
                if cut is Cut.AFTER:
                    deaf.set()
                    server.sendall(data)
                    answering.join(5.0)  # the answer, of which nothing is passed on
                    break
                server.sendall(data)
            for end in (server, client):
                _shut(end)
            answering.join(5.0)


def _forward(server: socket.socket, client: socket.socket, deaf: threading.Event, lost: threading.Event) -> None:
    while data := _received(server):
        if lost.is_set():
            continue
        if deaf.is_set():
            return
        try:
            client.sendall(data)
        except OSError:
            return
    _shut(client)  # the server has ended it


def _received(end: socket.socket) -> bytes:
    try:
        return end.recv(CHUNK)
    except OSError:
        return b""


def _shut(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


@contextmanager
def run_proxy(target: int) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(target)
    try:
        yield proxy
    finally:
        proxy.close()
