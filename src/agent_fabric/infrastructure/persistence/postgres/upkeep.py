"""Looks after a PostgreSQL database: its tables, its settings, and bringing a fabric folder into it."""

from dataclasses import dataclass, field
from pathlib import Path

from agent_fabric.application.ports.database import CopiedStore, DatabaseFacts, Migrated, Tell
from agent_fabric.domain.audit.key import AuditKey
from agent_fabric.infrastructure.persistence.postgres.connection import PostgresConnection, place_of
from agent_fabric.infrastructure.persistence.postgres.errors import explain_errors
from agent_fabric.infrastructure.persistence.postgres.folder_copy import copy_folder
from agent_fabric.infrastructure.persistence.postgres.migration import format_of, migrate
from agent_fabric.infrastructure.persistence.schema import FORMAT
from agent_fabric.infrastructure.persistence.secrets.sealing import RunKeys

_FACTS = """
SELECT current_setting('server_version'), current_setting('server_encoding'), pg_is_in_recovery(),
       current_setting('synchronous_commit'), current_setting('fsync') = 'on',
       (SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'async'),
       current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint,
       (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user),
       (SELECT datconnlimit FROM pg_database WHERE datname = current_database())
"""
_VECTORS = """
SELECT to_regclass('embeddings') IS NOT NULL, to_regclass('passage_embeddings') IS NOT NULL,
       EXISTS (SELECT 1 FROM pg_available_extensions WHERE name = 'vector'),
       coalesce((SELECT extversion FROM pg_extension WHERE extname = 'vector'), '')
"""


def examine(url: str) -> DatabaseFacts:
    """Ask a server.

    Raises:
        StoreUnavailable: it cannot be reached.
    """
    place = place_of(url)
    connection = PostgresConnection(url)
    try:
        with explain_errors(place):
            version, encoding, standby, commit, fsync, asynchronous, *limits = connection.execute(_FACTS).fetchone()
            found = format_of(connection)
            of_runs, of_passages, offers_vectors, pgvector = connection.execute(_VECTORS).fetchone()
            return DatabaseFacts(
                place=place,
                version=str(version),
                encoding=str(encoding),
                format=found.version,
                min_writer=found.min_writer,
                known_format=FORMAT,
                is_standby=bool(standby),
                synchronous_commit=str(commit),
                fsync=bool(fsync),
                asynchronous_standbys=int(asynchronous),
                max_connections=min(int(limit) for limit in limits if limit is not None and int(limit) >= 0),
                has_vectors=bool(of_runs),
                has_passage_vectors=bool(of_passages),
                offers_vectors=bool(offers_vectors),
                pgvector=str(pgvector),
            )
    finally:
        connection.close()


@dataclass(frozen=True, slots=True)
class PostgresUpkeep:
    """DatabaseUpkeep of a PostgreSQL database."""

    url: str = field(repr=False)
    key: AuditKey
    keys: RunKeys

    @property
    def place(self) -> str:
        return place_of(self.url)

    def migrate(self) -> Migrated:
        return migrate(self.url)

    def examine(self) -> DatabaseFacts:
        return examine(self.url)

    def copy_from(self, folder: Path, *, damaged: bool, tell: Tell) -> CopiedStore:
        return copy_folder(folder, self.url, self.key, self.keys, damaged=damaged, tell=tell)
