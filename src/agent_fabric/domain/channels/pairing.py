"""How someone on a platform becomes a user: a code that they are shown, and that a user's admin confirms.

Until then nothing that they write reaches a model.
"""

from collections.abc import Sequence
from typing import Final

from agent_fabric.domain.channels.addresses import Place, Sender
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.domain.identity.accounts import User

CODE_ALPHABET: Final = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""Without what looks alike: I and 1, O and 0. 32 characters: 8 of them are 40 bits."""
CODE_LENGTH: Final = 8
CODE_LASTS_S: Final = 3_600.0
MAX_PENDING: Final = 3
"""Codes that wait at one account; further senders are told nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A sender who is a user."""

    sender: Sender
    user: str
    place: Place
    """Where they are reached directly."""
    paired_at: float
    paired_by: str


def is_still(person: Person, user: User) -> bool:
    """Tell whether a person is a user: not one of the same name who was added after the pairing."""
    return person.user == user.name and not user.disabled and user.created_at <= person.paired_at


@dataclass(frozen=True, slots=True, kw_only=True)
class PairingRequest:
    """A sender who was shown a code."""

    code: str
    sender: Sender
    place: Place
    created_at: float

    @property
    def expires_at(self) -> float:
        """When the code counts no more."""
        return self.created_at + CODE_LASTS_S


def may_show_code(sender: Sender, pending: Sequence[PairingRequest], *, now: float) -> bool:
    """Tell whether an unknown sender is shown a code; `pending` are the codes of the same account.

    Nothing is answered to a sender who has one already, or where too many wait.
    """
    alive = [each for each in pending if now < each.expires_at]
    return len(alive) < MAX_PENDING and all(each.sender != sender for each in alive)


def code_from(octets: bytes) -> str:
    """Return a code from random bytes, of which there must be as many as a code has characters."""
    assert len(octets) == CODE_LENGTH
    return "".join(CODE_ALPHABET[octet % len(CODE_ALPHABET)] for octet in octets)  # 256 is a multiple of 32


def read_code(text: str) -> str:
    """Return a code as it was typed by a person.

    Raises:
        InvalidInputs: it is none.
    """
    code = "".join(text.split()).replace("-", "").upper()
    if len(code) != CODE_LENGTH or any(character not in CODE_ALPHABET for character in code):
        raise InvalidInputs(
            f"{text[:40]!r} is no pairing code",
            hint=f"A code has {CODE_LENGTH} letters and digits. The person gets one by writing to the bot.",
        )
    return code


def paired_text(user: str) -> str:
    """Return what a sender reads when they have become a user."""
    return f"You are {user} here from now on. Write what you want done; /help shows what else you can say."


def pairing_text(code: str) -> str:
    """Return what a sender reads who is not paired yet."""
    return (
        f"I do not know you yet. Your code is {code}, for one hour.\n\n"
        f"Somebody who runs this server enters: fabric channels pair {code} --user NAME"
    )
