"""The key by which nodes know their hub: made once, kept beside the store, readable by its owner only."""

from pathlib import Path
from typing import Final

from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.fleet.signing import SigningKey
from agent_fabric.infrastructure.private_files import NotPrivate, read_private, write_private

FILE: Final = "hub.key"


def hub_key(root: Path) -> SigningKey:
    """Return the hub's key; it is made if there is none.

    Raises:
        ConfigError: it cannot be read or written, or others can read it.
    """
    path = root / FILE
    try:
        found = read_private(path)
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
