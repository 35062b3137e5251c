"""Which releases a node takes."""

from pathlib import Path
from typing import Any

import pytest

from agent_fabric.domain.fleet.releases import Release
from agent_fabric.infrastructure.fleet.signing import SigningKey
from agent_fabric.infrastructure.node.spool import Spool
from agent_fabric.infrastructure.node.upgrades import RELEASED, Upgrades, first_run

KEY = SigningKey.of(bytes(range(32)))
NOW = 1_000


@pytest.fixture
def upgrades(tmp_path: Path) -> Upgrades:
    program = tmp_path / "fabric-node.pyz"
    program.write_bytes(b"the program")
    spool = Spool(tmp_path / "spool.db")

    async def drained(_: float) -> bool:
        return False

    def resumed() -> None:
        return None

    since = first_run(spool, program, NOW)
    return Upgrades(tmp_path, spool, "http://127.0.0.1:9", [KEY.public], program, "1.2", since, "i", drained, resumed)


async def said_about(upgrades: Upgrades, version: str, released_at: int, sha256: str = "a" * 64) -> str:
    made = Release(version=version, sha256=sha256, released_at=released_at)
    arguments: dict[str, Any] = {**made.plain(), "signature": KEY.sign(made.message)}
    result = await upgrades.run("e-1", arguments)
    return str(result.get("error", result["status"]))


FETCHES = "could not be fetched"


@pytest.mark.proves("FL-29")
async def test_an_older_build_is_refused_before_it_is_fetched(upgrades: Upgrades) -> None:
    assert "version 1.1, and this node runs 1.2" in await said_about(upgrades, "1.1", NOW + 1)
    assert "another build of 1.2" in await said_about(upgrades, "1.2", NOW - 1)
    assert FETCHES in await said_about(upgrades, "1.2", NOW + 1)
    assert FETCHES in await said_about(upgrades, "1.3", NOW - 1)
    assert await said_about(upgrades, "1.2", NOW - 1, upgrades.sha256) == "success", "it is this one"
    upgrades.spool.keep(RELEASED, NOW - 100)
    assert FETCHES in await said_about(upgrades, "1.2", NOW - 1), "it has run an earlier release than that"
    assert "older than one that this node has run" in await said_about(upgrades, "1.3", NOW - 101)


def test_a_program_keeps_the_moment_of_its_first_run(upgrades: Upgrades) -> None:
    assert first_run(upgrades.spool, upgrades.program, NOW + 50) == NOW
    upgrades.program.write_bytes(b"another program")
    assert first_run(upgrades.spool, upgrades.program, NOW + 60) == NOW + 60
