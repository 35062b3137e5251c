"""A fabric folder whose runs are encrypted, and a look at every byte that lies in it."""

import base64
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw

from agent_fabric.application.ports.encryption import KeySealer
from agent_fabric.application.ports.runs import HeldLog, HeldRun, InboxRow, NewRun, RunRepository
from agent_fabric.domain.events import Event, RunCreated
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.persistence.runs.event_store import SqlRunRepository
from agent_fabric.infrastructure.persistence.secrets.sealing import RunKeys
from agent_fabric.infrastructure.persistence.store import Store
from agent_fabric.infrastructure.runs.log.jsonl_log import JsonlRunLog, RunIndex
from agent_fabric.infrastructure.runs.log.layout import Layout
from agent_fabric.infrastructure.secrets.keyring import Keyring, open_keyring


class SealedFolder:
    """A fabric folder with keys of its own, opened as often as a test likes."""

    def __init__(self, root: Path) -> None:
        self.layout = Layout(root / ".fabric")
        self.layout.make()
        self.keyring: Keyring = open_keyring({"XDG_DATA_HOME": str(root / "data")})
        self._opened: list[Store] = []
        self.store = self.open()
        self.runs = self.repository(self.store)

    def open(self, keyring: Callable[[], KeySealer] | None = None) -> Store:
        """Open the store once more, perhaps with other keys."""
        store = Store(self.layout.database, RunKeys(keyring or (lambda: self.keyring)))
        self._opened.append(store)
        return store

    def repository(self, store: Store) -> SqlRunRepository:
        return SqlRunRepository(store, SystemClock(), (JsonlRunLog(self.layout), RunIndex(self.layout)))

    def tamper(self, *statements: str) -> None:
        connection = apsw.Connection(str(self.layout.database))
        for statement in statements:
            connection.execute(statement)
        connection.close()

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        return self.store.read_now(lambda connection: connection.execute(query).fetchall())

    def close(self) -> None:
        for store in self._opened:
            store.close()


class EncryptedRuns:
    """RunRepository that has every run encrypted, and shows it as if it were not."""

    def __init__(self, inner: RunRepository) -> None:
        self._inner = inner

    async def create(self, run_id: RunId, events: Sequence[Event]) -> HeldRun:
        return _EncryptedRun(await self._inner.create(run_id, _marked(events, encrypted=True)))

    async def take(self, run_id: RunId) -> HeldLog:
        held, events, _ = await self._inner.take(run_id)
        return HeldLog(_EncryptedRun(held), _marked(events, encrypted=False))

    async def status(self, run_id: RunId) -> RunStatus:
        return await self._inner.status(run_id)

    async def read(self, run_id: RunId, *, after: int = -1) -> Sequence[Event]:
        return _marked(await self._inner.read(run_id, after=after), encrypted=False)

    async def post(self, run_id: RunId, kind: str, payload: Mapping[str, Any]) -> None:
        await self._inner.post(run_id, kind, payload)


class _EncryptedRun:
    def __init__(self, inner: HeldRun) -> None:
        self._inner = inner
        self.run_id = inner.run_id
        self.receive = inner.receive
        self.unread = inner.unread
        self.release = inner.release

    async def append(
        self, events: Sequence[Event], *, consumed: Sequence[InboxRow] = (), children: Sequence[NewRun] = ()
    ) -> None:
        marked = [replace(child, created=_marked((child.created,), encrypted=True)[0]) for child in children]
        await self._inner.append(events, consumed=consumed, children=marked)


def _marked(events: Sequence[Event], *, encrypted: bool) -> list[Event]:
    return [
        event._replace(body=replace(event.body, encrypted=encrypted)) if isinstance(event.body, RunCreated) else event
        for event in events
    ]


def leaks(root: Path, markers: Sequence[str]) -> list[str]:
    """Say where below a folder a marker can be read: as it is, in base64, in hexadecimal, or compressed."""
    found = []
    for path in sorted(root.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            for shape, content in (("", data), (" (compressed)", b"".join(_inflated(data)))):
                found += [
                    f"{path.relative_to(root)}{shape}: {marker}"
                    for marker in markers
                    if any(part in content for part in _shapes(marker))
                ]
    return found


def _shapes(marker: str) -> Iterator[bytes]:
    raw = marker.encode()
    yield raw
    yield raw.hex().encode()
    for shift in range(3):  # base64 looks different at each of three offsets; its ends depend on the neighbours
        yield base64.b64encode(b"\0" * shift + raw)[4 if shift else 0 : -4]
        yield base64.urlsafe_b64encode(b"\0" * shift + raw)[4 if shift else 0 : -4]


def _inflated(data: bytes) -> Iterator[bytes]:
    """Try to decompress from every place that may be the beginning of a zlib stream."""
    at = data.find(b"\x78")
    while at >= 0:
        if at + 1 < len(data) and (0x7800 | data[at + 1]) % 31 == 0:
            with suppress(zlib.error):
                yield zlib.decompressobj().decompress(data[at : at + 100_000])
        at = data.find(b"\x78", at + 1)
