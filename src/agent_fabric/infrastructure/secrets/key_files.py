"""Where the keys come from that seal what we keep: the environment, or a file of the user's."""

import base64
import binascii
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

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


class Keys(Protocol):
    """Keys, the newest first."""

    place: str
    """Where they are, for people."""
    ours: bool
    """Whether we make and remove keys there; else somebody else does."""

    def stamp(self) -> Stamp:
        """Return what changes whenever the keys do."""
        ...

    def read(self) -> tuple[str, ...]:
        """Return the keys; none if there are none yet.

        Raises:
            ConfigError: what is there is no key.
            StoreUnavailable: it cannot be read.
        """
        ...

    def add(self, *, unless_any: bool = False) -> None:
        """Make a new key and put it first; with `unless_any` only if there is none.

        Raises:
            ConfigError: keys are not ours to make here.
            StoreUnavailable: it cannot be kept.
        """
        ...

    def keep(self, wanted: Sequence[str]) -> None:
        """Forget all keys but these.

        Raises:
            ConfigError: keys are not ours to remove here, or somebody changed them just now.
            StoreUnavailable: the rest cannot be kept.
        """
        ...


class EnvironmentKeys:
    """Keys that somebody else keeps, given in `ENCRYPTION_KEY`."""

    place = VARIABLE
    ours = False

    def __init__(self, text: str) -> None:
        self._keys = tuple(_checked(part, VARIABLE) for part in re.split(r"[\s,]+", text) if part)
        # Only of the one that seals: what a weak one has sealed must stay readable.
        if self._keys and (weak := weakness(base64.urlsafe_b64decode(self._keys[0]), shortest=_KEY_BYTES)):
            raise ConfigError(
                f"The first key in {VARIABLE} {weak}",
                hint=f"Make one with `{MAKE_ONE}` and put it in front. If the weak one was in use, leave it there "
                "behind a comma until `fabric secrets rotate` has run in each folder.",
            )

    def stamp(self) -> Stamp:
        return None

    def read(self) -> tuple[str, ...]:
        return self._keys

    def add(self, *, unless_any: bool = False) -> None:
        if unless_any and self._keys:
            return
        raise ConfigError(
            f"the keys are given in {VARIABLE}, so a new one is yours to add",
            hint=f"Make one with `{MAKE_ONE}`, put it and a comma in front of the others, and restart what runs.",
        )

    def keep(self, wanted: Sequence[str]) -> None:
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
        return tuple(_checked(line.strip(), self.place) for line in lines if line.strip())

    def add(self, *, unless_any: bool = False) -> None:
        with self._file.held():
            known = self.read()
            if known and unless_any:
                return
            self._write((base64.urlsafe_b64encode(os.urandom(_KEY_BYTES)).decode(), *known))

    def keep(self, wanted: Sequence[str]) -> None:
        with self._file.held():
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


def _checked(text: str, place: str) -> str:
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
