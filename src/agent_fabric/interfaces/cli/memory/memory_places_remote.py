"""The documents and facts of a server, as commands look after them."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from agent_fabric.client import FabricClient
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.memory.facts import FactStatus
from agent_fabric.infrastructure.memory.local_documents import read_local_document
from agent_fabric.wire.shape import Json


class ServerMemory:
    """The documents and facts of a server."""

    def __init__(self, client: FabricClient) -> None:
        self._memory = client.memory

    async def add(self, path: Path, labels: Sequence[str], _: Callable[[int], None], *, team: bool) -> Json:
        try:
            data = await asyncio.to_thread(read_local_document, path)
        except OSError as problem:
            raise ConfigError(
                f"{path} cannot be read: {problem.strerror or problem}", hint="Name a file that exists."
            ) from problem
        visibility = "team" if team else "private"
        return await self._memory.add(str(path), data, labels=list(labels), visibility=visibility)

    async def search(self, question: str, labels: Sequence[str], *, limit: int) -> Sequence[Json]:
        return await self._memory.search(question, limit=limit, labels=labels)

    async def documents(self) -> Sequence[Json]:
        return await self._memory.documents()

    async def document(self, prefix: str) -> Json:
        return await self._memory.document(prefix)

    async def facts(self, statuses: Sequence[FactStatus]) -> Sequence[Json]:
        return await self._memory.facts(statuses[0].value if statuses else "")

    async def remember(self, text: str, *, preference: bool, pinned: bool) -> Json:
        return await self._memory.remember(text, kind="preference" if preference else "fact", pinned=pinned)

    async def edit(self, prefix: str, text: str | None, pinned: bool | None) -> Json:
        wish = {"text": text, "pinned": pinned}
        return await self._memory.change(prefix, {name: value for name, value in wish.items() if value is not None})

    async def accept(self, prefix: str, replaces: str) -> Json:
        return await self._memory.review(prefix, "accept", replaces=replaces)

    async def reject(self, prefix: str) -> Json:
        return await self._memory.review(prefix, "reject")

    async def confirm(self, prefix: str) -> Json:
        return await self._memory.review(prefix, "confirm")

    async def why(self, prefix: str) -> Json:
        return await self._memory.why(prefix)

    async def forget(self, prefix: str, *, erase: bool, runs: bool) -> Json:
        return await self._memory.forget(prefix, erase=erase, runs=runs)

    async def forget_document(self, prefix: str, *, runs: bool) -> Json:
        return await self._memory.erase_document(prefix, runs=runs)

    async def export(self) -> str:
        return await self._memory.export()

    async def import_(self, text: str, source: str, *, accept: bool) -> Json:
        return await self._memory.import_(text, source=source, accept=accept)
