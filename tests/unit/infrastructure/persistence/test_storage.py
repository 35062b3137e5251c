"""Each part of the store is what its port says; PostgreSQL is an extra."""

import sys
from typing import get_type_hints

import pytest

from agent_fabric.application.ports.approvals import ApprovalRepository
from agent_fabric.application.ports.audit import ActLog, AuditChain, LogInspector, RetentionStore
from agent_fabric.application.ports.backup import StoreCopies
from agent_fabric.application.ports.bus import Outbox
from agent_fabric.application.ports.chat import MessageQueue, SessionMessages, SessionRepository
from agent_fabric.application.ports.cluster import Cluster
from agent_fabric.application.ports.embeddings import RunVectors
from agent_fabric.application.ports.encryption import RunEncryption
from agent_fabric.application.ports.evals import EvalRepository, TrialOutcomes
from agent_fabric.application.ports.events import LogMirrors
from agent_fabric.application.ports.fleet import (
    CallRelay,
    CommandRepository,
    InviteRepository,
    NodePresence,
    NodeRepository,
    NodeWork,
    PlanRepository,
)
from agent_fabric.application.ports.idempotency import IdempotencyStore
from agent_fabric.application.ports.identity import ApiKeyRepository, EndedLogins, UserRepository
from agent_fabric.application.ports.key_fingerprints import KeyFingerprints
from agent_fabric.application.ports.leases import NamedLocks, RunLeases
from agent_fabric.application.ports.limits import Counters
from agent_fabric.application.ports.pending_work import PendingWork
from agent_fabric.application.ports.responses import ResponseIndex
from agent_fabric.application.ports.runs import RunCatalogue, RunListing, RunQueue, RunReader, RunRepository
from agent_fabric.application.ports.storage import Storage
from agent_fabric.application.ports.vitals import StoreGauge
from agent_fabric.application.ports.webhooks import DeliveryStore
from agent_fabric.config.store_address import StoreAddress
from agent_fabric.domain.errors import MissingExtra
from agent_fabric.infrastructure.persistence.approvals.questions import SqlApprovalRepository
from agent_fabric.infrastructure.persistence.audit.audit_chain import SqlAuditChain
from agent_fabric.infrastructure.persistence.audit.chain_writer import SqlActLog
from agent_fabric.infrastructure.persistence.automation.outbox import SqlDeliveryStore, SqlOutbox
from agent_fabric.infrastructure.persistence.chat.queue import SqlMessageQueue
from agent_fabric.infrastructure.persistence.chat.sessions import SqlSessionMessages, SqlSessionRepository
from agent_fabric.infrastructure.persistence.evals.evaluations import SqlEvalRepository, SqlTrialOutcomes
from agent_fabric.infrastructure.persistence.fleet.fleet_plans import SqlPlanRepository
from agent_fabric.infrastructure.persistence.fleet.node_commands import SqlCallRelay, SqlCommandRepository, SqlNodeWork
from agent_fabric.infrastructure.persistence.fleet.nodes import SqlInviteRepository, SqlNodePresence, SqlNodeRepository
from agent_fabric.infrastructure.persistence.identity.accounts import (
    SqlApiKeyRepository,
    SqlEndedLogins,
    SqlUserRepository,
)
from agent_fabric.infrastructure.persistence.identity.key_fingerprints import SqlKeyFingerprints
from agent_fabric.infrastructure.persistence.identity.rate_limits import SqlCounters
from agent_fabric.infrastructure.persistence.observability.snapshot import SqliteCopies
from agent_fabric.infrastructure.persistence.observability.store_gauge import SqliteStoreGauge
from agent_fabric.infrastructure.persistence.postgres.parts import (
    PostgresCluster,
    PostgresCopies,
    PostgresGauge,
    PostgresLocks,
    PostgresServerRole,
)
from agent_fabric.infrastructure.persistence.runs.event_store import SqlRunRepository
from agent_fabric.infrastructure.persistence.runs.idempotency import SqlIdempotencyStore, SqlResponses
from agent_fabric.infrastructure.persistence.runs.log_inspector import SqlLogInspector
from agent_fabric.infrastructure.persistence.runs.retention import SqlRetentionStore
from agent_fabric.infrastructure.persistence.runs.run_catalogue import SqlRunCatalogue
from agent_fabric.infrastructure.persistence.runs.run_leases import FileLocks, ProcessLeases
from agent_fabric.infrastructure.persistence.runs.run_queue import SqlPendingWork, SqlRunQueue
from agent_fabric.infrastructure.persistence.runs.run_reader import SqlRunReader
from agent_fabric.infrastructure.persistence.runs.run_vectors import SqlRunVectors
from agent_fabric.infrastructure.persistence.storage import _SqlRunEncryption, open_upkeep
from memory_storage import MemoryStorage


