"""Opens the store of a fabric folder without its runs: for backups, and to look at it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent_fabric.application.ports.storage import Storage
from agent_fabric.bootstrap.store_place import store_address
from agent_fabric.infrastructure.audit.audit_head_file import audit_head_file
from agent_fabric.infrastructure.audit.audit_key_file import audit_key
from agent_fabric.infrastructure.clock import RandomIds, SystemClock
from agent_fabric.infrastructure.persistence.storage import open_storage
from agent_fabric.infrastructure.runs.log.layout import Layout


@contextmanager
def opened_store(root: Path) -> Iterator[Storage]:
    """Give the store. Nothing is opened before something is read or written."""
    layout = Layout(root.absolute())
    key = audit_key(os.environ)
    storage = open_storage(
        layout.root,
        address=store_address(layout.root),
        clock=SystemClock(),
        ids=RandomIds(),
        run_dir=layout.run_dir,
        audit_key=key,
        audit_heads=audit_head_file(layout.root, key, os.environ),
    )
    try:
        yield storage
    finally:
        storage.close()
