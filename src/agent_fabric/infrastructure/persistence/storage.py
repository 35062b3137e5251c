"""The one factory of this package. Nothing outside it knows an adapter class (an import contract checks that)."""

from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_fabric.application.ports.audit import HeadKeeper
from agent_fabric.application.ports.clock import Clock, IdSource
from agent_fabric.application.ports.encryption import Cipher, KeySealer
from agent_fabric.application.ports.storage import Storage
from agent_fabric.config.store_address import StoreAddress
from agent_fabric.domain.audit.key import UNKEYED, AuditKey
from agent_fabric.domain.errors import MissingExtra
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.audit.chain_writer import ChainWriter
from agent_fabric.infrastructure.persistence.runs.run_leases import FileLocks, ProcessLeases
from agent_fabric.infrastructure.persistence.runs.run_locks import RunLocks
from agent_fabric.infrastructure.persistence.secrets.sealing import RunKeys
from agent_fabric.infrastructure.persistence.sql import Database
from agent_fabric.infrastructure.persistence.store import Store

if TYPE_CHECKING:  # a run needs none of these
    from agent_fabric.application.ports.cluster import Introduction
    from agent_fabric.application.ports.database import DatabaseUpkeep
    from agent_fabric.application.ports.limits import Counters
    from agent_fabric.infrastructure.persistence.postgres.parts import PostgresParts
    from agent_fabric.infrastructure.persistence.runs.event_store import SqlRunRepository
    from agent_fabric.infrastructure.persistence.runs.held_run import LogFollower

IN_FOLDER = StoreAddress()
"""The SQLite file of a fabric folder."""


def open_storage(  # noqa: PLR0913 - what a process joins a store with
    folder: Path,
    *,
    address: StoreAddress = IN_FOLDER,
    clock: Clock,
    ids: IdSource,
    run_dir: Callable[[RunId], str],
    audit_key: AuditKey = UNKEYED,
    audit_heads: HeadKeeper | None = None,
    open_keyring: Callable[[], KeySealer] | None = None,
    followers: "Callable[[], Sequence[LogFollower]]" = tuple,
    introduction: "Introduction | None" = None,
) -> Storage:
    """Return the store of a fabric folder; no file is opened before something is read or written.

    Args:
        folder: The fabric folder.
        address: Where the store is.
        clock: The time.
        ids: Names for runs that an idempotency key reserves.
        run_dir: The folder of a run, which retention deletes with it; raises FolderLinked for one that must not be.
        audit_key: The key of the audit chain.
        audit_heads: Where the head of the chain is kept outside of the database.
        open_keyring: The user's keyring; called when the first encrypted run needs it.
        followers: Makes the mirrors of the logs, when the first run is read or written.
        introduction: What this process says about itself to others that share the store.

    Raises:
        MissingExtra: it is in PostgreSQL, whose driver is not installed.
        StoreUnavailable: the address cannot be read.
    """
    keys, chain = RunKeys(open_keyring), ChainWriter(audit_key, audit_heads)
    own: _SqliteParts | PostgresParts
    if address.is_remote:
        with _needing_driver():
            from agent_fabric.infrastructure.persistence.postgres import parts  # noqa: PLC0415 - an extra
        own = parts.PostgresParts(address, folder, keys, chain, introduction)
    else:
        own = _SqliteParts(folder, keys, chain)
    return SqlStorage(own, own.shared_clock(clock), ids, run_dir, chain, followers)


def open_upkeep(
    address: StoreAddress,
    *,
    audit_key: AuditKey = UNKEYED,
    open_keyring: Callable[[], KeySealer] | None = None,
) -> "DatabaseUpkeep":
    """Return what looks after the database at an address; nothing is opened yet.

    Raises:
        MissingExtra: its driver is not installed.
    """
    with _needing_driver():
        from agent_fabric.infrastructure.persistence.postgres.upkeep import PostgresUpkeep  # noqa: PLC0415 - an extra
    return PostgresUpkeep(address.url, audit_key, RunKeys(open_keyring))


@contextmanager
def _needing_driver() -> Iterator[None]:
    try:
        yield
    except ImportError as problem:
        if (problem.name or "psycopg").startswith("psycopg"):  # without libpq, psycopg gives no name
            raise MissingExtra("cluster", needed_for="A store in PostgreSQL") from None
        raise


def _lazy(path: str, arguments: str) -> Any:
    """Return a property that imports a class of this package and makes it, from attributes, when it is first used."""
    module, _, name = path.rpartition(".")

    def make(storage: object) -> Any:
        cls = getattr(import_module(f"{__package__}.{module}"), name)
        return cls(*(attrgetter(argument)(storage) for argument in arguments.split()))

    return cached_property(make)


def _lazy_part(path: str) -> Any:
    """Return a property that is a part of another one."""
    return cached_property(attrgetter(path))


class _SqliteParts:
    """The parts of a store in one SQLite file."""

    gauge = _lazy("observability.store_gauge.SqliteStoreGauge", "database")
    copies = _lazy("observability.snapshot.SqliteCopies", "database.path database.locks")
    cluster = None

    def __init__(self, folder: Path, keys: RunKeys, chain: ChainWriter) -> None:
        self._folder = folder
        self.database = Store(folder / "fabric.db", keys, chain)

    def shared_clock(self, clock: Clock) -> Clock:
        return clock

    @cached_property
    def leases(self) -> ProcessLeases:
        return ProcessLeases(self.database.locks)

    @cached_property
    def agent_locks(self) -> FileLocks:
        return FileLocks(RunLocks(self._folder / "agent-locks"))

    def close(self) -> None:
        self.database.close()


