"""What people do to the fabric folder is recorded with it, or not at all; whoever changes the record is noticed."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from agent_fabric.application.ports.audit import ChainReport
from agent_fabric.domain.audit.acts import Act, Deed
from agent_fabric.domain.audit.key import AuditKey
from agent_fabric.domain.errors import FabricError, StoreUnavailable
from agent_fabric.domain.identity.accounts import UserChange
from agent_fabric.domain.identity.principals import Kind, Principal, Scope
from agent_fabric.infrastructure.audit.audit_head_file import AuditHeadFile
from agent_fabric.infrastructure.persistence.audit.audit_chain import SqlAuditChain
from agent_fabric.infrastructure.persistence.audit.chain_writer import ChainWriter, SqlActLog
from agent_fabric.infrastructure.persistence.identity.accounts import SqlApiKeyRepository, SqlUserRepository
from agent_fabric.infrastructure.persistence.store import Store
from contract.identity_contract import ADA, BOB
from contract.identity_contract import KEY as CI

KEY = AuditKey.of(b"k" * 32)
ROOT = Principal("root", Kind.USER, frozenset({Scope.ADMIN}))


def act(deed: Deed, about: str = "", *, at: float = 1.0) -> Act:
    return Act.of(ROOT, deed, at=at, about=about)


class Folder:
    """A store with people, keys and the record of what was done."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.chain = ChainWriter(KEY, AuditHeadFile(path.with_name("head"), path.parent, KEY))
        self.store = Store(path, chain=self.chain)
        self.acts = SqlActLog(self.store, self.chain)
        self.users = SqlUserRepository(self.store, self.chain)
        self.keys = SqlApiKeyRepository(self.store, self.chain)

    async def deeds(self) -> list[tuple[str, str]]:
        return [(each.deed, each.about) for each in await self.acts.recent(limit=100)]

    async def verify(self) -> ChainReport:
        return await SqlAuditChain(self.store, self.chain).verify()

    def tamper(self, statement: str) -> None:
        connection = apsw.Connection(str(self.path))
        connection.execute(statement)
        connection.close()


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[Folder]:
    made = Folder(tmp_path / "fabric.db")
    yield made
    made.store.close()


async def test_what_was_done_comes_back_the_newest_first_and_the_chain_holds(folder: Folder) -> None:
    odd = Act(at=2.5, by='who "quotes"', credential="key", deed="of the future", about="a\0b\ud800\n", detail="é")
    await folder.acts.record(act(Deed.SECRET_SET, "TOKEN"))
    await folder.acts.record(odd)
    assert list(await folder.acts.recent(limit=9)) == [odd, act(Deed.SECRET_SET, "TOKEN")]
    assert list(await folder.acts.recent(limit=1)) == [odd]
    report = await folder.verify()
    assert (report.damage, report.entries, report.runs, report.removed) == ((), 2, 0, 0)


async def test_a_change_and_its_record_come_together_or_not_at_all(folder: Folder) -> None:
    await folder.users.add(ADA, act=act(Deed.USER_ADDED, "ada"))
    await folder.keys.add(CI, act=act(Deed.KEY_CREATED, "ci"))
    wrong = act(Deed.USER_REMOVED, "wrong")
    for attempt in (
        folder.users.add(ADA, act=wrong),
        folder.users.change("nobody", UserChange(), keep_an_admin=True, act=wrong),
        folder.users.change("ada", UserChange(disabled=True), keep_an_admin=True, act=wrong),
        folder.users.remove("ada", keep_an_admin=True, act=wrong),
        folder.keys.add(replace(CI, id="0b"), act=wrong),
        folder.keys.revoke("none", at=120.0, act=wrong),
    ):
        with pytest.raises(FabricError):
            await attempt
    await folder.keys.revoke("ci", at=120.0, act=act(Deed.KEY_REVOKED))
    await folder.keys.revoke(CI.id, at=130.0, act=act(Deed.KEY_REVOKED))
    assert await folder.deeds() == [("key_revoked", "ci (0a)"), ("key_created", "ci"), ("user_added", "ada")]
    # Without its record, a change does not happen.
    folder.tamper("CREATE TRIGGER broken BEFORE INSERT ON audit_chain BEGIN SELECT raise(ABORT, 'no'); END")
    with pytest.raises((FabricError, apsw.Error)):
        await folder.users.add(BOB, act=act(Deed.USER_ADDED, "bob"))
    assert await folder.users.find("bob") is None


@pytest.mark.parametrize(
    "tampering",
    [
        "UPDATE audit_chain SET note = replace(note, 'root', 'mallory') WHERE position = 2",
        "UPDATE audit_chain SET at = 7 WHERE position = 2",
        "UPDATE audit_chain SET kind = 'head' WHERE position = 2",
        "DELETE FROM audit_chain WHERE position = 2",
        "DELETE FROM audit_chain WHERE position = 3",
    ],
)
@pytest.mark.proves("FC-062")
async def test_who_changes_or_hides_an_act_is_noticed(folder: Folder, tampering: str) -> None:
    for name in ("a", "b", "c"):
        await folder.acts.record(act(Deed.SECRET_SET, name))
    folder.tamper(tampering)
    assert (await folder.verify()).damage


@pytest.mark.parametrize("note", ["", "no JSON", "[1]", "null", '{"by": {"a": 1}}', "[" * 5_000])
async def test_an_act_that_somebody_has_made_up_can_still_be_listed(folder: Folder, note: str) -> None:
    await folder.acts.record(act(Deed.BACKUP_MADE))
    folder.tamper(f"UPDATE audit_chain SET note = '{note}'")
    (found,) = await folder.acts.recent(limit=9)
    assert found.deed == ""


async def test_a_store_that_cannot_be_written_is_explained(tmp_path: Path) -> None:
    (tmp_path / "fabric.db").write_bytes(b"no database" * 1_000)
    with pytest.raises(StoreUnavailable):
        await SqlActLog(Store(tmp_path / "fabric.db"), ChainWriter(KEY)).record(act(Deed.BACKUP_MADE))
