"""Seals what we keep, so that a copied disk or backup tells nothing without the user's keys."""

import base64
import binascii
import hashlib
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from agent_fabric.config.folders import base_folder
from agent_fabric.domain.errors import ConfigError, StoreUnavailable
from agent_fabric.domain.secrets.strength import weakness
from agent_fabric.infrastructure.private_files import PrivateFile

VARIABLE: Final = "ENCRYPTION_KEY"
FILE_NAME: Final = "encryption.keys"
MAKE_ONE: Final = 'python -c "import base64, os; print(base64.urlsafe_b64encode(os.urandom(32)).decode())"'
"""A command that prints a new key."""
SETTLE_S: Final = 10.0
"""How long an old key stays after a change: a process that has just sealed with it has stored the result by then."""

_KEY_BYTES: Final = 32

Stamp = tuple[int, int, int] | None


class EnvironmentKeys:
    """Keys that someone else keeps, given in `ENCRYPTION_KEY`."""

    place = VARIABLE
    """Where they are, for people."""
    ours = False
    """Whether we make and remove keys there; else someone else does."""

    def __init__(self, text: str) -> None:
        self._keys = tuple(_check(part, VARIABLE) for part in re.split(r"[\s,]+", text) if part)
        # Only of the one that seals: what a weak one has sealed must stay readable.
        if self._keys and (weak := weakness(base64.urlsafe_b64decode(self._keys[0]), shortest=_KEY_BYTES)):
            raise ConfigError(
                f"The first key in {VARIABLE} {weak}",
                hint=f"Make one with `{MAKE_ONE}` and put it in front. If the weak one was in use, leave it there "
                "behind a comma until `fabric secrets rotate` has run in each folder.",
            )

    def stamp(self) -> Stamp:
        """Return what changes whenever the keys do."""
        return None

    def read(self) -> tuple[str, ...]:
        """Return the keys, the newest first; none if there are none yet.

        Raises:
            ConfigError: what is there is no key.
            StoreUnavailable: it cannot be read.
        """
        return self._keys

    def add(self, *, unless_any: bool = False) -> None:
        """Make a new key and put it first; with `unless_any` only if there is none.

        Raises:
            ConfigError: keys are not ours to make here.
            StoreUnavailable: it cannot be kept.
        """
        if unless_any and self._keys:
            return
        raise ConfigError(
            f"the keys are given in {VARIABLE}, so a new one is yours to add",
            hint=f"Make one with `{MAKE_ONE}`, put it and a comma in front of the others, and restart what runs.",
        )

    def keep(self, wanted: Sequence[str]) -> None:
        """Forget all keys but these.

        Raises:
            ConfigError: keys are not ours to remove here, or someone changed them just now.
            StoreUnavailable: the rest cannot be kept.
        """
        if not set(self._keys) <= set(wanted):
            raise ConfigError(
                f"the keys are given in {VARIABLE}, so old ones are yours to remove",
                hint="Nothing needs them now: remove them from the variable and restart what runs.",
            )


class FileKeys:
    """Keys in a file of the user's, one a line; made when they are first needed."""

    ours = True

    def __init__(self, path: Path) -> None:
        self.place = str(path)
        self._file = PrivateFile(path)

    def stamp(self) -> Stamp:
        return self._file.stamp()

    def read(self) -> tuple[str, ...]:
        lines = (self._file.read() or b"").decode("ascii", "replace").splitlines()
        return tuple(_check(line.strip(), self.place) for line in lines if line.strip())

    def add(self, *, unless_any: bool = False) -> None:
        with self._file.hold():
            known = self.read()
            if known and unless_any:
                return
            self._write((base64.urlsafe_b64encode(os.urandom(_KEY_BYTES)).decode(), *known))

    def keep(self, wanted: Sequence[str]) -> None:
        with self._file.hold():
            known = self.read()
            kept = tuple(key for key in known if key in wanted)
            if kept == known:
                return
            changed = self._file.stamp()
            if not kept or kept[0] != known[0] or changed is None or time.time() - changed[1] / 1e9 < SETTLE_S:
                raise ConfigError(
                    "the keys were changed only just now, and a process may still be writing with an old one",
                    hint=f"Try again in {SETTLE_S:.0f} seconds.",
                )
            self._write(kept)

    def _write(self, keys: Sequence[str]) -> None:
        self._file.replace("".join(f"{key}\n" for key in keys).encode())


