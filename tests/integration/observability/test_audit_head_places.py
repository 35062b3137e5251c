"""Heads of the audit chain reach every place that is configured, each of them once."""

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.audit.send_head import SendHead
from agent_fabric.application.ports.audit import HeadPlace
from agent_fabric.domain.audit.acts import Act, Deed
from agent_fabric.infrastructure.audit.audit_head_places import HeadLines, HeadWebhook, Syslog
from agent_fabric.testing.fakes import FrozenClock
from memory_storage import MemoryStorage

ACT = Act(at=1.0, by="ada", credential="local", deed=Deed.BACKUP_MADE)


@dataclass
class Post:
    """AlertPost that keeps what it gets."""

    sent: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    problem: Exception | None = None

    async def post(self, address: str, message: Mapping[str, Any]) -> None:
        if self.problem is not None:
            raise self.problem
        self.sent.append((address, message))


async def test_each_new_head_is_sent_once_to_every_place(tmp_path: Path) -> None:
    lines, post = tmp_path / "heads.jsonl", Post()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
        log.bind(str(tmp_path / "log"))
        log.settimeout(5)
        places: list[HeadPlace] = [
            HeadLines(lines),
            Syslog((tmp_path / "none", tmp_path / "log")),
            HeadWebhook("https://x.example", post),
        ]
        storage = MemoryStorage()
        send = SendHead(storage.chain, places, FrozenClock(), "/a/.fabric")
        assert await send() == []
        assert not lines.exists(), "an empty chain has no head"
        await storage.acts.record(ACT)
        for _ in range(3):
            assert await send() == []
        head = (await storage.chain.verify()).head
        (line,) = map(json.loads, lines.read_text().splitlines())
        assert (line["head"], line["entries"], line["folder"]) == (head, 1, "/a/.fabric")
        said = log.recv(10_000).decode()
        assert said.startswith("<85>agent-fabric: ")
        assert head in said
        assert [(address, message["head"]) for address, message in post.sent] == [("https://x.example", head)]
        assert lines.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("problem", [ConnectionError("away"), ValueError("refused")])
async def test_a_place_that_fails_is_named_and_tried_again_and_the_others_get_theirs(
    tmp_path: Path, problem: Exception
) -> None:
    post, storage = Post(problem=problem), MemoryStorage()
    places: list[HeadPlace] = [
        HeadWebhook("https://x.example", post),
        Syslog((tmp_path / "none",)),
        HeadLines(tmp_path / "heads.jsonl"),
    ]
    send = SendHead(storage.chain, places, FrozenClock(), "/a/.fabric")
    await storage.acts.record(ACT)
    assert [sentence.split(" to ")[1].split(":")[0] for sentence in await send()] == ["https", "syslog"]
    assert (tmp_path / "heads.jsonl").exists()
    post.problem = None
    assert len(await send()) == 1
    assert len(post.sent) == 1


async def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "heads.jsonl").symlink_to(tmp_path / "precious")
    storage = MemoryStorage()
    await storage.acts.record(ACT)
    (said,) = await SendHead(storage.chain, [HeadLines(tmp_path / "heads.jsonl")], FrozenClock(), "x")()
    assert "was not sent" in said
    assert (tmp_path / "precious").read_text() == "precious"
