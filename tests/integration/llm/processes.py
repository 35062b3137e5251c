"""What tests of server processes share: asking them, and waiting until they are gone."""

import asyncio
import json
import os
import time
from collections.abc import Callable
from typing import Any

import aiohttp

from agent_fabric.infrastructure.models.servers.loopback import status_of
from agent_fabric.infrastructure.models.servers.server_files import Endpoint

PATIENCE_S = 60.0


def asked(endpoint: Endpoint, path: str, *, timeout_s: float = PATIENCE_S) -> Any:
    """GET a path of a stand-in, with its key."""
    status, body = status_of(
        int(endpoint.origin.rsplit(":", 1)[1]), path, api_key=endpoint.api_key, timeout_s=timeout_s
    )
    assert status == 200, (status, body)
    return json.loads(body)


async def said(endpoint: Endpoint, text: str) -> str:
    """Return what a real model answers."""
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 8, "temperature": 0}
    headers = {"authorization": f"Bearer {endpoint.api_key}"}
    async with (
        asyncio.timeout(120),
        aiohttp.ClientSession() as session,
        session.post(f"{endpoint.base_url}/chat/completions", json=body, headers=headers) as answer,
    ):
        assert answer.status == 200, await answer.text()
        content = (await answer.json())["choices"][0]["message"]["content"]
        assert isinstance(content, str)
        return content


def lives(pid: int) -> bool:
    """Whether a process runs; one that has ended but that nobody has cleared away lives, too."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def until(condition: Callable[[], object], *, within_s: float = PATIENCE_S) -> None:
    """Wait until something is so, and fail when it does not become so."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.01)


async def gone(pid: int) -> None:
    """Wait until a process has ended and somebody has cleared it away."""
    await until(lambda: not lives(pid))


async def passed(seconds: float) -> None:
    """Let time pass where a test is about what does *not* happen in it."""
    end = time.monotonic() + seconds
    await until(lambda: time.monotonic() > end)