class Adapters:
    """mypy compares each adapter with its port; the names are those of the parts."""

    runs: type[RunRepository] = SqlRunRepository
    mirrors: type[LogMirrors] = SqlRunRepository
    reader: type[RunReader] = SqlRunReader
    catalogue: type[RunListing] = SqlRunCatalogue
    open_catalogue: type[RunCatalogue] = SqlRunCatalogue
    queue: type[RunQueue] = SqlRunQueue
    leases: type[RunLeases] = ProcessLeases
    pending_work: type[PendingWork] = SqlPendingWork
    agent_locks: type[NamedLocks] = FileLocks
    encryption: type[RunEncryption] = _SqlRunEncryption
    vectors: type[RunVectors] = SqlRunVectors
    approvals: type[ApprovalRepository] = SqlApprovalRepository
    users: type[UserRepository] = SqlUserRepository
    responses: type[ResponseIndex] = SqlResponses
    ended_logins: type[EndedLogins] = SqlEndedLogins
    api_keys: type[ApiKeyRepository] = SqlApiKeyRepository
    idempotency: type[IdempotencyStore] = SqlIdempotencyStore
    deliveries: type[DeliveryStore] = SqlDeliveryStore
    outbox: type[Outbox] = SqlOutbox
    nodes: type[NodeRepository] = SqlNodeRepository
    node_invites: type[InviteRepository] = SqlInviteRepository
    fleet_plans: type[PlanRepository] = SqlPlanRepository
    node_presence: type[NodePresence] = SqlNodePresence
    node_work: type[NodeWork] = SqlNodeWork
    node_calls: type[CallRelay] = SqlCallRelay
    node_commands: type[CommandRepository] = SqlCommandRepository
    evals: type[EvalRepository] = SqlEvalRepository
    sessions: type[SessionRepository] = SqlSessionRepository
    messages: type[SessionMessages] = SqlSessionMessages
    message_queue: type[MessageQueue] = SqlMessageQueue
    trials: type[TrialOutcomes] = SqlTrialOutcomes
    acts: type[ActLog] = SqlActLog
    chain: type[AuditChain] = SqlAuditChain
    logs: type[LogInspector] = SqlLogInspector
    retention: type[RetentionStore] = SqlRetentionStore
    fingerprints: type[KeyFingerprints] = SqlKeyFingerprints
    gauge: type[StoreGauge] = SqliteStoreGauge
    copies: type[StoreCopies] = SqliteCopies


class Others:
    """What has no part of its own in SQLite."""

    counters: type[Counters] = SqlCounters
    cluster: type[Cluster] = PostgresCluster
    leases: type[RunLeases] = PostgresServerRole
    agent_locks: type[NamedLocks] = PostgresLocks
    gauge: type[StoreGauge] = PostgresGauge
    copies: type[StoreCopies] = PostgresCopies


def test_each_part_is_made_of_the_class_that_was_compared_with_its_port() -> None:
    storage = MemoryStorage()
    parts = {name: type(getattr(storage, name)) for name in get_type_hints(Adapters)}
    assert parts == {name: getattr(Adapters, name) for name in parts}
    groups = {"automation", "channels", "memory"}
    assert parts.keys() | groups | {"clock", "cluster"} == Storage.__annotations__.keys()


def test_without_the_extra_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if ".persistence.postgres" in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra) as caught:
        open_upkeep(StoreAddress("postgresql://localhost/fabric"))
    assert caught.value.hint == 'Install it with: pip install "agent-fabric[cluster]"'
