"""`fabric audit verify` as a person uses it: after a removal, after a restore, and with heads sent elsewhere."""

import json
from pathlib import Path

import apsw
import pytest

from agent_fabric.testing.scripted_model import ScriptedModel
from e2e.fabric_process import Fabric, settings
from integration.http.served import SCRIPT


def remove_newest_run(fabric: Fabric) -> None:
    connection = apsw.Connection(str(fabric.root / "fabric.db"))
    newest = connection.execute("SELECT max(number) FROM runs").get
    for table, column in (("events", "run"), ("runs", "number"), ("audit_chain", "run")):
        connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (newest,))
    for table, column in (("events", "position"), ("runs", "number"), ("audit_chain", "position")):
        connection.execute(
            f"UPDATE sqlite_sequence SET seq = (SELECT coalesce(max({column}), 0) FROM {table}) WHERE name = '{table}'"
        )
    connection.close()


async def test_a_removed_run_is_noticed_until_a_person_accepts_it(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        heads = tmp_path / "heads.jsonl"
        fabric = Fabric(tmp_path / "one", settings(model.base_url, audit={"head_to": [str(heads)]}))
        for _ in range(2):
            assert (await fabric("run", "do it")).code == 0
        sent = [json.loads(line) for line in heads.read_text().splitlines()]
        assert [line["entries"] for line in sent] == [2, 4]

        whole = await fabric("audit", "verify", "--expect", sent[0]["head"])
        assert whole.code == 0, whole
        assert f"--expect {sent[1]['head']}" in whole.out

        remove_newest_run(fabric)
        found = await fabric("audit", "verify", "--json")
        assert (found.code, found.json["holds"], found.json["kept_head"]) == (1, False, sent[1]["head"])
        assert "--accept" in found.json["damage"][0]
        assert (await fabric("run", "do it")).code == 0
        assert (await fabric("audit", "verify")).code == 1, "a new run does not hide what was removed"

        assert (await fabric("audit", "verify", "--accept")).code == 0
        listed = await fabric("audit", "list", "--kind", "admin", "--json")
        (act,) = json.loads(listed.out)
        assert act["act"] == "record_accepted"
        assert sent[1]["head"] in act["detail"]
        assert (await fabric("audit", "verify", "--expect", sent[1]["head"])).code == 1

        (fabric.root / "fabric.db").unlink()
        gone = await fabric("audit", "verify", "--json")
        assert (gone.code, gone.json["holds"]) == (1, False)
        assert "the store is gone" in gone.json["damage"][0]


async def test_a_restored_backup_is_no_removal(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path / "one", settings(model.base_url))
        assert (await fabric("run", "do it")).code == 0
        made = await fabric("db", "backup", str(tmp_path), "--json")
        assert (await fabric("run", "do it")).code == 0
        before = (await fabric("audit", "verify", "--json")).json["head"]
        assert (await fabric("db", "restore", made.json["path"], "--force")).code == 0
        assert (await fabric("audit", "verify")).code == 0
        listed = await fabric("audit", "list", "--kind", "admin", "--json")
        assert any(before in act.get("detail", "") for act in json.loads(listed.out)), "what went is on record"
        remove_newest_run(fabric)
        assert (await fabric("audit", "verify")).code == 1


@pytest.mark.parametrize("place", ["somewhere", "ftp://host/x", ""])
async def test_a_place_that_is_none_is_refused(tmp_path: Path, place: str) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path / "one", settings(model.base_url, audit={"head_to": [place]}))
        assert (await fabric("run", "do it")).code == 2
