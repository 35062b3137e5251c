"""Asks NATS whether it is there."""

import asyncio
from contextlib import suppress

from nats.aio.client import Client
from nats.errors import Error
from nats.js.errors import APIError

from agent_fabric.config.passwords_in_urls import hide_passwords
from agent_fabric.infrastructure.cluster.nats.connection import CONNECT_TIMEOUT_S


async def find_nats_problem(url: str) -> str:
    """Return why NATS, or its JetStream, cannot be used; empty: both can."""
    client = Client()
    try:
        async with asyncio.timeout(2 * CONNECT_TIMEOUT_S):
            await client.connect(
                url.split(","),
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=CONNECT_TIMEOUT_S,
                error_cb=_ignore,
            )
            await client.jetstream().account_info()
    except (Error, APIError, OSError, TimeoutError) as problem:
        return hide_passwords(str(problem)) or type(problem).__name__
    finally:
        with suppress(Error, OSError):
            await client.close()
    return ""


async def _ignore(_: Exception) -> None:
    """Say nothing: the problem is raised, too."""
