"""`make cluster`: a whole cluster on this machine, and a drill through it."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_fabric.infrastructure.identity.local_token import read_local_token
from own_services import need_nats
from postgres_cluster import need_postgres

ROOT = Path(__file__).parents[3]
PATIENCE_S = 240.0


def environment(file: Path) -> dict[str, str]:
    """Return what a person has after `. FILE`."""
    lines = [line.removeprefix("export ") for line in file.read_text().splitlines() if line.startswith("export ")]
    return {name: value.strip("'") for name, _, value in (line.partition("=") for line in lines)}


@pytest.mark.slow
@pytest.mark.proves("SC-1", "SC-6")
async def test_a_cluster_starts_survives_a_drill_and_leaves_nothing_behind() -> None:
    need_postgres()
    need_nats()
    script = str(ROOT / "scripts" / "cluster.py")
    pipe = asyncio.subprocess.PIPE
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, script, "--json", "--seconds", "230"), stdout=pipe, start_new_session=True
    )
    try:
        assert running.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            where: dict[str, Any] = json.loads(await running.stdout.readline())
            folder = Path(where["folder"])
            token = read_local_token(folder / ".fabric")
            async with httpx2.AsyncClient(base_url=where["proxy"], timeout=30) as client:
                client.headers["authorization"] = f"Bearer {token}"
                task = {"prompt": "write a greeting", "pack": "engineering"}
                answers = await asyncio.gather(*(client.post("/run", json=task) for _ in range(3)))
                assert [each.json()["_meta"]["status"] for each in answers] == ["completed"] * 3, answers[0].text
            drill = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "agent_fabric", "cluster", "drill", "--json"),
                stdout=pipe,
                env={**os.environ, **environment(Path(where["env"]))},
                cwd=folder,
            )
            told, _ = await drill.communicate()
            report = json.loads(told)
            assert (drill.returncode, report["passed"], report["repeated"]) == (0, True, 0), report
            assert report["worker_id"] not in where["workers"]
            running.send_signal(signal.SIGINT)
            assert await running.wait() == 0
    finally:
        if running.returncode is None:
            running.terminate()
            await running.wait()
    assert not folder.exists()
    for pid in where["pids"]:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_make_starts_it() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert "$(PY) scripts/cluster.py $(if $(SECONDS),--seconds $(SECONDS))" in makefile
