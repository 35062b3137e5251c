"""The one factory of this package. Nothing outside it knows an adapter class (an import contract checks that)."""

from collections.abc import Callable, Container, Sequence
from functools import cached_property
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_fabric.application.ports.audit import HeadKeeper
from agent_fabric.application.ports.clock import Clock, IdSource
from agent_fabric.application.ports.encryption import Cipher, KeySealer
from agent_fabric.application.ports.storage import Storage
from agent_fabric.domain.audit_key import UNKEYED, AuditKey
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.approvals import SqlApprovalRepository
from agent_fabric.infrastructure.persistence.chain_writer import ChainWriter
from agent_fabric.infrastructure.persistence.event_store import SqlRunRepository
from agent_fabric.infrastructure.persistence.held_run import LogFollower
from agent_fabric.infrastructure.persistence.run_catalogue import SqlRunCatalogue
from agent_fabric.infrastructure.persistence.run_leases import FileLocks, ProcessLeases
from agent_fabric.infrastructure.persistence.run_locks import RunLocks
from agent_fabric.infrastructure.persistence.run_reader import SqlRunReader
from agent_fabric.infrastructure.persistence.sealing import RunKeys
from agent_fabric.infrastructure.persistence.store import Store

if TYPE_CHECKING:  # a run needs none of these
    from agent_fabric.infrastructure.persistence.act_log import SqlActLog
    from agent_fabric.infrastructure.persistence.api_keys import SqlApiKeyRepository
    from agent_fabric.infrastructure.persistence.audit_chain import SqlAuditChain
    from agent_fabric.infrastructure.persistence.deliveries import SqlDeliveryStore
    from agent_fabric.infrastructure.persistence.ended_logins import SqlEndedLogins
    from agent_fabric.infrastructure.persistence.eval_trials import SqlTrialOutcomes
    from agent_fabric.infrastructure.persistence.evals import SqlEvalRepository
    from agent_fabric.infrastructure.persistence.idempotency import SqlIdempotencyStore
    from agent_fabric.infrastructure.persistence.log_inspector import SqlLogInspector
    from agent_fabric.infrastructure.persistence.rate_limits import SqlCounters
    from agent_fabric.infrastructure.persistence.retention import SqlRetentionStore
    from agent_fabric.infrastructure.persistence.run_queue import SqlRunQueue
    from agent_fabric.infrastructure.persistence.run_vectors import SqlRunVectors
    from agent_fabric.infrastructure.persistence.snapshot import SqliteCopies
    from agent_fabric.infrastructure.persistence.store_gauge import SqliteStoreGauge
    from agent_fabric.infrastructure.persistence.users import SqlUserRepository


def open_storage(
    folder: Path,
    *,
    clock: Clock,
    ids: IdSource,
    run_dir: Callable[[RunId], str],
    audit_key: AuditKey = UNKEYED,
    audit_heads: HeadKeeper | None = None,
    open_keyring: Callable[[], KeySealer] | None = None,
    followers: Sequence[LogFollower] = (),
) -> Storage:
    """Return the store of a fabric folder; no file is opened before something is read or written.

    Args:
        folder: The fabric folder.
        clock: The time.
        ids: Names for runs that an idempotency key reserves.
        run_dir: The folder of a run, which retention deletes with it; raises FolderLinked for one that must not be.
        audit_key: The key of the audit chain.
        audit_heads: Where the head of the chain is kept outside of the database.
        open_keyring: The user's keyring; called when the first encrypted run needs it.
        followers: Mirrors of the logs.
    """
    return _SqliteStorage(folder, clock, ids, run_dir, audit_key, audit_heads, RunKeys(open_keyring), followers)


def _lazy(path: str, arguments: str) -> Any:
    """Return a property that imports a class of this package and makes it, from attributes, when it is first used."""
    module, _, name = path.partition(".")

    def make(storage: "_SqliteStorage") -> Any:
        cls = getattr(import_module(f"{__package__}.{module}"), name)
        return cls(*(attrgetter(argument)(storage) for argument in arguments.split()))

    return cached_property(make)


