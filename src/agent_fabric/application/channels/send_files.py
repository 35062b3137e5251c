"""Sends files of a conversation to the chat that it is held in."""

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import quote

from agent_fabric.application.channels.replies import plain_part
from agent_fabric.application.ports.channels import PendingTurn, RunDocuments
from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.channels.addresses import Place
from agent_fabric.domain.channels.deliveries import FILES_FROM, Part, PartKind
from agent_fabric.domain.channels.files import MAX_FILE_OUT, named_files, size_words
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import RunId

SHOWN = 30
"""Files that a list shows."""
FILE_LIMITS: Mapping[str, int] = {
    "telegram": 50_000_000,
    "slack": 50_000_000,
    "discord": 10_000_000,
    "whatsapp": 50_000_000,
}
"""What each platform takes from a bot, up to what we send at all."""


@dataclass(frozen=True, slots=True)
class SendFiles:
    """Use case: make parts of files. They come from the workspace of the conversation, and from nowhere else."""

    documents: RunDocuments
    clock: Clock
    page_url: str = ""
    """Where people reach the page; empty: no one said."""

    async def named_in(self, answer: str, turn: PendingTurn, *, since: float, seq: int) -> list[Part]:
        """Return the files that an answer names and its turn has made or changed."""
        known = await self.documents.list(turn.run_id, since=since)
        return [
            self.part(turn.run_id, path, known[path], turn.place, source=turn.run_id, seq=seq, number=number)
            for number, path in enumerate(named_files(answer, known), start=FILES_FROM)
        ]

    async def list_files(self, run_id: RunId | None) -> str:
        """Return the files of a conversation, whose newest turn is named, as people read them."""
        known = {} if run_id is None else await self.documents.list(run_id)
        if not known:
            return "There are no files in this conversation."
        lines = [f"{path} ({size_words(size)})" for path, size in sorted(known.items())[:SHOWN]]
        more = [f"and {len(known) - SHOWN} more"] if len(known) > SHOWN else []
        return "\n".join([*lines, *more])

    async def asked_for(self, run_id: RunId | None, wanted: str, place: Place, *, source: str) -> Part | None:
        """Return a file that a person asks for; None: there is none."""
        known = {} if run_id is None else await self.documents.list(run_id)
        path = wanted.strip().removeprefix("./")
        matching = [path] if path in known else [each for each in known if each.rpartition("/")[2] == path]
        if run_id is None or len(matching) != 1:
            return None
        return self.part(run_id, matching[0], known[matching[0]], place, source=source)

    def part(
        self, run_id: RunId, path: str, size: int, place: Place, *, source: str, seq: int = 0, number: int = 0
    ) -> Part:
        """Return a file as a part; one that is too large as where to get it."""
        limit = FILE_LIMITS.get(place.channel, MAX_FILE_OUT)
        if size <= limit:
            part = plain_part(source, place, path, at=self.clock.now(), seq=seq)
            facts = {"file": {"run_id": run_id, "path": path, "size": size}}
            return replace(part, number=number, kind=PartKind.FILE, facts=facts)
        where = f"fabric files {run_id} {path}"
        if self.page_url:
            where = f"{self.page_url.rstrip('/')}/runs/{run_id}/files/{quote(path)}"
        text = f"{path} has {size_words(size)}, and {size_words(limit)} can be sent here. Get it at: {where}"
        return replace(plain_part(source, place, text, at=self.clock.now(), seq=seq), number=number)
