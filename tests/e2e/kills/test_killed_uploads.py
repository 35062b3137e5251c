"""A server is killed around uploads: whatever it has accepted gets its vectors from the next one."""

import asyncio
import random
from contextlib import closing, suppress
from pathlib import Path

import apsw
import httpx2
import pytest

from e2e.fabric_process import Fabric, settings
from e2e.server_process import Serving, serving
from effort import effort, report
from integration.embeddings.embedding_server import MODEL, embedding_server

UPLOADS = 4
LEFT = "SELECT count(*) FROM documents WHERE state = 'words_ready'"
NOBODYS = f"SELECT ({LEFT}) > 0 AND NOT EXISTS (SELECT 1 FROM runs WHERE status = 'running')"
STRAY = "SELECT count(*) FROM passages WHERE hash NOT IN (SELECT hash FROM passage_vectors)"


def asked(fabric: Fabric, query: str) -> int:
    path = str(fabric.root / "fabric.db")
    with closing(apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        return int(str(connection.execute(query).fetchall()[0][0]))


async def upload(server: Serving, number: int) -> None:
    text = f"# Book {number}\n\n" + "\n\n".join(f"## Part {at}\n\n{'Otters swim. ' * 90}" for at in range(3))
    with suppress(httpx2.HTTPError):  # it is being killed
        await server.client.post("/api/v1/documents", json={"source": f"{number}.md", "text": text})


@pytest.mark.slow
@pytest.mark.proves("ME-1", "ME-2")
async def test_whatever_was_accepted_has_its_vectors_after_the_next_start(tmp_path: Path) -> None:
    chance = random.Random(68)
    left = nobodys = 0
    rounds = effort(2, 60)
    async with embedding_server(delay_s=0.02) as vectors:
        index = {"embedding_model": MODEL, "embedding_base_url": vectors.url, "embedding_backend": "ollama"}
        fabric = Fabric(tmp_path / "home", settings("http://127.0.0.1:9/v1", run_index=index))
        for number in range(rounds):
            async with serving(fabric) as server:
                uploads = [asyncio.create_task(upload(server, UPLOADS * number + at)) for at in range(UPLOADS)]
                if number % 2:  # on a busy machine nothing else would be accepted before the kill
                    await asyncio.wait(uploads, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.sleep(chance.uniform(0.02, 0.4))
                await server.kill()
                await asyncio.gather(*uploads)
            left += asked(fabric, LEFT)
            nobodys += asked(fabric, NOBODYS)
        async with serving(fabric) as server, asyncio.timeout(120):
            while asked(fabric, LEFT):
                await asyncio.sleep(0.1)
            known = (await server.client.get("/api/v1/documents")).json()["documents"]
        assert known
        # What was being read when the server was killed was not accepted: whoever sent it got no answer.
        assert {each["state"] for each in known} <= {"ready", "parsing"}
        assert asked(fabric, STRAY) == 0
    report("kills of a server around uploads", rounds)
    report("documents without all vectors after them", left)
    report("times that no run knew of them", nobodys)
