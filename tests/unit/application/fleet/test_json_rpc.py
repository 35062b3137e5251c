"""Calls between a hub and its nodes, where one end sends what no call is."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from agent_fabric.application.fleet.json_rpc import RpcPeer

pytestmark = pytest.mark.proves("WB-8")


@pytest.mark.parametrize("wrong", [{}, {"a": {"b": 1}}, [], [1], True])
async def test_a_call_whose_id_is_no_text_or_number_is_invalid_and_not_made(wrong: Any) -> None:
    sent: list[dict[str, Any]] = []
    handled: list[str] = []

    async def send(text: str) -> None:
        sent.append(json.loads(text))

    async def handle(method: str, _: Mapping[str, Any]) -> Any:
        handled.append(method)

    peer = RpcPeer(send, handle)
    await peer.receive(json.dumps({"jsonrpc": "2.0", "id": wrong, "method": "agent.heartbeat", "params": {}}))
    assert handled == []
    ((answer),) = sent
    assert (answer["id"], answer["error"]["code"]) == (None, -32600)
