"""What an encrypted run's rows look like, and where the key for them comes from.

What would tell of the run's content is sealed with a key of its own, and that key lies beside it, sealed with the
user's keyring. A sealed text stays JSON, `{"$sealed": "…"}`, so that views and other readers of the file find nothing
in it but stumble over nothing either. The ciphers are in `run_encryption`, imported when a run needs one.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable
from typing import NamedTuple

from agent_fabric.application.ports.encryption import Cipher, KeySealer
from agent_fabric.domain.errors import RunKeyMissing, StoreUnavailable
from agent_fabric.domain.ids import RunId

HASH_BYTES = 32
"""Length of the address of a blob that is not sealed; that of a sealed one is longer."""
OWNER_BYTES = 16
SESSION_KEYS = "SELECT key FROM chat_sessions WHERE key IS NOT NULL"
"""The keys of encrypted sessions, as they are stored."""
FACT_KEYS = "SELECT key FROM facts WHERE key IS NOT NULL"
"""The keys of sealed facts, as they are stored."""
_BEGIN, _END = b'{"$sealed":"', b'"}'


class NewKey(NamedTuple):
    """What a run needs to become an encrypted one."""

    cipher: Cipher
    sealed: bytes
    """The run's key, as it is stored."""


class RunKeys:
    """The keys of all encrypted runs of a store. The keyring is opened when there is the first one."""

    def __init__(self, open_keyring: Callable[[], KeySealer] | None = None) -> None:
        self._open_keyring = open_keyring
        self._keyring: KeySealer | None = None

    @property
    def keyring(self) -> KeySealer:
        """What the keys are sealed with.

        Raises:
            FabricError: there is none.
        """
        if self._keyring is None:
            if self._open_keyring is None:
                raise StoreUnavailable("no keys are used here", hint="Open the store with the user's keys.")
            self._keyring = self._open_keyring()
        return self._keyring

    def new(self, run_id: RunId) -> NewKey:
        """Make a key for a run.

        Raises:
            FabricError: nothing is there to seal it with, and nothing can be made.
        """
        from agent_fabric.infrastructure.persistence.secrets.run_encryption import (  # noqa: PLC0415 - few runs need it
            RunCipher,
            new_key,
        )

        key = new_key()
        return NewKey(RunCipher(run_id, key), self.keyring.seal(key))

    def cipher(self, run_id: RunId, sealed: bytes | None) -> Cipher | None:
        """Return what reads and writes a run whose key is stored so; None if it is not encrypted.

        Raises:
            RunKeyMissing: it is encrypted, but its key cannot be opened.
        """
        if sealed is None:
            return None
        from agent_fabric.infrastructure.persistence.secrets.run_encryption import open_cipher  # noqa: PLC0415 - as above

        return open_cipher(run_id, sealed, lambda: self.keyring)


NO_KEYS = RunKeys()
"""For a store without encrypted runs."""


def key_missing(run_id: str, why: str = "") -> RunKeyMissing:
    """Return the error that says that a run cannot be read."""
    return RunKeyMissing(
        f"Run {run_id} is encrypted and its key is not here" + (f": {why}" if why else ""),
        hint="Restore the key file from a backup, or set ENCRYPTION_KEY to the key that it was made with.",
    )


def is_sealed(data: bytes) -> bool:
    """Tell whether a stored text is sealed."""
    return data.startswith(_BEGIN)


def sealed_json(cipher: Cipher, place: str, data: bytes) -> bytes:
    """Return data sealed for a place, as JSON."""
    return _BEGIN + base64.b64encode(cipher.seal(place, data)) + _END


def unsealed_json(cipher: Cipher, place: str, data: bytes) -> bytes:
    """Undo `sealed_json`.

    Raises:
        ValueError: it is not sealed, was changed, or belongs elsewhere.
    """
    if not (data.startswith(_BEGIN) and data.endswith(_END)):
        raise ValueError(f"{_render(place)} is not sealed, although its run is encrypted")
    try:
        sealed = base64.b64decode(data[len(_BEGIN) : -len(_END)], validate=True)
    except binascii.Error:
        raise ValueError(f"{_render(place)} is not what was recorded") from None
    return cipher.unseal(place, sealed)


def owner_of(run_id: str) -> bytes:
    """Return what the addresses of all sealed blobs of a run begin with: others must be able to remove them."""
    return hashlib.sha256(b"agent-fabric run\0" + run_id.encode()).digest()[:OWNER_BYTES]


def event_place(seq: int, kind: str) -> str:
    """Return where an event's payload belongs."""
    return f"event\0{seq}\0{kind}"


def _render(place: str) -> str:
    return place.replace("\0", " ")
