"""The secrets of a fabric folder, all places for them as one. Nothing is opened before a secret is asked for.

Names go through the places in order, references say where.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Final

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.secrets import SecretSource, StoredSecret, require_usable
from agent_fabric.config.schema.secrets import SecretsConfig
from agent_fabric.config.secret_references import SecretReference, reference_in
from agent_fabric.config.variable_names import OURS
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError, FabricError, StoreUnavailable
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.private_files import PrivateFile
from agent_fabric.infrastructure.secrets.keyring import Keyring, open_keyring
from agent_fabric.infrastructure.secrets.vault import VaultSecrets

MAX_SECRETS: Final = 1_000
"""Secrets in one file."""

_FORMAT: Final = 1


class EncryptedFile:
    """SecretSource over one file of ours, which several processes read and change; each secret is sealed.

    Names and dates are in clear, so that listing them needs no key.
    """

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


Learn = Callable[[Mapping[str, str]], None]
"""Is told names and values of secrets that were looked up, so that they can be kept out of logs."""


class SecretChain:
    """SecretSource over several; the first that knows a name gives the value. And the one resolver of references."""

    def __init__(self, sources: Mapping[str, SecretSource], order: Sequence[str], learn: Learn) -> None:
        """Take sources by their name in references, and the order in which those are asked that only have a name."""
        self._sources = sources
        self._order = tuple(order)
        self._learn = learn

    async def get(self, name: str) -> str | None:
        for source in self._ask():
            value = await source.get(name)
            if value:
                self._learn({name: value})
                return value
        return None

    def how_to_set(self, name: str) -> str:
        ways = [source.how_to_set(name) for source in self._ask()]
        return " Or: ".join(ways) or "No source of secrets is configured: see `secrets.sources`."

    async def resolve(self, reference: str) -> str:
        """Return what a reference such as `file:NAME` stands for, without blanks around it.

        Raises:
            ConfigError: there is no such secret, or it cannot be had.
        """
        found = reference_in(reference)
        source = None if found is None else self._sources.get(found.source)
        if found is None or source is None:
            raise _no_such_source(reference, found)
        try:
            value = (await source.get(found.name) or "").strip()
        except FabricError as problem:
            raise ConfigError(f"{reference} cannot be read: {problem.message}", hint=problem.hint) from None
        if not value:
            raise ConfigError(f"{reference} is not set", hint=source.how_to_set(found.name))
        self._learn({found.name: value})
        return value

    def _ask(self) -> list[SecretSource]:
        return [self._sources[name] for name in self._order if name in self._sources]


class AllowedSecrets:
    """SecretSource that gives only what a person allowed: for workflows, which anyone may have written."""

    def __init__(self, inner: SecretSource, allow: Sequence[str], never: frozenset[str]) -> None:
        """Take patterns of names, and the names that are for no one."""
        self._inner = inner
        self._allow = tuple(allow)
        self._never = never

    async def get(self, name: str) -> str | None:
        return await self._inner.get(name) if self._is_allowed(name) else None

    def how_to_set(self, name: str) -> str:
        if name in self._never:
            return "It opens agent-fabric itself, so it is for no workflow."
        if not self._is_allowed(name):
            return f"By `secrets.allow`, workflows may not use it. A person can add {name!r} there."
        return self._inner.how_to_set(name)

    def _is_allowed(self, name: str) -> bool:
        return name not in self._never and any(fnmatchcase(name, pattern) for pattern in self._allow)


def _no_such_source(reference: str, found: SecretReference | None) -> ConfigError:
    if found is not None and found.source == "vault":
        return ConfigError(f"{reference} is in a vault, but none is configured", hint="Set `secrets.vault.url`.")
    return ConfigError(
        f"{reference[:100]!r} refers to no secret", hint="Write env:NAME, file:NAME or vault:path#field."
    )


class EnvironmentSecrets:
    """SecretSource over the environment: a secret is the variable of its name."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    async def get(self, name: str) -> str | None:
        return self._environ.get(name) or None

    def how_to_set(self, name: str) -> str:
        return f"Set the environment variable {name} where fabric is started, and run the step again."


FILE_NAME = "secrets.sealed"
"""In the fabric folder. Not `.json`: such files are configuration there, which a person has to trust anew after each
change."""


@dataclass(frozen=True, slots=True)
class Secrets:
    """All secrets of a fabric folder."""

    chain: SecretChain
    """Finds them; what it has found is kept out of logs."""
    for_workflows: SecretSource
    """Those of them that workflows may use."""
    file: EncryptedFile
    """What `fabric secrets set` keeps."""
    keyring: Callable[[], Keyring]
    """What seals that file, and runs."""


def open_secrets(
    config: SecretsConfig,
    root: Path,
    environ: Mapping[str, str],
    *,
    learn: Callable[[Mapping[str, str]], None],
    never: Iterable[str] = (),
) -> Secrets:
    """Return the secrets of a fabric folder; `learn` hears of those that are used, `never` are for no workflow."""

    @cache
    def keyring() -> Keyring:
        return open_keyring(environ, root)

    file = stored_secrets(root, keyring)
    sources: dict[str, SecretSource] = {"env": EnvironmentSecrets(environ), "file": file}
    chain = SecretChain(sources, config.sources, learn)
    own = set(OURS).union(never)
    if config.vault is not None:
        sources["vault"] = VaultSecrets(config.vault, chain.resolve, SystemClock())
        token = reference_in(config.vault.token)
        own.update(() if token is None else (token.name,))
    return Secrets(chain, AllowedSecrets(chain, config.allow, frozenset(own)), file, keyring)


def stored_secrets(root: Path, keyring: Callable[[], Keyring]) -> EncryptedFile:
    """Return the secrets that a fabric folder keeps itself."""
    return EncryptedFile(root.absolute() / FILE_NAME, keyring, SystemClock())