Keys = EnvironmentKeys | FileKeys


def keys_from(environ: Mapping[str, str]) -> Keys:
    """Return the keys of `ENCRYPTION_KEY`, else those of the user's file.

    Raises:
        ConfigError: the variable holds no key, or the user has no home to keep one in.
    """
    given = environ.get(VARIABLE, "").strip()
    if given:
        return EnvironmentKeys(given)
    folder = base_folder(environ, "XDG_DATA_HOME", ".local", "share")
    if folder is None:
        raise ConfigError(
            "there is no place to keep an encryption key: this user has no home",
            hint=f"Set {VARIABLE}. Make a key with: {MAKE_ONE}",
        )
    return FileKeys(folder / FILE_NAME)


def _check(text: str, place: str) -> str:
    try:
        value = base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        value = b""
    if len(value) == _KEY_BYTES:
        return base64.urlsafe_b64encode(value).decode()
    if place == VARIABLE:
        raise ConfigError(
            f"{VARIABLE} holds something that is no key: a key is 32 bytes in URL-safe base64",
            hint=f"Make one with: {MAKE_ONE}. Several are separated by commas, the newest first.",
        )
    raise StoreUnavailable(
        f"{place} is damaged: a line of it is no key",
        hint="Restore it from a backup. Without its keys, what was sealed with them cannot be read again.",
    )


if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

    from agent_fabric.infrastructure.secrets.key_uses import KeyUses

_ID_LENGTH = 8


class _Ring(NamedTuple):
    stamp: Stamp
    keys: tuple[str, ...]
    fernet: "MultiFernet"


