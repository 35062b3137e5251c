"""How long it takes to list, read and search conversations, beside a plain full-text index of the same words.

python benchmarks/bench_chat.py [--sessions 1000] [--messages 10]
"""

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import apsw

from agent_fabric.application.ports.chat import SessionQuery
from agent_fabric.domain.chat.sessions import ChatMessage, Session
from agent_fabric.domain.identity.ownership import Viewer
from agent_fabric.domain.ids import RunId, SessionId
from agent_fabric.infrastructure.clock import RandomIds, SystemClock
from agent_fabric.infrastructure.persistence.chat.rows import insert_message
from agent_fabric.infrastructure.persistence.secrets.sealing import RunKeys
from agent_fabric.infrastructure.persistence.storage import open_storage
from agent_fabric.infrastructure.secrets.keyring import open_keyring

ADA = Viewer(("user:ada",), sees_all=False)


def words(chance: random.Random, count: int) -> str:
    """Return some words, of which a few are frequent."""
    return " ".join(f"word{int(chance.paretovariate(0.7)) % 20_000}" for _ in range(count))


async def measured(what: Callable[[], Awaitable[Any]], times: int = 20) -> tuple[float, float]:
    """Return the median and the longest processor time, in milliseconds: machines are busy."""
    taken = []
    for _ in range(times):
        began = time.process_time()
        await what()
        taken.append((time.process_time() - began) * 1_000)
    return statistics.median(taken), max(taken)


async def main(sessions: int, messages: int) -> None:
    """Fill a store, and measure."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        keyring = open_keyring({"HOME": name}, folder)
        storage: Any = open_storage(
            folder,
            clock=SystemClock(),
            ids=RandomIds(),
            run_dir=lambda run_id: str(folder / run_id),
            open_keyring=lambda: keyring,
        )
        chance, texts = random.Random(1), list[str]()
        keys = RunKeys(lambda: keyring)
        for number in range(sessions):
            session_id = SessionId(str(RandomIds().new_run_id()))
            at = 1_000.0 + number
            session = Session(
                session_id=session_id, title=words(chance, 6), created_at=at, updated_at=at, owner="user:ada"
            )
            await storage.sessions.create(session, encrypted=True)
            count = 10_000 if number == 0 else messages
            said = [words(chance, 30) for _ in range(count)]
            texts += said

            def write(
                connection: Any, session_id: SessionId = session_id, said: list[str] = said, at: float = at
            ) -> None:
                key = connection.execute("SELECT key FROM chat_sessions WHERE id = ?", (session_id,)).fetchone()[0]
                cipher = keys.cipher(RunId(session_id), key)
                for place, text in enumerate(said):
                    message = ChatMessage(
                        message_id=f"{session_id}-{place}",
                        session_id=session_id,
                        role="user",
                        content=text,
                        metadata={"run_id": "r"},
                        created_at=at,
                    )
                    insert_message(connection, cipher, message)

            await storage.sessions._database.write(write)  # noqa: SLF001 - as the events of a turn do
            if number == 0:
                long = session_id
        plain = apsw.Connection(":memory:")
        plain.execute("CREATE VIRTUAL TABLE said USING fts5 (text)")
        plain.executemany("INSERT INTO said (text) VALUES (?)", [(text,) for text in texts])

        async def floor() -> None:
            plain.execute("SELECT rowid FROM said WHERE said MATCH 'word1234*' LIMIT 50").fetchall()

        rows = {
            f"list {sessions:,} sessions": lambda: storage.sessions.list(SessionQuery(viewer=ADA, limit=sessions)),
            "list 50 of them": lambda: storage.sessions.list(SessionQuery(viewer=ADA, limit=50)),
            "the last 50 of 10,000 messages": lambda: storage.messages.page(long),
            f"search {len(texts):,} messages, a rare word": lambda: storage.messages.search(
                "word12345", wanted=SessionQuery(viewer=ADA)
            ),
            "search, the beginning of a word": lambda: storage.messages.search(
                "word1234", wanted=SessionQuery(viewer=ADA)
            ),
            "search, two frequent words": lambda: storage.messages.search(
                "word1 word2", wanted=SessionQuery(viewer=ADA)
            ),
            "floor: FTS5 in memory, unencrypted": floor,
        }
        for label, work in rows.items():
            await work()
            median, longest = await measured(work)
            print(f"{label:<45} {median:8.1f} ms   at most {longest:8.1f} ms")
        storage.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=1_000)
    parser.add_argument("--messages", type=int, default=10)
    given = parser.parse_args()
    asyncio.run(main(given.sessions, given.messages))
