"""Joins what looks after a database server: tables, checks, and moving a fabric folder into it."""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from agent_fabric.application.observability.check_database import ABOUT, check_database
from agent_fabric.application.observability.check_health import HealthFinding, Level
from agent_fabric.application.ports.database import CopiedStore, DatabaseUpkeep, Tell
from agent_fabric.bootstrap.store import opened_store
from agent_fabric.bootstrap.store_place import store_address
from agent_fabric.config.store_address import StoreAddress
from agent_fabric.domain.audit.acts import Act, Deed
from agent_fabric.domain.errors import ConfigError, FabricError
from agent_fabric.domain.identity.principals import Principal
from agent_fabric.infrastructure.audit.audit_key_file import audit_key
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.persistence.storage import open_upkeep
from agent_fabric.infrastructure.secrets.keyring import open_keyring


def database_of(root: Path) -> DatabaseUpkeep | None:
    """Return what looks after the database of a fabric folder; None if its store is a file in it.

    Raises:
        ConfigProblem, ConfigError: see `store_address`.
        MissingExtra: the driver is not installed.
    """
    address = store_address(root)
    return _upkeep(address, root) if address.is_remote else None


def copy_store(source: Path, root: Path, *, by: Principal, damaged: bool, tell: Tell) -> CopiedStore:
    """Copy the store of a folder into the database of another, or of the same one. It goes into the audit chain.

    Raises:
        ConfigError: no database is configured.
        FabricError: see `DatabaseUpkeep.copy_from`.
    """
    database = database_of(root)
    if database is None:
        raise ConfigError(
            "No database is configured that the folder could be copied into",
            hint="Set `store.url`, for example: export FABRIC_STORE__URL=postgresql://fabric@localhost/fabric",
        )
    done = database.copy_from(source.absolute(), damaged=damaged, tell=tell)
    detail = f"{done.runs} runs and {done.events} events into {database.place}"
    act = Act.of(by, Deed.STORE_COPIED, at=SystemClock().now(), about=str(source.absolute()), detail=detail)
    with opened_store(root) as storage, ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, storage.acts.record(act)).result()
    return done


def store_findings(root: Path, address: StoreAddress) -> list[HealthFinding]:
    """Tell whether the database can hold runs; nothing about a file in the folder."""
    if not address.is_remote:
        return []
    try:
        return check_database(_upkeep(address, root).examine(), pool=address.pool)
    except FabricError as problem:
        return [HealthFinding(about=ABOUT, level=Level.FAIL, text=problem.message, fix=problem.hint)]


def _upkeep(address: StoreAddress, root: Path) -> DatabaseUpkeep:
    return open_upkeep(
        address, audit_key=audit_key(os.environ), open_keyring=lambda: open_keyring(os.environ, root.absolute())
    )
