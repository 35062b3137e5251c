"""What a storage in PostgreSQL does in its own way: connections, leases, measures, backups."""

from functools import cached_property
from pathlib import Path

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.cluster import Introduction
from agent_fabric.config.store_address import StoreAddress
from agent_fabric.infrastructure.clock import AdjustedClock
from agent_fabric.infrastructure.persistence.audit.chain_writer import ChainWriter
from agent_fabric.infrastructure.persistence.postgres.cluster import PostgresCluster, PostgresServerRole
from agent_fabric.infrastructure.persistence.postgres.copies import PostgresCopies
from agent_fabric.infrastructure.persistence.postgres.gauge import PostgresGauge
from agent_fabric.infrastructure.persistence.postgres.named_locks import PostgresLocks
from agent_fabric.infrastructure.persistence.postgres.store import PostgresStore
from agent_fabric.infrastructure.persistence.runs.run_locks import RunLocks
from agent_fabric.infrastructure.persistence.secrets.sealing import RunKeys


class PostgresParts:
    """The parts of a store in a PostgreSQL database."""

    def __init__(
        self,
        address: StoreAddress,
        folder: Path,
        keys: RunKeys,
        chain: ChainWriter,
        introduction: Introduction | None = None,
    ) -> None:
        """Connect to nothing yet.

        Raises:
            StoreUnavailable: the address cannot be read.
        """
        self._folder = folder
        self.database = PostgresStore(address.url, keys=keys, chain=chain, pool=address.pool, introduction=introduction)
        self.leases = PostgresServerRole(self.database, RunLocks(folder / "locks"))
        self.cluster = PostgresCluster(self.database)

    def shared_clock(self, clock: Clock) -> Clock:
        membership = self.database.membership
        return AdjustedClock(clock, lambda: membership.ahead_s)

    @cached_property
    def agent_locks(self) -> PostgresLocks:
        return PostgresLocks(self.database)

    @cached_property
    def gauge(self) -> PostgresGauge:
        return PostgresGauge(self.database, self._folder, self.leases)

    @cached_property
    def copies(self) -> PostgresCopies:
        return PostgresCopies(self.database, self._folder)

    def close(self) -> None:
        self.database.close()
