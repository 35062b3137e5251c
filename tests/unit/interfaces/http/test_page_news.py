"""Pages are told what happens, whenever they come."""

import asyncio
import contextlib
from typing import Any
from unittest.mock import Mock

import pytest

from agent_fabric.domain.identity.principals import Kind, Principal
from agent_fabric.interfaces.http.page import news
from agent_fabric.interfaces.http.page.sockets import Sockets

PATIENCE_S = 30.0


@pytest.mark.proves("CO-19")
async def test_a_page_that_comes_between_two_looks_is_told_as_soon_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    told: asyncio.Queue[int] = asyncio.Queue()

    async def tell(*asked: Any) -> None:
        told.put_nowait(len(asked[-1]))

    monkeypatch.setattr(news, "_tell", tell)
    sockets = Sockets()
    telling = asyncio.create_task(news.tell_news(Mock(), Mock(), sockets))
    await asyncio.sleep(0)  # it has looked, seen no page, and pauses: no one hears that one comes
    with sockets.register(Principal("ann", Kind.USER, frozenset())):
        async with asyncio.timeout(PATIENCE_S):
            assert await told.get() == 1
    telling.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await telling
