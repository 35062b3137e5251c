"""The key by which nodes know their hub: made once, kept beside the store, readable by its owner only.

Servers that share a database share the key as well. It is never in the database: who steals that is no hub yet. They
derive it from the pepper of API keys, which all of them have, unless a file with a key is there.
"""

import hmac
from pathlib import Path
from typing import Final

from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.fleet.signing import SigningKey
from agent_fabric.infrastructure.private_files import NotPrivate, read_private, write_private

FILE: Final = "hub.key"


def hub_key(root: Path, *, pepper: bytes | None = None) -> SigningKey:
    """Return the hub's key of the folder's file; without one it is made, or derived from what servers share.

    Raises:
        ConfigError: it cannot be read or written, or others can read it.
    """
    path = root / FILE
    try:
        found = read_private(path)
        if found is None and pepper is not None:
            return SigningKey.of(hmac.digest(pepper, b"agent-fabric hub key", "sha256"))
        if found is None:
            root.mkdir(parents=True, exist_ok=True)
            write_private(path, SigningKey.new().seed.hex().encode(), replace=False)
            found = read_private(path)
        return SigningKey.of(bytes.fromhex((found or b"").decode().strip()))
    except (NotPrivate, ValueError) as problem:
        raise ConfigError(
            f"The hub's key cannot be used: {problem}",
            hint=f"Restore {path} from a backup, readable by you only; with a new key, all nodes have to join again.",
        ) from None
