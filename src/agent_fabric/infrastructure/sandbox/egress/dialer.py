"""Opens connections: resolves a name once, checks its addresses, and connects to one of them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from agent_fabric.infrastructure.sandbox.egress.addresses import AddressGuard
from agent_fabric.infrastructure.sandbox.egress.hosts import Endpoint


class Streams(NamedTuple):
    """The two ends of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


Connect = Callable[[str, int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Connects to an IP address, which is never looked up, and a port."""


async def connect(address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect as the system does."""
    return await asyncio.open_connection(address, port)


async def dial(endpoint: Endpoint, guard: AddressGuard, connect: Connect = connect) -> Streams:
    """Connect to a host at an address that the guard has just checked.

    Raises:
        PermissionError: the host may not be reached.
        OSError: nobody answers, or the host has no address.
    """
    problem: OSError | None = None
    for address in await guard.resolve(*endpoint):
        try:
            return Streams(*await connect(str(address), endpoint.port))
        except OSError as failed:
            problem = failed
    raise problem or OSError("it has no address")
