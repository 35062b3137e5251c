"""The storage in PostgreSQL, as the product opens it."""

from pathlib import Path
from typing import Any

from agent_fabric.application.ports.clock import Clock
from agent_fabric.config.store_address import StoreAddress
from agent_fabric.infrastructure.clock import RandomIds
from agent_fabric.infrastructure.persistence.storage import open_storage


def open_tables(url: str, folder: Path, clock: Clock, *, pool: int = 4, **more: Any) -> Any:
    """Return a Storage; `store` is its database."""
    folder.mkdir(exist_ok=True)
    storage: Any = open_storage(
        folder,
        address=StoreAddress(url, pool),
        clock=clock,
        ids=RandomIds(),
        run_dir=lambda run_id: str(folder / "runs" / run_id),
        **more,
    )
    storage.store = storage._store
    return storage
