"""Secrets in a file of our own, each one sealed. Names and dates are in clear, so that listing them needs no key."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.secrets import StoredSecret, require_usable
from agent_fabric.domain.errors import ConfigError, StoreUnavailable
from agent_fabric.infrastructure.private_files import PrivateFile
from agent_fabric.infrastructure.secrets.keyring import Keyring

MAX_SECRETS: Final = 1_000
"""Secrets in one file."""

_FORMAT: Final = 1


class EncryptedFile:
    """SecretSource over one sealed file, which several processes read and change."""

    def __init__(self, path: Path, keyring: Callable[[], Keyring], clock: Clock) -> None:
        """Take where the file is, and what gives the keys: they are not looked for before one is needed."""
        self._file = PrivateFile(path)
        self._keyring = keyring
        self._clock = clock

    @property
    def path(self) -> Path:
        """Where it is."""
        return self._file.path

    async def get(self, name: str) -> str | None:
        if self._file.stamp() is None and not self.path.is_symlink():
            return None  # as with most: a thread would cost more than the look
        return await asyncio.to_thread(self.value, name)

    def how_to_set(self, name: str) -> str:
        return f"Keep it with: fabric secrets set {name}"

    def value(self, name: str) -> str | None:
        """Return a secret; None if there is no such one.

        Raises:
            FabricError: the file or the keys cannot be used.
        """
        entry = self._read().get(name)
        if entry is None:
            return None
        found = json.loads(self._keyring().unseal(entry["sealed"].encode()))
        # Sealed together: a writer of the file must not pass one secret off as another.
        if found.get("name") != name or not isinstance(found.get("value"), str):
            raise self._damage(f"what is kept as {name!r} is something else")
        value: str = found["value"]
        return value

    def list_secrets(self) -> list[StoredSecret]:
        """Return what is there, by name.

        Raises:
            StoreUnavailable: the file cannot be used.
        """
        return [
            StoredSecret(name, entry["created_at"], entry["updated_at"]) for name, entry in sorted(self._read().items())
        ]

    def set(self, name: str, value: str) -> bool:
        """Keep a secret; tell whether it is a new one.

        Raises:
            ConfigError: the name or the value cannot be used.
            FabricError: the file or the keys cannot be used; what was there is still there.
        """
        require_usable(name, value)
        sealed = self._keyring().seal(json.dumps({"name": name, "value": value}).encode()).decode()
        with self._file.hold():
            entries = self._read()
            before = entries.get(name)
            if before is None and len(entries) >= MAX_SECRETS:
                raise ConfigError(
                    f"there are {MAX_SECRETS} secrets already", hint="Remove one with: fabric secrets remove NAME"
                )
            now = self._clock.now()
            created = now if before is None else before["created_at"]
            entries[name] = {"sealed": sealed, "created_at": created, "updated_at": now}
            self._write(entries)
        return before is None

    def remove(self, name: str) -> bool:
        """Forget a secret; tell whether there was one.

        Raises:
            StoreUnavailable: the file cannot be used.
        """
        if self._file.read() is None:
            return False
        with self._file.hold():
            entries = self._read()
            if entries.pop(name, None) is None:
                return False
            self._write(entries)
        return True

    def reseal(self) -> int:
        """Seal everything with the newest key; return how many secrets had an older one.

        Raises:
            FabricError: a secret cannot be opened, or the file not be written; nothing was changed.
        """
        if self._file.read() is None:
            return 0
        keyring = self._keyring()
        with self._file.hold():
            entries = self._read()
            changed = 0
            for entry in entries.values():
                before = entry["sealed"].encode()
                after = keyring.reseal(before)
                if after != before:
                    entry["sealed"] = after.decode()
                    changed += 1
            if changed:
                self._write(entries)
        return changed

    def list_sealed(self) -> list[bytes]:
        """Return every secret as it is stored.

        Raises:
            StoreUnavailable: the file cannot be used.
        """
        return [entry["sealed"].encode() for entry in self._read().values()]

    def _read(self) -> dict[str, dict[str, Any]]:
        data = self._file.read()
        if data is None:
            return {}
        try:
            found = json.loads(data)
            if found["format"] != _FORMAT:
                raise self._damage(f"it has the format {found['format']!r}; a newer agent-fabric may have written it")
            return {str(name): _entry(entry) for name, entry in found["secrets"].items()}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise self._damage("it is not what we wrote") from None

    def _write(self, entries: dict[str, dict[str, Any]]) -> None:
        self._file.replace(json.dumps({"format": _FORMAT, "secrets": entries}, indent=1, sort_keys=True).encode())

    def _damage(self, reason: str) -> StoreUnavailable:
        return StoreUnavailable(
            f"the secrets in {self.path} cannot be read: {reason}",
            hint="Restore the file from a backup; or move it away and set the secrets again.",
        )


def _entry(entry: Any) -> dict[str, Any]:
    if not isinstance(entry["sealed"], str):
        raise TypeError
    return {
        "sealed": entry["sealed"],
        "created_at": float(entry["created_at"]),
        "updated_at": float(entry["updated_at"]),
    }
