"""Joins the places where secrets are kept. Nothing is opened before somebody asks for a secret."""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from agent_fabric.application.ports.secrets import SecretSource
from agent_fabric.application.ports.storage import Storage
from agent_fabric.config.schema.secrets import SecretsConfig
from agent_fabric.config.secret_references import reference_in
from agent_fabric.config.variable_names import OURS
from agent_fabric.domain.audit.acts import Act, Deed
from agent_fabric.domain.identity.principals import Principal
from agent_fabric.domain.secrets.references import KnownSecrets
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.secrets.chain import AllowedSecrets, EnvironmentSecrets, SecretChain
from agent_fabric.infrastructure.secrets.encrypted_file import EncryptedFile
from agent_fabric.infrastructure.secrets.keyring import Keyring, open_keyring
from agent_fabric.infrastructure.secrets.vault import VaultSecrets

ENCRYPTION = "encryption"
"""The key's name where a database knows which keys its processes share."""
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
    known: KnownSecrets | None = None,
    never: Iterable[str] = (),
) -> Secrets:
    """Return the secrets of a fabric folder; `known` learns those that are used, `never` are for no workflow."""

    @cache
    def keyring() -> Keyring:
        return open_keyring(environ, root)

    file = stored_secrets(root, keyring)
    sources: dict[str, SecretSource] = {"env": EnvironmentSecrets(environ), "file": file}
    chain = SecretChain(sources, config.sources, _keeping_out_of_logs(known))
    own = set(OURS).union(never)
    if config.vault is not None:
        sources["vault"] = VaultSecrets(config.vault, chain.resolve, SystemClock())
        token = reference_in(config.vault.token)
        own.update(() if token is None else (token.name,))
    return Secrets(chain, AllowedSecrets(chain, config.allow, frozenset(own)), file, keyring)


class Rotation(NamedTuple):
    """What a rotation did."""

    generation: str
    """Short name of the key that everything is sealed with now."""
    new_key: bool
    """Whether it was made just now."""
    secrets: int
    """How many secrets were sealed anew."""
    runs: int
    """How many runs' keys were sealed anew."""


async def rotate(secrets: Secrets, storage: Storage, *, by: Principal) -> Rotation:
    """Make a new key, unless keys are given from outside, and seal everything in a fabric folder with the newest.

    It can be stopped at any time and begun again: old keys stay, and open what is not done yet. That `by` did it goes
    into the audit chain.

    Raises:
        FabricError: something cannot be opened, or not be written.
    """
    done = await _sealed_anew(secrets, storage, new_key=True)
    await _record(storage, by, Deed.SECRETS_ROTATED, done)
    return done


async def drop_old_keys(secrets: Secrets, storage: Storage, *, by: Principal) -> Rotation:
    """Seal everything in a fabric folder with the newest key, and forget all others. It goes into the audit chain.

    Raises:
        ConfigError: keys are given from outside, or were changed only just now.
        FabricError: something cannot be opened: the old keys stay.
    """
    done = await _sealed_anew(secrets, storage, new_key=False)
    await asyncio.to_thread(secrets.keyring().drop_old)
    await _record(storage, by, Deed.OLD_KEYS_DROPPED, done)
    return done


async def _sealed_anew(secrets: Secrets, storage: Storage, *, new_key: bool) -> Rotation:
    keyring = secrets.keyring()
    made = new_key and keyring.makes_keys
    if made:
        await asyncio.to_thread(keyring.rotate)
    resealed = await asyncio.to_thread(secrets.file.reseal)
    runs = await storage.encryption.reseal(keyring)
    await asyncio.to_thread(keyring.note_resealed)
    if ENCRYPTION in await storage.fingerprints.read():
        await storage.fingerprints.replace({ENCRYPTION: keyring.generation})
    return Rotation(keyring.generation, made, resealed, runs)


async def _record(storage: Storage, by: Principal, deed: Deed, done: Rotation) -> None:
    detail = f"{done.secrets} secrets and {done.runs} runs sealed again" + ("; a new key" if done.new_key else "")
    act = Act.of(by, deed, at=SystemClock().now(), about=f"key {done.generation}", detail=detail)
    await storage.acts.record(act)


def own_values(environ: Mapping[str, str]) -> frozenset[str]:
    """Return the values in the environment that open agent-fabric itself, to be kept out of logs."""
    return frozenset(value for name in OURS for value in re.split(r"[\s,]+", environ.get(name, "")) if value)


def stored_secrets(root: Path, keyring: Callable[[], Keyring]) -> EncryptedFile:
    """Return the secrets that a fabric folder keeps itself."""
    return EncryptedFile(root.absolute() / FILE_NAME, keyring, SystemClock())


def _keeping_out_of_logs(known: KnownSecrets | None) -> Callable[[Mapping[str, str]], None]:
    def learn(values: Mapping[str, str]) -> None:
        # Only who uses secrets needs it, and then the log may not even be open.
        from agent_fabric.infrastructure.observability.operations_log import keep_out  # noqa: PLC0415

        keep_out(values.values())
        if known is not None:
            known.learn(values)

    return learn
