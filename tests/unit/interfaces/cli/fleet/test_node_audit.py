"""`fabric nodes audit verify`: which machines, and what counts as agreement."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from agent_fabric.client.fabric_client import FabricClient
from agent_fabric.domain.errors import ConfigError, NodeUnavailable
from agent_fabric.interfaces.cli.fleet.node_audit import agrees, compare_records, compared_text, selector_of

FINE = {"node": "web-1", "entries": 3, "intact": True, "only_node": [], "only_hub": [], "unsigned": []}


def test_the_word_verify_may_come_first() -> None:
    assert [selector_of(words) for words in ((), ("verify",), ("web-1",), ("verify", "role=web"))] == [
        *("all", "all", "web-1", "role=web"),
    ]
    with pytest.raises(ConfigError, match="one word too many"):
        selector_of(("verify", "web-1", "web-2"))


@pytest.mark.proves("FL-26")
async def test_a_machine_that_is_away_is_named_and_the_others_are_compared() -> None:
    async def nodes(_: str) -> Any:
        return [{"id": "1", "name": "away"}, {"id": "2", "name": "web-1"}]

    async def audit(which: str) -> Any:
        if which == "1":
            raise NodeUnavailable("away is not connected")
        return {**FINE, "only_node": ["e-1"]}

    client = cast("FabricClient", SimpleNamespace(nodes=SimpleNamespace(list=nodes, audit=audit)))
    found = await compare_records(client, "all")
    assert list(map(agrees, [*found, FINE])) == [False, False, True]
    assert compared_text(found).splitlines() == [
        "away: not compared: away is not connected",
        "web-1: 3 entries, intact",
        "  only the machine knows: e-1",
    ]
