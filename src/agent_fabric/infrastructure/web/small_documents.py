"""Fetches small documents from addresses that the configuration names, such as the keys of an identity provider."""

import asyncio
import ssl

import aiohttp

from agent_fabric.infrastructure.web.sessions import read_up_to

CONNECT_TIMEOUT_S = 5.0


async def fetch_small(url: str, *, timeout_s: float, max_bytes: int) -> bytes:
    """Return what lies at an address. No one is sent on to another one, and no proxy is asked.

    Raises:
        OSError: it cannot be had within the time, or is larger than it may be.
    """
    try:
        async with (
            asyncio.timeout(timeout_s),
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=ssl.create_default_context(), force_close=True),
                timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT_S),
                headers={"Accept": "application/json", "User-Agent": "agent-fabric"},
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            ) as session,
            session.get(url, allow_redirects=False) as response,
        ):
            data, cut = await read_up_to(response, max_bytes)
    except TimeoutError:
        raise OSError(f"{url} did not answer within {timeout_s:g} s") from None
    except (aiohttp.ClientError, ValueError) as problem:
        raise OSError(f"{url} cannot be fetched: {problem}") from None
    if response.status != 200:
        raise OSError(f"{url} answered with status {response.status}")
    if cut:
        raise OSError(f"{url} is larger than {max_bytes} bytes")
    return data
