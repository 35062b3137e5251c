"""People and keys in SQLite: what one process changes, others see at once."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent_fabric.domain.audit.key import UNKEYED
from agent_fabric.domain.errors import NameTaken
from agent_fabric.domain.identity.accounts import UserChange
from agent_fabric.infrastructure.persistence.audit.chain_writer import ChainWriter
from agent_fabric.infrastructure.persistence.identity.accounts import SqlApiKeyRepository, SqlUserRepository
from agent_fabric.infrastructure.persistence.store import Store
from contract.identity_contract import ADA, KEY


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "fabric.db")
    yield store
    store.close()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "fabric.db")
    yield store
    store.close()


async def test_what_one_connection_changes_another_sees_at_once(store: Store, other: Store) -> None:
    here, there = SqlUserRepository(store, ChainWriter(UNKEYED)), SqlUserRepository(other, ChainWriter(UNKEYED))
    await here.add(ADA, act=None)
    assert await there.find("ada") == ADA
    await there.change("ada", UserChange(disabled=True), keep_an_admin=False, act=None)
    found = await here.find("ada")
    assert found is not None
    assert found.disabled


async def test_two_processes_that_want_a_name_at_once_do_not_both_get_it(store: Store, other: Store) -> None:
    here, there = SqlApiKeyRepository(store, ChainWriter(UNKEYED)), SqlApiKeyRepository(other, ChainWriter(UNKEYED))
    outcomes = await asyncio.gather(
        here.add(KEY, act=None), there.add(replace(KEY, id="0b", hash=b"2"), act=None), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes if outcome is not None] == [NameTaken]
    assert len(await here.list()) == 1


async def test_a_use_is_written_down_at_most_once_a_minute_and_nobody_waits_for_it(store: Store) -> None:
    keys = SqlApiKeyRepository(store, ChainWriter(UNKEYED))
    await keys.add(KEY, act=None)

    async def noted() -> float | None:
        await store.writer.write(lambda _: None)  # behind it, everything that was asked for before is done
        found = await keys.find(KEY.id)
        assert found is not None
        return found.last_used_at

    keys.note_use(KEY.id, at=110.0)
    assert await noted() == 110.0
    keys.note_use(KEY.id, at=169.0)
    assert await noted() == 110.0
    keys.note_use(KEY.id, at=171.0)
    assert await noted() == 171.0


async def test_a_use_that_cannot_be_written_down_hurts_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(tmp_path / "fabric.db")
    keys = SqlApiKeyRepository(store, ChainWriter(UNKEYED))
    await keys.add(KEY, act=None)
    store.writer.close()
    keys.note_use(KEY.id, at=110.0)
    await asyncio.sleep(0)
    assert "could not be written down" in caplog.text
    assert await keys.find(KEY.id) == KEY
    store.close()
