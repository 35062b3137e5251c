"""Ports for servers that tests start, and start again on the same port."""

import random
import socket

# Below what systems give to outgoing connections: such a port stays free between two lives of a server, and nothing
# that connects to it while nobody listens meets itself.
_LOWEST, _HIGHEST = 12_000, 32_000
_chance = random.SystemRandom()


def free_port() -> int:
    """Return a port on which nothing listens."""
    while True:
        port = _chance.randrange(_LOWEST, _HIGHEST)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
