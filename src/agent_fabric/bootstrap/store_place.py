"""Tells where the store of a fabric folder is: in it, or in a PostgreSQL database. Nothing is opened."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agent_fabric.config.store_address import StoreAddress, find_store_address, resolve_url
from agent_fabric.infrastructure.audit.audit_key_file import audit_key
from agent_fabric.infrastructure.runs.log.folder_trust import require_ours

if TYPE_CHECKING:  # pydantic takes its time
    from agent_fabric.config.schema.store import StoreConfig


def has_store(root: Path) -> bool:
    """Tell whether a fabric folder has a store already; a database of its own counts, whatever is in it.

    Raises:
        ConfigProblem, ConfigError: see `store_address`.
    """
    return (root / "fabric.db").exists() or store_address(root).is_remote


def store_address(root: Path) -> StoreAddress:
    """Return where the store of a fabric folder is. The configuration is loaded only if there is no other way.

    Raises:
        ConfigProblem: the setting is wrong.
        ConfigError: it stands in a folder that was made elsewhere and is not trusted: it could name anybody's server.
    """
    found = find_store_address(os.environ, root)
    if found is None:
        from agent_fabric.config.loader import load_config  # noqa: PLC0415 - see above

        require_ours(root, audit_key(os.environ))
        return configured_address(load_config(fabric_folder=root).config.store, os.environ)
    if found.from_folder and found.is_remote:
        require_ours(root, audit_key(os.environ))
    return found


def configured_address(store: "StoreConfig", environ: Mapping[str, str]) -> StoreAddress:
    """Return where the store is, of a configuration that was loaded.

    Raises:
        ConfigProblem: it refers to a variable that is not set.
    """
    return StoreAddress(resolve_url(store.url, environ), store.pool)