class _SqliteStorage:
    """Storage in one SQLite file."""

    queue: "SqlRunQueue" = _lazy("run_queue.SqlRunQueue", "_store _clock")
    vectors: "SqlRunVectors" = _lazy("run_vectors.SqlRunVectors", "_store catalogue")
    users: "SqlUserRepository" = _lazy("users.SqlUserRepository", "_store _chain")
    ended_logins: "SqlEndedLogins" = _lazy("ended_logins.SqlEndedLogins", "_store _clock")
    api_keys: "SqlApiKeyRepository" = _lazy("api_keys.SqlApiKeyRepository", "_store _chain")
    idempotency: "SqlIdempotencyStore" = _lazy("idempotency.SqlIdempotencyStore", "_store _clock _ids")
    deliveries: "SqlDeliveryStore" = _lazy("deliveries.SqlDeliveryStore", "_store _clock")
    evals: "SqlEvalRepository" = _lazy("evals.SqlEvalRepository", "_store _clock")
    trials: "SqlTrialOutcomes" = _lazy("eval_trials.SqlTrialOutcomes", "_store _clock")
    acts: "SqlActLog" = _lazy("act_log.SqlActLog", "_store _chain")
    chain: "SqlAuditChain" = _lazy("audit_chain.SqlAuditChain", "_store _chain")
    logs: "SqlLogInspector" = _lazy("log_inspector.SqlLogInspector", "_store")
    retention: "SqlRetentionStore" = _lazy("retention.SqlRetentionStore", "_store _run_dir _clock _chain")
    gauge: "SqliteStoreGauge" = _lazy("store_gauge.SqliteStoreGauge", "_store")
    copies: "SqliteCopies" = _lazy("snapshot.SqliteCopies", "_store.path _store.locks")

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        ids: IdSource,
        run_dir: Callable[[RunId], str],
        audit_key: AuditKey,
        heads: HeadKeeper | None,
        keys: RunKeys,
        followers: Sequence[LogFollower],
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._ids = ids
        self._run_dir = run_dir
        self._chain = ChainWriter(audit_key, heads)
        self._followers = followers
        self._store = Store(folder / "fabric.db", keys, self._chain)

    @cached_property
    def runs(self) -> SqlRunRepository:
        return SqlRunRepository(self._store, self._clock, self._followers, self._chain)

    @property
    def mirrors(self) -> SqlRunRepository:
        return self.runs

    @cached_property
    def reader(self) -> SqlRunReader:
        return SqlRunReader(self._store)

    @cached_property
    def catalogue(self) -> SqlRunCatalogue:
        return SqlRunCatalogue(self._store)

    @cached_property
    def open_catalogue(self) -> SqlRunCatalogue:
        return SqlRunCatalogue(self._store, encrypted=False)

    @cached_property
    def leases(self) -> ProcessLeases:
        return ProcessLeases(self._store.locks)

    @cached_property
    def agent_locks(self) -> FileLocks:
        return FileLocks(RunLocks(self._folder / "agent-locks"))

    @cached_property
    def encryption(self) -> "_SqliteRunEncryption":
        return _SqliteRunEncryption(self._store, self.runs.encrypted)

    @cached_property
    def approvals(self) -> SqlApprovalRepository:
        return SqlApprovalRepository(self._store, self._clock)

    def counters(self) -> "SqlCounters":
        from agent_fabric.infrastructure.persistence.rate_limits import SqlCounters  # noqa: PLC0415 - see above

        return SqlCounters(self._store, self._clock)

    def close(self) -> None:
        self._store.close()


class _SqliteRunEncryption:
    """RunEncryption over the store."""

    def __init__(self, store: Store, driven: Container[RunId]) -> None:
        self._store = store
        self.driven = driven

    def cipher_of(self, run_id: RunId) -> Cipher | None:
        return self._store.cipher_of(run_id)

    async def reseal(self, keyring: KeySealer) -> int:
        from agent_fabric.infrastructure.persistence.run_encryption import reseal_runs  # noqa: PLC0415 - few need it

        return await reseal_runs(self._store, keyring)
