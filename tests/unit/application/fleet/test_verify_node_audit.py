"""The hub holds a node's record against its own: what only one of them knows, and what the node has not signed."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from agent_fabric.application.fleet.call_nodes import CallNodes
from agent_fabric.application.fleet.verify_node_audit import NodeAudit, VerifyNodeAudit
from agent_fabric.domain.fleet.chain import EMPTY_HEAD, KEY, ChainEntry, entry_hash, head_message
from agent_fabric.domain.fleet.commands import CommandStatus, NodeCommand
from agent_fabric.domain.fleet.nodes import Node
from agent_fabric.infrastructure.fleet.signing import SigningKey, is_signed
from memory_storage import MemoryCommands
from unit.application.fleet.stand_ins import WEB

OLD, NEW = (SigningKey.of(hashlib.sha256(name).digest()) for name in (b"old", b"new"))


class Record:
    """A node with a record, and what the hub has kept of it."""

    def __init__(self) -> None:
        self.entries: list[ChainEntry] = []
        self.commands = MemoryCommands()
        self.key = OLD

    def note(self, kind: str, execution_id: str = "", detail: Mapping[str, Any] | None = None) -> None:
        before = self.entries[-1].hash if self.entries else EMPTY_HEAD
        about = (len(self.entries) + 1, 1.0, kind, execution_id, dict(detail or {}))
        self.entries.append(ChainEntry(*about, entry_hash(before, *about)))

    def call(self, execution_id: str, key: SigningKey | None = None) -> None:
        """Carry out a call, as a node does and as the hub keeps it."""
        self.note("started", execution_id)
        position, head = self.entries[-1].position, self.entries[-1].hash
        signed = (key or self.key).sign(head_message(WEB, position, head))
        self.note("finished", execution_id)
        told = {"status": "success", "chain_head": {"position": position, "hash": head, "signature": signed}}
        self.commands.kept[execution_id] = NodeCommand(
            execution_id=execution_id,
            agent_id=WEB,
            tool_name="run_command",
            arguments={},
            status=CommandStatus.SUCCESS,
            created_at=1.0,
            expires_at=2.0,
            policy_version="",
            bound_hash="",
            args_hash="",
            requested_by="ada",
            result=told,
        )

    async def verified(self) -> NodeAudit:
        async def call(_: Node, __: str, params: Mapping[str, Any], **___: Any) -> Any:
            return {"entries": [each.plain() for each in self.entries[params["after"] :]]}

        verify = VerifyNodeAudit(self.commands, cast("CallNodes", call), is_signed)
        return await verify(Node(id=WEB, name="web-1", public_key=self.key.public))


@pytest.mark.proves("FL-26")
async def test_calls_that_only_one_side_knows_are_named() -> None:
    record = Record()
    for execution_id in ("a", "b", "c"):
        record.call(execution_id)
    assert await record.verified() == ("web-1", 6, True, (), (), ())
    del record.commands.kept["b"]
    record.commands.kept["d"] = replace(record.commands.kept["a"], execution_id="d")
    found = await record.verified()
    assert (found.only_node, found.only_hub) == (("b",), ("d",))
    record.entries[0] = record.entries[0]._replace(detail={"other": 1})
    assert not (await record.verified()).intact


@pytest.mark.proves("FL-26")
async def test_a_head_that_the_nodes_key_has_not_signed_is_named() -> None:
    record = Record()
    record.call("a")
    record.call("forged", NEW)
    bare = record.commands.kept["a"]
    record.note("started", "bare")
    record.commands.kept["bare"] = replace(bare, execution_id="bare", result={"status": "success"})
    found = await record.verified()
    assert (found.intact, found.unsigned) == (False, ("bare", "forged"))


@pytest.mark.proves("FL-26", "FL-6")
async def test_heads_of_a_key_that_was_replaced_are_believed_up_to_the_change_and_not_after_it() -> None:
    record = Record()
    record.call("before")
    record.note(KEY, detail={"new_public_key": NEW.public})
    record.call("between")
    record.note(KEY, detail={"public_key": NEW.public})
    record.key = NEW
    record.call("after")
    assert (await record.verified()).intact
    record.call("late", OLD)
    assert (await record.verified()).unsigned == ("late",)