class SqlStorage(Storage):
    """Storage in tables, whichever database has them. A test compares each part with its port."""

    runs: "SqlRunRepository" = _lazy("runs.event_store.SqlRunRepository", "_store _clock _followers _chain")
    if not TYPE_CHECKING:  # their types are those of the ports
        mirrors = _lazy_part("runs")
        reader = _lazy("runs.run_reader.SqlRunReader", "_store")
        catalogue = _lazy("runs.run_catalogue.SqlRunCatalogue", "_store")
        open_catalogue = _lazy("runs.run_catalogue.open_runs_only", "_store")
        leases = _lazy_part("_own.leases")
        cluster = _lazy_part("_own.cluster")
        agent_locks = _lazy_part("_own.agent_locks")
        gauge = _lazy_part("_own.gauge")
        copies = _lazy_part("_own.copies")
        encryption = _lazy("storage._SqlRunEncryption", "_store runs.encrypted")
        approvals = _lazy("approvals.questions.SqlApprovalRepository", "_store _clock")
        queue = _lazy("runs.run_queue.SqlRunQueue", "_store _clock")
        vectors = _lazy("runs.run_vectors.SqlRunVectors", "_store catalogue")
        users = _lazy("identity.accounts.SqlUserRepository", "_store _chain")
        ended_logins = _lazy("identity.accounts.SqlEndedLogins", "_store _clock")
        api_keys = _lazy("identity.accounts.SqlApiKeyRepository", "_store _chain")
        idempotency = _lazy("runs.idempotency.SqlIdempotencyStore", "_store _clock _ids")
        deliveries = _lazy("automation.outbox.SqlDeliveryStore", "_store _clock _open_runs")
        outbox = _lazy("automation.outbox.SqlOutbox", "_store _clock")
        automation = _lazy("automation.firings.open_automation", "_store _open_runs")
        memory = _lazy("memory.passages.open_memory", "_store")
        responses = _lazy("runs.idempotency.SqlResponses", "_store _clock")
        nodes = _lazy("fleet.nodes.SqlNodeRepository", "_store _chain")
        node_invites = _lazy("fleet.nodes.SqlInviteRepository", "_store _chain")
        fleet_plans = _lazy("fleet.fleet_plans.SqlPlanRepository", "_store")
        node_calls = _lazy("fleet.node_commands.SqlCallRelay", "_store")
        node_presence = _lazy("fleet.nodes.SqlNodePresence", "_store")
        node_work = _lazy("fleet.node_commands.SqlNodeWork", "_store")
        node_commands = _lazy("fleet.node_commands.SqlCommandRepository", "_store")
        channels = _lazy("channels.outbox.open_channels", "_store _chain")
        evals = _lazy("evals.evaluations.SqlEvalRepository", "_store _clock")
        _session_keys = _lazy("chat.rows.SessionKeys", "_store.keys")
        sessions = _lazy("chat.sessions.SqlSessionRepository", "_store _session_keys")
        messages = _lazy("chat.sessions.SqlSessionMessages", "_store _session_keys")
        pending_work = _lazy("runs.run_queue.SqlPendingWork", "_store queue _clock")
        message_queue = _lazy("chat.queue.SqlMessageQueue", "_store _session_keys")
        trials = _lazy("evals.evaluations.SqlTrialOutcomes", "_store _clock")
        fingerprints = _lazy("identity.key_fingerprints.SqlKeyFingerprints", "_store _clock")
        acts = _lazy("audit.chain_writer.SqlActLog", "_store _chain")
        chain = _lazy("audit.audit_chain.SqlAuditChain", "_store _chain")
        logs = _lazy("runs.log_inspector.SqlLogInspector", "_store")
        retention = _lazy("runs.retention.SqlRetentionStore", "_store _run_dir _clock _chain")

    def __init__(
        self,
        own: "_SqliteParts | PostgresParts",
        clock: Clock,
        ids: IdSource,
        run_dir: Callable[[RunId], str],
        chain: ChainWriter,
        followers: "Callable[[], Sequence[LogFollower]]",
    ) -> None:
        self._own = own
        self._store = own.database
        self.clock = self._clock = clock
        self._ids = ids
        self._run_dir = run_dir
        self._chain = chain
        self._make_followers = followers

    @cached_property
    def _followers(self) -> "Sequence[LogFollower]":
        return self._make_followers()

    def _open_runs(self) -> "SqlRunRepository":
        return self.runs

    def look_into_inboxes(self) -> None:
        self.runs.look_into_inboxes()

    def counters(self) -> "Counters":
        from agent_fabric.infrastructure.persistence.identity.rate_limits import SqlCounters  # noqa: PLC0415 - see above

        return SqlCounters(self._store, self._clock)

    def close(self) -> None:
        self._own.close()


class _SqlRunEncryption:
    """RunEncryption over the store."""

    def __init__(self, store: Database, driven: Container[RunId]) -> None:
        self._store = store
        self.driven = driven

    def cipher_of(self, run_id: RunId) -> Cipher | None:
        query = "SELECT key FROM runs JOIN run_keys ON run = number WHERE run_id = ?"
        row = self._store.read_now(lambda connection: connection.execute(query, (run_id,)).fetchone())
        return None if row is None else self._store.keys.cipher(run_id, bytes(row[0]))

    async def reseal(self, keyring: KeySealer) -> int:
        from agent_fabric.infrastructure.persistence.secrets.run_encryption import reseal_runs  # noqa: PLC0415 - few need it

        return await reseal_runs(self._store, keyring)
