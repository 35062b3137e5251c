"""Stores that earlier versions have left open as before: in a folder, and in PostgreSQL.

Each folder of `tests/data/recorded` was written by the version of its day (`scripts/record_store.py`), which also said
what its runs are. No version may read them differently.
"""

import asyncio
import lzma
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from e2e.fabric_process import Fabric, local_fabric, settings
from postgres_cluster import Cluster
from recorded_stores import BACKUP, DUMP, RECORDED, describe, expected

pytestmark = pytest.mark.slow
STORES = sorted(path for path in RECORDED.iterdir() if path.is_dir())
CONFIGURED = settings("http://127.0.0.1:9/v1", encryption="off")


def require_same(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    assert found.keys() == wanted.keys()
    for run_id, told in wanted.items():
        assert {key: found[run_id].get(key) for key in told} == told, run_id


def load_dump(cluster: Cluster, url: str, dump: Path) -> None:
    load = [str(cluster.programs / "psql"), "--quiet", "--set", "ON_ERROR_STOP=1", url]
    subprocess.run(load, input=lzma.decompress(dump.read_bytes()), check=True, stdout=subprocess.DEVNULL)


@pytest.mark.proves("AF-134", "RM-14")
@pytest.mark.parametrize("recorded", STORES, ids=lambda path: path.name)
async def test_a_folder_of_an_earlier_version_opens_and_says_the_same(recorded: Path, tmp_path: Path) -> None:
    fabric = Fabric(tmp_path, CONFIGURED).by_us()
    restored = await fabric("db", "restore", str(recorded / BACKUP))
    assert restored.code == 0, restored.err
    async with local_fabric(tmp_path, CONFIGURED) as local:
        require_same(await describe(local), expected(recorded))
    listed = await fabric("logs", "list", "--json")
    assert listed.code == 0, listed.err


@pytest.mark.proves("RM-14")
@pytest.mark.parametrize("recorded", STORES, ids=lambda path: path.name)
async def test_a_database_of_an_earlier_version_opens_and_says_the_same(
    recorded: Path, tmp_path: Path, cluster: Cluster
) -> None:
    url = cluster.create_database()
    await asyncio.to_thread(load_dump, cluster, url, recorded / DUMP)
    configured = {**CONFIGURED, "store": {"url": url, "pool": 2}}
    fabric = Fabric(tmp_path, configured).by_us()
    migrated = await fabric("db", "migrate")
    assert migrated.code == 0, migrated.err
    async with local_fabric(tmp_path, configured) as local:
        require_same(await describe(local), expected(recorded))
