"""What was said in an encrypted run stands nowhere in the store's files."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent_fabric.application.ports.memory import FactQuery
from agent_fabric.bootstrap.records import open_records
from agent_fabric.domain.ids import FactId
from agent_fabric.domain.memory.facts import FactStatus
from contract.memory_contract import FACT


@pytest.mark.proves("ME-12")
async def test_the_files_of_the_store_do_not_hold_a_sealed_fact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    root = tmp_path / ".fabric"
    with open_records(root) as records:
        facts = records.storage.memory.facts
        await facts.add(replace(FACT, sealed=True, text="The axolotl sleeps at nine"))
        await facts.add(replace(FACT, id=FactId("00000000000b"), text="The otter sleeps at nine"))
        found = {each.text for each in await facts.list(FactQuery())}
        assert found == {"The axolotl sleeps at nine", "The otter sleeps at nine"}
        sealed = await facts.find(FACT.id)
        await facts.change(sealed.accept("user:ada", 20.0), was=FactStatus.PROPOSED)
        assert await facts.find(FACT.id) == sealed.accept("user:ada", 20.0)
    written = b"".join(file.read_bytes() for file in root.rglob("*") if file.is_file())
    assert b"otter" in written
    assert b"axolotl" not in written
