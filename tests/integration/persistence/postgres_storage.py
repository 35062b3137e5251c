"""The table modules over PostgreSQL, as a Storage. Leases are those of one machine: the cluster's own come later."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from agent_fabric.application.ports.clock import Clock
from agent_fabric.infrastructure.clock import RandomIds
from agent_fabric.infrastructure.persistence.act_log import SqlActLog
from agent_fabric.infrastructure.persistence.api_keys import SqlApiKeyRepository
from agent_fabric.infrastructure.persistence.approvals import SqlApprovalRepository
from agent_fabric.infrastructure.persistence.audit_chain import SqlAuditChain
from agent_fabric.infrastructure.persistence.chain_writer import ChainWriter
from agent_fabric.infrastructure.persistence.deliveries import SqlDeliveryStore
from agent_fabric.infrastructure.persistence.ended_logins import SqlEndedLogins
from agent_fabric.infrastructure.persistence.eval_trials import SqlTrialOutcomes
from agent_fabric.infrastructure.persistence.evals import SqlEvalRepository
from agent_fabric.infrastructure.persistence.event_store import SqlRunRepository
from agent_fabric.infrastructure.persistence.idempotency import SqlIdempotencyStore
from agent_fabric.infrastructure.persistence.log_inspector import SqlLogInspector
from agent_fabric.infrastructure.persistence.open_postgres import postgres_store
from agent_fabric.infrastructure.persistence.rate_limits import SqlCounters
from agent_fabric.infrastructure.persistence.retention import SqlRetentionStore
from agent_fabric.infrastructure.persistence.run_catalogue import SqlRunCatalogue
from agent_fabric.infrastructure.persistence.run_leases import FileLocks, ProcessLeases
from agent_fabric.infrastructure.persistence.run_locks import RunLocks
from agent_fabric.infrastructure.persistence.run_queue import SqlRunQueue
from agent_fabric.infrastructure.persistence.run_reader import SqlRunReader
from agent_fabric.infrastructure.persistence.run_vectors import SqlRunVectors
from agent_fabric.infrastructure.persistence.users import SqlUserRepository


def open_tables(url: str, folder: Path, clock: Clock, *, pool: int = 4) -> Any:
    """Return everything of a Storage that is kept in tables; `store` is the database."""
    locks, chain = RunLocks(folder / "locks"), ChainWriter()
    store = postgres_store()(url, locks, chain=chain, pool=pool)
    catalogue = SqlRunCatalogue(store)
    return SimpleNamespace(
        store=store,
        runs=SqlRunRepository(store, clock, (), chain),
        reader=SqlRunReader(store),
        catalogue=catalogue,
        queue=SqlRunQueue(store, clock),
        leases=ProcessLeases(locks),
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
    )
