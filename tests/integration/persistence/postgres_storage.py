<<<<<<< HEAD
"""The storage in PostgreSQL, as the product opens it."""
=======
"""The table modules over PostgreSQL, as a Storage."""
>>>>>>> 881b5f2 (store: leases of runs in PostgreSQL, which belong to processes, and an epoch that fences off who was away)

from pathlib import Path
from typing import Any

from agent_fabric.application.ports.clock import Clock
from agent_fabric.config.store_address import StoreAddress
from agent_fabric.infrastructure.clock import RandomIds
from agent_fabric.infrastructure.persistence.storage import open_storage


<<<<<<< HEAD
def open_tables(url: str, folder: Path, clock: Clock, *, pool: int = 4) -> Any:
    """Return a Storage; `store` is its database."""
    folder.mkdir(exist_ok=True)
    storage: Any = open_storage(
        folder,
        address=StoreAddress(url, pool),
        clock=clock,
        ids=RandomIds(),
        run_dir=lambda run_id: str(folder / "runs" / run_id),
=======
def open_tables(url: str, folder: Path, clock: Clock, *, pool: int = 4, **more: Any) -> Any:
    """Return everything of a Storage that is kept in tables; `store` is the database."""
    chain = ChainWriter()
    store = postgres_store()(url, chain=chain, pool=pool, **more)
    catalogue = SqlRunCatalogue(store)
    return SimpleNamespace(
        store=store,
        runs=SqlRunRepository(store, clock, (), chain),
        reader=SqlRunReader(store),
        catalogue=catalogue,
        queue=SqlRunQueue(store, clock),
        leases=ProcessLeases(RunLocks(folder / "locks")),
        agent_locks=FileLocks(RunLocks(folder / "agent-locks")),
        vectors=SqlRunVectors(store, catalogue),
        approvals=SqlApprovalRepository(store, clock),
        users=SqlUserRepository(store, chain),
        ended_logins=SqlEndedLogins(store, clock),
        api_keys=SqlApiKeyRepository(store, chain),
        idempotency=SqlIdempotencyStore(store, clock, RandomIds()),
        deliveries=SqlDeliveryStore(store, clock),
        evals=SqlEvalRepository(store, clock),
        trials=SqlTrialOutcomes(store, clock),
        acts=SqlActLog(store, chain),
        chain=SqlAuditChain(store, chain),
        logs=SqlLogInspector(store),
        retention=SqlRetentionStore(store, lambda run_id: str(folder / "runs" / run_id), clock, chain),
        counters=lambda: SqlCounters(store, clock),
        close=store.close,
>>>>>>> 881b5f2 (store: leases of runs in PostgreSQL, which belong to processes, and an epoch that fences off who was away)
    )
    storage.store = storage._store
    return storage