class Keyring:
    """Seals with the newest key and opens with any. A rotation by another process counts from the next call on.

    Sealed data is a Fernet token (AES-128-CBC and HMAC-SHA256, with the time at which it was sealed): printable, a
    third longer than what it holds, and useless when changed. Nothing is read or made before the first call.
    """

    def __init__(self, keys: Keys, uses: "KeyUses | None" = None, folder: Path | None = None) -> None:
        """Take the keys; with a `folder`, which of them it needs is recorded in `uses`."""
        self._keys = keys
        self._known: _Ring | None = None
        self._uses = uses
        self._folder = folder
        self._noted: set[str] = set()

    @property
    def place(self) -> str:
        """Where the keys are, for people."""
        return self._keys.place

    @property
    def makes_keys(self) -> bool:
        """Whether a rotation makes a key; else the source of the keys does."""
        return self._keys.ours

    @property
    def generation(self) -> str:
        """A short name of the newest key, safe to show. A key is made if there is none.

        Raises:
            FabricError: there is no usable key, and none can be made.
        """
        return _id_of(self._ring().keys[0])

    def generations(self) -> tuple[str, ...]:
        """Return the short names of all keys, the newest first; empty if none was needed yet.

        Raises:
            FabricError: what is there cannot be used.
        """
        return tuple(map(_id_of, self._keys.read()))

    def seal(self, data: bytes) -> bytes:
        """Return `data` sealed with the newest key, which is made if there is none.

        Raises:
            FabricError: there is no usable key, and none can be made.
        """
        ring = self._ring()
        self._note(_id_of(ring.keys[0]))
        return ring.fernet.encrypt(data)

    def unseal(self, data: bytes) -> bytes:
        """Return what was sealed.

        Raises:
            StoreUnavailable: no key fits, or the sealed data was damaged: one cannot tell which.
        """
        which, content = self._open(data)
        self._note(which)
        return content

    def reseal(self, data: bytes) -> bytes:
        """Return sealed data sealed with the newest key; the same bytes if it is so already.

        Raises:
            StoreUnavailable: no key fits, or the sealed data was damaged.
        """
        which, content = self._open(data)
        return data if which == self.generation else self.seal(content)

    def generation_of(self, data: bytes) -> str:
        """Return the short name of the key that sealed this.

        Raises:
            StoreUnavailable: no key fits, or the sealed data was damaged.
        """
        return self._open(data)[0]

    def rotate(self) -> str:
        """Make a new key, with which everything is sealed from now on; return its short name. Old keys still open.

        Raises:
            ConfigError: the keys are given from outside.
            StoreUnavailable: the new key cannot be kept.
        """
        self._keys.add()
        return self.generation

    def drop_old(self) -> None:
        """Forget all keys but the newest. Only what was sealed with it can be opened afterwards.

        Raises:
            ConfigError: the keys are given from outside, or were changed only just now.
            StoreUnavailable: the file cannot be changed.
        """
        ring = self._ring()
        self._keys.keep(ring.keys[:1])
        if self._uses is not None:
            self._uses.forget_keys(frozenset(map(_id_of, ring.keys[1:])))

    def note_resealed(self) -> None:
        """Record that everything in the folder is sealed with the newest key now."""
        if self._uses is not None and self._folder is not None:
            self._uses.set_folder(self._folder, (self.generation,))

    def _note(self, key: str) -> None:
        if key in self._noted or self._uses is None or self._folder is None:
            return
        self._noted.add(key)
        self._uses.note_folder(self._folder, key)

    def _ring(self, *, make: bool = True) -> _Ring:
        stamp = self._keys.stamp()
        if self._known is not None and self._known.stamp == stamp:
            return self._known
        keys = self._keys.read()
        if not keys and make:
            self._keys.add(unless_any=True)
            stamp, keys = self._keys.stamp(), self._keys.read()
        if not keys:
            raise StoreUnavailable(
                f"there is no key in {self.place}, but something was sealed with one",
                hint="Restore the key file from a backup, or set ENCRYPTION_KEY.",
            )
        # Costs 20 ms, and most commands seal nothing.
        from cryptography.fernet import Fernet, MultiFernet  # noqa: PLC0415

        self._known = _Ring(stamp, keys, MultiFernet([Fernet(key) for key in keys]))
        return self._known

    def _open(self, data: bytes) -> tuple[str, bytes]:
        from cryptography.fernet import Fernet, InvalidToken  # noqa: PLC0415 - as above

        keys = self._ring(make=False).keys
        for key in keys:
            try:
                return _id_of(key), Fernet(key).decrypt(data)
            except (InvalidToken, ValueError):
                continue
        known = ", ".join(map(_id_of, keys))
        raise StoreUnavailable(
            f"no key in {self.place} opens this: it was sealed with another key, or is damaged (keys here: {known})",
            hint="Restore the key file from a backup, or put the key it was sealed with last in ENCRYPTION_KEY.",
        )


def open_keyring(environ: Mapping[str, str], folder: Path | None = None) -> Keyring:
    """Return the keys of `ENCRYPTION_KEY` (several with commas, the newest first), else those of the user's key file.

    With a fabric `folder`, it is recorded which of the keys in that file the folder needs.

    Raises:
        ConfigError: the variable holds no key, or the user has no home to keep one in.
    """
    return Keyring(keys_from(environ), key_uses(environ), None if folder is None else folder.absolute())


def key_uses(environ: Mapping[str, str]) -> "KeyUses | None":
    """Return the record of what needs which key; None where the keys are given from outside."""
    from agent_fabric.infrastructure.secrets.key_uses import FILE_NAME, KeyUses  # noqa: PLC0415 - few commands seal

    folder = base_folder(environ, "XDG_DATA_HOME", ".local", "share")
    return None if folder is None or environ.get(VARIABLE, "").strip() else KeyUses(folder / FILE_NAME)


def _id_of(key: str) -> str:
    return hashlib.sha256(b"agent-fabric key " + key.encode()).hexdigest()[:_ID_LENGTH]
