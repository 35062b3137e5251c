"""The channel: letters come from a folder, and go into another one."""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path

from agent_fabric.extend import (
    PLAIN_TEXT,
    Accepted,
    ButtonPress,
    ChannelState,
    ChannelStatus,
    Inbound,
    InboundMessage,
    NotReached,
    Paces,
    Part,
    Place,
    Sender,
    SendOutcome,
    TakeInbound,
)

LOOK_EVERY_S = 0.2


class Letterbox:
    """Channel over two folders. Who may write into the first one is who its files' owner lets in."""

    rendering = PLAIN_TEXT
    paces = Paces()

    def __init__(self, folder: Path) -> None:
        self._inbox, self._outbox = folder / "inbox", folder / "outbox"
        self.status = ChannelStatus("letterbox", account="letters", name="Letterbox")

    async def receive(self, take: TakeInbound) -> None:
        """Take each letter, and remove it once it is durable: a letter that is taken twice counts once, by its key."""
        await asyncio.to_thread(self._inbox.mkdir, parents=True, exist_ok=True)
        while True:
            letters = await asyncio.to_thread(lambda: dict(self._read()))
            if letters:
                await take([*letters.values()])
                for path in letters:
                    await asyncio.to_thread(path.unlink, missing_ok=True)
            self.status.state, self.status.heard_at = ChannelState.CONNECTED, time.time()
            await asyncio.sleep(LOOK_EVERY_S)

    def _read(self) -> Iterator[tuple[Path, Inbound]]:
        for path in sorted(self._inbox.glob("*.txt")):
            name, text, written = path.name.partition(".")[0], path.read_text("utf-8"), path.stat()
            place = Place("letterbox", self.status.account, name)
            sender = Sender("letterbox", self.status.account, name)
            key = f"{path.name}:{written.st_mtime_ns}"
            if (words := text.split()) and words[0] == "press" and len(words) == 3:
                yield (
                    path,
                    ButtonPress(
                        key=key,
                        place=place,
                        sender=sender,
                        message_id=words[1],
                        data=words[2],
                        sent_at=written.st_mtime,
                    ),
                )
            else:
                yield path, InboundMessage(key=key, place=place, sender=sender, text=text, sent_at=written.st_mtime)

    async def send(self, part: Part) -> SendOutcome:
        """Write one letter. The same part always has the same name, so sending it twice gives one letter."""
        message_id = part.edits or hashlib.sha256(part.id.encode()).hexdigest()[:12]
        lines = [part.text, *(f"[{button.label}] press {message_id} {button.data}" for button in part.buttons)]
        try:
            await asyncio.to_thread(_write, self._path(part.place, message_id), "\n".join(lines))
        except OSError as problem:
            return NotReached(f"the letter cannot be written: {problem.strerror}")
        return Accepted(message_id)

    async def trace(self, part: Part) -> SendOutcome:
        """Look whether a letter is there whose writing was cut off."""
        message_id = hashlib.sha256(part.id.encode()).hexdigest()[:12]
        there = await asyncio.to_thread(self._path(part.place, message_id).exists)
        return Accepted(message_id) if there else NotReached("there is no such letter")

    async def answer(self, press: ButtonPress, text: str) -> None:
        """Tell who pressed a button what became of it."""
        await asyncio.to_thread(_write, self._path(press.place, f"answer-{press.message_id}"), text)

    async def aclose(self) -> None:
        """Nothing is open."""

    def _path(self, place: Place, message_id: str) -> Path:
        return self._outbox / place.chat / f"{message_id}.txt"


def _write(path: Path, text: str) -> None:
    """Write a letter whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    unfinished.write_text(text, "utf-8")
    unfinished.replace(path)


def open_letterbox(
    options: Mapping[str, str],
    resolve: Callable[[str], Awaitable[str]],
    clock: object,
) -> Letterbox:
    """Open the channel; `options` are those of the configuration."""
    return Letterbox(Path(options["folder"]))
