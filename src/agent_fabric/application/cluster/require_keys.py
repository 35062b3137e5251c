"""Refuses a process whose keys are not those of the other processes of a database.

Such a process would seal what no other process can read, sign tokens that none accepts, and break the audit chain. In
a folder of its own a user may change keys; a database is shared.
"""

import hmac
from collections.abc import Container, Mapping
from typing import Final, NamedTuple

from agent_fabric.application.ports.key_fingerprints import ENCRYPTION, KeyFingerprints
from agent_fabric.domain.errors import ConfigError

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


class KeyState(NamedTuple):
    """A key of this process, beside the cluster's."""

    name: str
    words: str
    own: str
    """Fingerprint of the key here."""
    known: str
    """That of the cluster; empty if no process has told it yet."""


def fingerprint(name: str, key: bytes) -> str:
    """Return what tells one key from another, and tells nothing about it. Keys are long and random."""
    return hmac.digest(key, f"agent-fabric fingerprint of {name}".encode(), "sha256").hex()[:16]


async def require_keys(cluster: KeyFingerprints, own: Mapping[str, str], older: Container[str] = ()) -> None:
    """Compare keys of this process with those of the cluster; the first process decides which these are.

    An `older` encryption key will do as well: after a rotation, processes follow one by one.

    Raises:
        ConfigError: one is another.
        StoreUnavailable: the database cannot be used.
    """
    known = await cluster.add(own)
    differing = [name for name, value in own.items() if known[name] != value]
    if ENCRYPTION in differing and known[ENCRYPTION] in older:
        differing.remove(ENCRYPTION)
    if differing:
        named = " and ".join(_WORDS[name] for name in differing)
        verb = "is not that" if len(differing) == 1 else "are not those"
        raise ConfigError(
            f"{named[:1].upper()}{named[1:]} {verb} of the other processes that use this database",
            hint=f"Take over what they use: {'; '.join(_WHERE[name] for name in differing)}. "
            "If the change is meant for all of them: fabric db keys --accept",
        )


async def compare_keys(cluster: KeyFingerprints, own: Mapping[str, str], *, accept: bool = False) -> list[KeyState]:
    """Compare keys of this process with those of the cluster; `accept` lets those here count from now on."""
    if accept:
        await cluster.replace(own)
    known = await cluster.read()
    return [KeyState(name, _WORDS[name], value, known.get(name, "")) for name, value in own.items()]
