"""Adding a folder is killed again and again, anywhere: in the end every passage is there once, with its vector."""

import random
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from e2e.fabric_process import Fabric, settings
from effort import effort, report
from integration.embeddings.embedding_server import MODEL, embedding_server

FILES = 8
PER_FILE = 5
MAX_KILLS = effort(3, 6)
"""Of one round; then it is left to come to its end."""
COUNTS = {
    "documents": "SELECT count(*) FROM documents WHERE state = 'ready' AND passages = embedded",
    "passages": "SELECT count(*) FROM passages",
    "places": "SELECT count(*) FROM (SELECT DISTINCT document, ordinal FROM passages)",
    "texts": "SELECT count(DISTINCT hash) FROM passages",
    "words": "SELECT count(*) FROM passage_words WHERE rowid IN (SELECT number FROM passages)",
    "stray words": "SELECT count(*) FROM passage_words WHERE rowid NOT IN (SELECT number FROM passages)",
    "vectors": "SELECT count(*) FROM passage_vectors WHERE hash IN (SELECT hash FROM passages)",
    "stray vectors": "SELECT count(*) FROM passage_vectors WHERE hash NOT IN (SELECT hash FROM passages)",
}


def counted(fabric: Fabric) -> dict[str, int]:
    path = str(fabric.root / "fabric.db")
    with closing(apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        return {name: int(str(connection.execute(query).fetchall()[0][0])) for name, query in COUNTS.items()}


@pytest.mark.slow
@pytest.mark.proves("ME-1")
async def test_kills_anywhere_double_nothing_and_lose_nothing(tmp_path: Path) -> None:
    chance = random.Random(21)
    kills = resumed = 0
    folder = tmp_path / "handbook"
    folder.mkdir()
    for number in range(FILES):
        parts = [
            f"## Part {at}\n\n" + f"File {number} says {at} about otters and rivers. " * 25 for at in range(PER_FILE)
        ]
        (folder / f"{number:02}.md").write_text(f"# Book {number}\n\n" + "\n\n".join(parts))
    async with embedding_server(delay_s=0.1) as server:
        index = {"embedding_model": MODEL, "embedding_base_url": server.url, "embedding_backend": "ollama"}
        fabric = Fabric(tmp_path / "home", settings("http://127.0.0.1:9/v1", run_index=index))
        for _ in range(effort(1, 12)):
            run: str | None = None
            for text in ("first", "second"):
                (folder / "00.md").write_text(f"# Book 0\n\nThe {text} version of it.\n")
                for attempt in range(MAX_KILLS + 1):
                    arguments = ("memory", "add", str(folder)) if run is None else ("resume", run)
                    started = await fabric.start(*arguments, "--json")
                    try:
                        ended = await started.ended(
                            timeout_s=chance.uniform(0.6, 2.5) if attempt < MAX_KILLS else 120.0
                        )
                    except TimeoutError:
                        kills += 1
                        runs = (await fabric("logs", "list", "--json")).json["runs"]
                        unfinished = [each["run_id"] for each in runs if each["status"] == "interrupted"]
                        run = unfinished[0] if unfinished else None
                        resumed += run is not None
                        continue
                    assert ended.code == 0, ended.err
                    break
                else:
                    pytest.fail("it never came to an end")
                run = None
            found = counted(fabric)
            whole = found["passages"]
            assert found == {
                "documents": FILES,
                "passages": whole,
                "places": whole,
                "texts": whole,
                "words": whole,
                "stray words": 0,
                "vectors": whole,
                "stray vectors": 0,
            }
            known = (await fabric("memory", "list", "--documents", "--json")).out
            for number in range(FILES):
                assert f"{number:02}.md" in known
            await _erase_all(fabric)
        assert set(counted(fabric).values()) == {0}
    report("kills while documents were added", kills)
    report("of these, runs that were resumed", resumed)


async def _erase_all(fabric: Fabric) -> None:
    """Empty the folder's memory, so that the next round begins anew."""
    (fabric.home or fabric.folder).mkdir(exist_ok=True)
    listed = await fabric("memory", "list", "--documents", "--json")
    documents: list[dict[str, str]] = listed.json  # type: ignore[assignment] # a list is printed here
    for each in documents:
        erased = await fabric("memory", "forget", each["id"], "--document", "--json")
        assert erased.code == 0, erased.err
