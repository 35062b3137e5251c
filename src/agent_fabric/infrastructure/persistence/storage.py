"""The one factory of this package. Nothing outside it knows an adapter class (an import contract checks that)."""

from collections.abc import Callable, Container, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from agent_fabric.application.ports.clock import Clock, IdSource
from agent_fabric.application.ports.encryption import Cipher, KeySealer
from agent_fabric.application.ports.storage import Storage
from agent_fabric.domain.audit_key import UNKEYED, AuditKey
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.approvals import SqlApprovalRepository
from agent_fabric.infrastructure.persistence.event_store import LogFollower, SqliteRunRepository
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
    open_keyring: Callable[[], KeySealer] | None = None,
    followers: Sequence[LogFollower] = (),
) -> Storage:
    """Return the store of a fabric folder; no file is opened before something is read or written.

    Args:
        folder: The fabric folder.
        clock: The time.
        ids: Names for runs that an idempotency key reserves.
        run_dir: The folder of a run, which retention deletes with it.
        audit_key: The key of the audit chain.
        open_keyring: The user's keyring; called when the first encrypted run needs it.
        followers: Mirrors of the logs.
    """
    return _SqliteStorage(folder, clock, ids, run_dir, audit_key, RunKeys(open_keyring), followers)


class _SqliteStorage:
    """Storage in one SQLite file."""

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        ids: IdSource,
        run_dir: Callable[[RunId], str],
        audit_key: AuditKey,
        keys: RunKeys,
        followers: Sequence[LogFollower],
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._ids = ids
        self._run_dir = run_dir
        self._key = audit_key
        self._followers = followers
        self._store = Store(folder / "fabric.db", keys)

    @cached_property
    def runs(self) -> SqliteRunRepository:
        return SqliteRunRepository(self._store, self._clock, self._followers, self._key)

    @property
    def mirrors(self) -> SqliteRunRepository:
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
    def queue(self) -> "SqlRunQueue":
        from agent_fabric.infrastructure.persistence.run_queue import SqlRunQueue  # noqa: PLC0415 - see above

        return SqlRunQueue(self._store, self._clock)

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
    def vectors(self) -> "SqlRunVectors":
        from agent_fabric.infrastructure.persistence.run_vectors import SqlRunVectors  # noqa: PLC0415 - see above

        return SqlRunVectors(self._store, self.catalogue)

    @cached_property
    def approvals(self) -> SqlApprovalRepository:
        return SqlApprovalRepository(self._store, self._clock)

    @cached_property
    def users(self) -> "SqlUserRepository":
        from agent_fabric.infrastructure.persistence.users import SqlUserRepository  # noqa: PLC0415 - see above

        return SqlUserRepository(self._store, self._key)

    @cached_property
    def api_keys(self) -> "SqlApiKeyRepository":
        from agent_fabric.infrastructure.persistence.api_keys import SqlApiKeyRepository  # noqa: PLC0415 - see above

        return SqlApiKeyRepository(self._store, self._key)

    @cached_property
    def idempotency(self) -> "SqlIdempotencyStore":
        from agent_fabric.infrastructure.persistence.idempotency import (  # noqa: PLC0415 - see above
            SqlIdempotencyStore,
        )

        return SqlIdempotencyStore(self._store, self._clock, self._ids)

    @cached_property
    def deliveries(self) -> "SqlDeliveryStore":
        from agent_fabric.infrastructure.persistence.deliveries import SqlDeliveryStore  # noqa: PLC0415 - see above

        return SqlDeliveryStore(self._store, self._clock)

    def counters(self) -> "SqlCounters":
        from agent_fabric.infrastructure.persistence.rate_limits import SqlCounters  # noqa: PLC0415 - see above

        return SqlCounters(self._store, self._clock)

    @cached_property
    def acts(self) -> "SqlActLog":
        from agent_fabric.infrastructure.persistence.act_log import SqlActLog  # noqa: PLC0415 - see above

        return SqlActLog(self._store, self._key)

    @cached_property
    def chain(self) -> "SqlAuditChain":
        from agent_fabric.infrastructure.persistence.audit_chain import SqlAuditChain  # noqa: PLC0415 - see above

        return SqlAuditChain(self._store, self._key)

    @cached_property
    def logs(self) -> "SqlLogInspector":
        from agent_fabric.infrastructure.persistence.log_inspector import (  # noqa: PLC0415 - see above
            SqlLogInspector,
        )

        return SqlLogInspector(self._store)

    @cached_property
    def retention(self) -> "SqlRetentionStore":
        from agent_fabric.infrastructure.persistence.retention import SqlRetentionStore  # noqa: PLC0415 - see above

        return SqlRetentionStore(self._store, self._run_dir, self._clock, self._key)

    @cached_property
    def gauge(self) -> "SqliteStoreGauge":
        from agent_fabric.infrastructure.persistence.store_gauge import SqliteStoreGauge  # noqa: PLC0415 - see above

        return SqliteStoreGauge(self._store)

    @cached_property
    def copies(self) -> "SqliteCopies":
        from agent_fabric.infrastructure.persistence.snapshot import SqliteCopies  # noqa: PLC0415 - see above

        return SqliteCopies(self._store.path, self._store.locks)

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
