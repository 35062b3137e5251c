"""Who and where on a platform: always by id, never by a name that someone can change."""

import uuid
from typing import Final

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import RunId

_RUNS: Final = uuid.UUID("5f4f1c3e-6d0b-4b53-9f0c-0c7f6f2a8d21")
"""Namespace of the ids of turns that messages begin."""
PLATFORMS: Final = ("telegram", "slack", "discord", "whatsapp")
"""The channels that are part of the product; packages bring others."""


@dataclass(frozen=True, slots=True)
class Place:
    """A chat of an account, or a thread in it."""

    channel: str
    """`telegram`, `slack`, `discord`, `whatsapp`, or what a plug-in calls itself."""
    account: str
    """The bot, by the platform's id of it."""
    chat: str
    thread: str = ""
    is_direct: bool = True
    """Whether no one else is there."""

    @property
    def key(self) -> str:
        """Identifies the place, as in logs and on the page."""
        return "/".join((self.channel, self.account, self.chat, *((self.thread,) if self.thread else ())))


@dataclass(frozen=True, slots=True)
class Sender:
    """Someone who writes to an account."""

    channel: str
    account: str
    id: str


def run_of_message(channel: str, account: str, key: str) -> RunId:
    """Return the id of the turn that a message begins: the same one, however often the message is handled."""
    return RunId(str(uuid.uuid5(_RUNS, f"{channel}/{account}/{key}")))
