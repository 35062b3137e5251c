"""A backup that PostgreSQL's own programs make is whole: restored, every hash of it is right, and runs go on."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.ports.cluster import Introduction
from agent_fabric.domain.audit.key import AuditKey
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.audit.audit_head_file import AuditHeadFile
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.models.embeddings.vectors import pack_vector
from contract.run_repository_contract import CREATED, RUN, completed, log
from integration.persistence.postgres_storage import open_tables
from postgres_cluster import Cluster

KEY = AuditKey.of(b"k" * 32)
OTHER = RunId("other")


def opened(url: str, folder: Path) -> Any:
    heads = AuditHeadFile(folder / "head", folder, KEY)
    said = Introduction(name="one", lease_ttl_s=2.0)
    return open_tables(url, folder, SystemClock(), introduction=said, audit_key=KEY, audit_heads=heads)


@pytest.mark.proves("A33-130")
async def test_a_dump_is_restored_and_verified_and_its_runs_go_on(
    cluster: Cluster, database_url: str, tmp_path: Path
) -> None:
    storage = opened(database_url, tmp_path)
    held = await storage.runs.create(RUN, CREATED)
    await (await storage.runs.create(OTHER, log(*(each.body for each in CREATED), completed(OTHER)))).release()
    texts = await storage.vectors.texts(await storage.vectors.missing("e", dimensions=2))
    await storage.vectors.keep("e", texts, [pack_vector([1.0, 0.0]) for _ in texts])
    await storage.vectors.nearest("e", pack_vector([1.0, 0.0]), words="", limit=1)

    dump, restored = tmp_path / "fabric.dump", cluster.create_database()

    def run(program: str, *arguments: str) -> None:
        subprocess.run([cluster.programs / program, *arguments], check=True, capture_output=True, timeout=60)

    run("pg_dump", "--format=custom", f"--file={dump}", database_url)  # while it is written
    await held.append(log(completed(RUN), first=1))
    await held.release()
    storage.close()
    run("pg_restore", f"--dbname={restored}", str(dump))

    again = opened(restored, tmp_path)
    report = await again.chain.verify()
    # The head that was kept since is of entries that the dump does not have: a person says that this is right.
    assert [sentence.partition(":")[0] for sentence in report.damage] == ["the chain was cut behind entry 0"]
    await again.chain.accept()
    assert (await again.chain.verify()).damage == ()
    found = await again.vectors.nearest("e", pack_vector([1.0, 0.0]), words="", limit=1)
    assert [each.record.run_id for each in found] == [OTHER]
    await again.store.write(lambda connection: connection.execute("UPDATE workers SET state = 'gone'"))
    held, events, _ = await again.runs.take(RUN)  # its driver then is none of the processes now
    assert list(events) == CREATED
    await held.append(log(completed(RUN), first=1))
    await held.release()
    again.close()
    last = opened(restored, tmp_path)
    report = await last.chain.verify()
    assert (report.damage, report.untied, report.kept_head) == ((), 0, report.head)
    last.close()
