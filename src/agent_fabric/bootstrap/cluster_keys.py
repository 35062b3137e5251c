"""Refuses a process whose keys are not those of the other processes of a database.

Such a process would seal what nobody else can read, sign tokens that nobody else accepts, and break the audit chain. In
a folder of its own a user may change keys; a database is shared.
"""

import asyncio
import hmac
import os
from collections.abc import Awaitable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.application.ports.storage import Storage
from agent_fabric.bootstrap.secrets import ENCRYPTION, open_secrets
from agent_fabric.bootstrap.store import opened_store
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.audit.audit_key_file import audit_key
from agent_fabric.infrastructure.identity.own_secrets import jwt_secret, key_pepper, long_enough
from agent_fabric.infrastructure.secrets.keyring import Keyring, open_keyring

T = TypeVar("T")

AUDIT: Final = "audit"
HUB: Final = "hub"
JWT: Final = "jwt"
PEPPER: Final = "pepper"
_WHERE: Final = {
    AUDIT: "audit.key in ~/.local/share/agent-fabric, or AUDIT_KEY",
    ENCRYPTION: "ENCRYPTION_KEY, or encryption.keys in ~/.local/share/agent-fabric",
    HUB: "hub.key in the fabric folder of the server that has it; or remove it there if no machine has joined",
    JWT: "JWT_SECRET, or what `identity.jwt_secret` refers to",
    PEPPER: "API_KEY_PEPPER, or identity.key in ~/.local/share/agent-fabric",
}
"""Where each key comes from."""
_WORDS: Final = {
    AUDIT: "the key of the audit chain",
    ENCRYPTION: "the encryption key",
    HUB: "the key by which machines know their hub",
    JWT: "the key that signs tokens",
    PEPPER: "the pepper of API keys",
}


def fingerprint(name: str, key: bytes) -> str:
    """Return what tells one key from another, and tells nothing about it. Keys are long and random."""
    return hmac.digest(key, f"agent-fabric fingerprint of {name}".encode(), "sha256").hex()[:16]


def require_driver_keys(storage: Storage, root: Path) -> None:
    """Check the keys that every process needs that drives runs.

    Raises:
        ConfigError: one is not the cluster's.
    """
    keyring = open_keyring(os.environ, root)
    require_cluster_keys(storage, {AUDIT: audit_key(os.environ).name, ENCRYPTION: keyring.generation}, keyring)


def require_identity_keys(storage: Storage, pepper: bytes) -> None:
    """Check the keys that every process needs that recognises API keys or records acts.

    Raises:
        ConfigError: one is not the cluster's.
    """
    require_cluster_keys(storage, {AUDIT: audit_key(os.environ).name, PEPPER: fingerprint(PEPPER, pepper)})


def require_token_key(storage: Storage, secret: bytes) -> None:
    """Check the key that signs tokens.

    Raises:
        ConfigError: it is not the cluster's.
    """
    require_cluster_keys(storage, {JWT: fingerprint(JWT, secret)})


def require_hub_key(storage: Storage, seed: bytes) -> None:
    """Check the key by which machines know their hub, whichever server they are connected to.

    Raises:
        ConfigError: it is not the cluster's.
    """
    require_cluster_keys(storage, {HUB: fingerprint(HUB, seed)})


def require_cluster_keys(storage: Storage, own: Mapping[str, str], keyring: Keyring | None = None) -> None:
    """Compare keys of this process with those of the cluster; the first process decides which these are.

    An older key of the keyring will do as well: after a rotation, processes follow one by one.

    Raises:
        ConfigError: one is another.
        StoreUnavailable: the database cannot be used.
    """
    known = _wait_for(storage.fingerprints.add(own))
    differing = [name for name, value in own.items() if known[name] != value]
    if ENCRYPTION in differing and keyring is not None and known[ENCRYPTION] in keyring.generations():
        differing.remove(ENCRYPTION)
    if differing:
        named = " and ".join(_WORDS[name] for name in differing)
        verb = "is not that" if len(differing) == 1 else "are not those"
        raise ConfigError(
            f"{named[:1].upper()}{named[1:]} {verb} of the other processes that use this database",
            hint=f"Take over what they use: {'; '.join(_WHERE[name] for name in differing)}. "
            "If the change is meant for all of them: fabric db keys --accept",
        )


class KeyState(NamedTuple):
    """A key of this process, beside the cluster's."""

    name: str
    words: str
    own: str
    """Fingerprint of the key here."""
    known: str
    """That of the cluster; empty if no process has told it yet."""


def key_states(root: Path, config: FabricConfig, *, accept: bool = False) -> list[KeyState]:
    """Compare all keys of this process with those of the cluster; `accept` lets those here count from now on.

    Raises:
        FabricError: a key cannot be had, or the store not be used.
    """
    from agent_fabric.infrastructure.fleet.hub_key import hub_key  # noqa: PLC0415 - it loads ciphers

    resolve = open_secrets(config.secrets, root, os.environ).chain.resolve
    own = {
        AUDIT: audit_key(os.environ).name,
        ENCRYPTION: open_keyring(os.environ, root).generation,
        JWT: fingerprint(JWT, _token_key(root, config, resolve)),
        HUB: fingerprint(HUB, hub_key(root, pepper=key_pepper(root, os.environ)).seed),
        PEPPER: fingerprint(PEPPER, key_pepper(root, os.environ)),
    }
    with opened_store(root) as storage:
        if accept:
            _wait_for(storage.fingerprints.replace(own))
        known = _wait_for(storage.fingerprints.read())
    return [KeyState(name, _WORDS[name], value, known.get(name, "")) for name, value in own.items()]


def _token_key(root: Path, config: FabricConfig, resolve: Resolve) -> bytes:
    named = config.identity.jwt_secret
    if named is None:
        return jwt_secret(root, os.environ, shared=bool(config.store.url))
    return long_enough(_wait_for(resolve(named)), named)


def _wait_for(work: Awaitable[T]) -> T:
    async def waited() -> T:
        return await work

    with ThreadPoolExecutor(1) as thread:  # the event loop, if there is one here, is not waited for
        return thread.submit(asyncio.run, waited()).result()
