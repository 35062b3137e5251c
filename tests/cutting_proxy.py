"""A proxy before PostgreSQL that cuts a connection at its next COMMIT, or loses or delays everything that is sent."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum

COMMIT = b"COMMIT\0"
APPEND = b"INSERT INTO events"
"""Events that are the only thing to write are one statement, which is a transaction of its own."""
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
        self.flowing = threading.Event()
        """While it is not set, everything comes late, as from a network that repeats what it lost."""
        self.flowing.set()
        self.on_sent: tuple[bytes, Callable[[], None]] | None = None
        """Words, and what is called once when they have been sent to the server."""
        threading.Thread(target=self._accept, daemon=True).start()

    def lead_to(self, target: int) -> None:
        """Forward new connections to another port."""
        self._target = target

    def sever(self) -> None:
        """End all connections; new ones can be made."""
        clients, self._clients = self._clients, []
        for end in clients:  # whoever still waits for an answer is told that there is none
            _shut(end)

    def close(self) -> None:
        _shut(self._listener)
        self._listener.close()
        self.flowing.set()
        self.sever()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._clients.append(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, _connected(self._target) as server:
            deaf = threading.Event()
            answering = threading.Thread(target=self._forward, args=(server, client, deaf), daemon=True)
            answering.start()
            while data := _received(client):
                if self.lost.is_set():
                    continue
                self.flowing.wait()
                cut = self.cuts.pop(0) if self.cuts and COMMIT in data else None
                if cut is Cut.BEFORE:
                    break
                if cut is Cut.AFTER:
                    deaf.set()
                if not _sent(server, data):
                    break
                if self.on_sent is not None and self.on_sent[0] in data:
                    (_, call), self.on_sent = self.on_sent, None
                    call()
                if cut is Cut.AFTER:
                    answering.join(5.0)  # the answer, of which nothing is passed on
                    break
            for end in (server, client):
                _shut(end)
            answering.join(5.0)

    def _forward(self, server: socket.socket, client: socket.socket, deaf: threading.Event) -> None:
        while data := _received(server):
            if self.lost.is_set():
                continue
            self.flowing.wait()
            if deaf.is_set() or not _sent(client, data):
                return
        _shut(client)  # the server has ended it


def _connected(port: int) -> socket.socket:
    """Return a connection; one that is not possible is like one that ends at once."""
    try:
        return socket.create_connection(("127.0.0.1", port))
    except OSError:
        return socket.socket()


def _sent(end: socket.socket, data: bytes) -> bool:
    try:
        end.sendall(data)
    except OSError:
        return False
    return True


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
