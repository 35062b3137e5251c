"""A call that runs outside the box, as a person is shown it before they agree."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Self

from agent_fabric.domain.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What exactly would run outside the box, with the user's network and credentials.

    A person is shown all of it and agrees to nothing else: just before it runs it is worked out again, and must be the
    same.
    """

    words: tuple[str, ...]
    """The program, by its path, and its arguments. They are executed word by word: nothing is expanded."""
    account: str
    """Whose rights and credentials it has: `me@laptop`."""
    goes_to: str = ""
    """The address that it goes to, aliases resolved; empty: the words tell."""
    carries: tuple[str, ...] = ()
    """What it takes along, a line each: commits, and files with their hashes."""

    @property
    def brings_files(self) -> bool:
        """Whether it may write into the workspace what another machine sent. A push notes only what it pushed."""
        return not (self.words[0].rpartition("/")[2] == "git" and "push" in self.words)

    @property
    def digest(self) -> str:
        """Hash of everything that a person is shown."""
        return hashlib.sha256(json.dumps(asdict(self), ensure_ascii=True).encode()).hexdigest()

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any] | None) -> Self | None:
        """Return it as it was stored."""
        if stored is None:
            return None
        plain: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()
        }
        return cls(**plain)


class CannotRunOutside(ValueError):
    """A call cannot run outside the box; the message says why, and what to do instead."""

    def __init__(self, message: str, *, proposal: str = "") -> None:
        """Explain it; `proposal` is a command that only a person can run."""
        super().__init__(message)
        self.proposal = proposal


class NothingToPush(CannotRunOutside):
    """Everything is there already, as far as the repository knows: nothing runs outside, so no question is asked."""
