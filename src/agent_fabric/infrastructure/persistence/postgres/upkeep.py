"""Looks after a PostgreSQL database: its tables, its settings, and bringing a fabric folder into it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw

from agent_fabric.application.ports.database import CopiedStore, DatabaseFacts, Migrated, Tell
from agent_fabric.domain.audit.key import AuditKey
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError, RunNotFound, StoreUnavailable
from agent_fabric.domain.plural import count_of
from agent_fabric.infrastructure.persistence.audit.audit_chain import verify_chain
from agent_fabric.infrastructure.persistence.database import connect
from agent_fabric.infrastructure.persistence.database import explain_errors as explain_sqlite_errors
from agent_fabric.infrastructure.persistence.dialects import POSTGRESQL, WRITERS_LOCK
from agent_fabric.infrastructure.persistence.memory.passages import index_words
from agent_fabric.infrastructure.persistence.observability.snapshot import SqliteCopies
from agent_fabric.infrastructure.persistence.postgres.connection import PostgresConnection, place_of
from agent_fabric.infrastructure.persistence.postgres.errors import explain_errors
from agent_fabric.infrastructure.persistence.postgres.migration import format_of, migrate, require_migrated
from agent_fabric.infrastructure.persistence.runs.run_locks import RunLocks
from agent_fabric.infrastructure.persistence.schema import FORMAT
from agent_fabric.infrastructure.persistence.secrets.sealing import RunKeys

BUILT_ANEW: Final = frozenset(
    {"run_words", "run_text", "run_activity", "run_text_progress", "run_activity_progress"},
)
"""Tables that follow from others."""
OF_DATABASE: Final = frozenset({"key_fingerprints", "named_locks", "refusals", "workers"})
"""Tables that belong to the database itself."""
OF_PROCESSES: Final = frozenset({"drivers", "rate_limits", "deliveries"})
"""Tables that a server may have written into already, without anything being there."""
TURN_TIMEOUT_S: Final = 5
ROWS_TOLD: Final = 2_000
"""Rows between two signs of life."""
MAX_NAMED_DAMAGE: Final = 5


class _Table(NamedTuple):
    name: str
    columns: tuple[str, ...]
    rows: int


def copy_folder(folder: Path, url: str, key: AuditKey, keys: RunKeys, *, damaged: bool, tell: Tell) -> CopiedStore:
    """Copy the store of a folder; see `DatabaseUpkeep.copy_from`.

    Rows flow from one database to the other; how much memory that takes depends on the largest one alone. What is
    built from other rows, the indexes of words, is built anew by the first search.
    """
    path = folder / "fabric.db"
    if not path.is_file():
        raise RunNotFound(f"{folder} has no store", hint="Name the folder: fabric db copy --from .fabric")
    place = place_of(url)
    with SqliteCopies(path, RunLocks(folder / "locks")).exclusive(), explain_sqlite_errors(path):
        source = connect(path)
        try:
            source.execute("BEGIN")  # every table is of the same moment, even if someone writes without a lock
            with _transaction(url, place) as target:
                tables = _tables(source)
                _require_empty(target, tables, place)
                _copy(source, target, tables, tell)
                _count_on(source, target, tables)
                index_words(target, POSTGRESQL.text_search)
                tell("Recomputing every hash …")
                report = verify_chain(target, key, keys)
                if report.damage and not damaged:
                    raise _damage(folder, report.damage)
                rows = {table.name: table.rows for table in tables}
                copied = CopiedStore(
                    runs=rows["runs"],
                    events=rows["events"],
                    blobs=rows["blobs"],
                    tables=len(tables),
                    rows=sum(rows.values()),
                    chain_entries=report.entries,
                    unknown_key=report.unknown_key,
                    damage=report.damage,
                )
        finally:
            source.close()
    return copied


@contextmanager
def _transaction(url: str, place: str) -> Iterator[PostgresConnection]:
    """Give a connection in a transaction whose turn it is; it is committed at the end, unless there is an error."""
    connection = PostgresConnection(url)
    try:
        with explain_errors(place):
            require_migrated(connection, place)
            connection.execute(
                f"BEGIN; SET LOCAL lock_timeout = '{TURN_TIMEOUT_S}s'; SET LOCAL statement_timeout = 0;"
                " SET LOCAL idle_in_transaction_session_timeout = 0;"
                f" SELECT pg_advisory_xact_lock({WRITERS_LOCK}); SET LOCAL lock_timeout = 0"
            )
            yield connection
            connection.commit()
    finally:
        connection.close()  # which undoes what was not committed


def _tables(source: apsw.Connection) -> list[_Table]:
    query = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' ORDER BY name"
    names = [str(name) for (name,) in source.execute(query)]
    found = []
    for name in names:
        if name in BUILT_ANEW | OF_DATABASE or name.startswith("sqlite_"):
            continue
        columns = tuple(str(row[1]) for row in source.execute(f"PRAGMA table_info({name})"))
        (rows,) = source.execute(f"SELECT count(*) FROM {name}").fetchone() or (0,)  # noqa: S608 - a table of ours
        found.append(_Table(name, columns, int(str(rows))))
    return found


def _require_empty(target: PostgresConnection, tables: list[_Table], place: str) -> None:
    for table in tables:
        if table.name in OF_PROCESSES:
            target.execute(f"DELETE FROM {table.name}")  # noqa: S608 - a table of ours
            continue
        (rows,) = target.execute(f"SELECT count(*) FROM {table.name}").fetchone()  # noqa: S608 - as above
        if rows:
            raise ConfigError(
                f"{place} is not empty: its table {table.name} has {count_of(rows, 'row')}",
                hint="A folder is copied into a database with nothing in it. Create another one, then: fabric db "
                "migrate. If an earlier copy was interrupted at its very end, it is complete: fabric audit verify.",
            )


def _copy(source: apsw.Connection, target: PostgresConnection, tables: list[_Table], tell: Tell) -> None:
    total, done = max(1, sum(table.rows for table in tables)), 0
    for table in tables:
        names = ", ".join(table.columns)
        rows: Iterator[Any] = iter(source.execute(f"SELECT {names} FROM {table.name}"))  # noqa: S608 - a table of ours
        with target.copy_into(table.name, table.columns) as put:
            for count, row in enumerate(rows):
                put(row)
                if count % ROWS_TOLD == 0:
                    tell(f"Copying {table.name}: {(done + count) * 100 // total} %")
        done += table.rows
        (arrived,) = target.execute(f"SELECT count(*) FROM {table.name}").fetchone()  # noqa: S608 - as above
        if arrived != table.rows:
            raise StoreUnavailable(
                f"{arrived} of {table.rows} rows of {table.name} have arrived; nothing was copied",
                hint="Stop whatever writes into the folder, then try again.",
            )


def _count_on(source: apsw.Connection, target: PostgresConnection, tables: list[_Table]) -> None:
    """Let counters go on where those of the folder are: the number of a deleted run is never given again."""
    counters = {str(name): int(str(last)) for name, last in source.execute("SELECT name, seq FROM sqlite_sequence")}
    for table in tables:
        last = counters.get(table.name, 0)
        if last:
            target.execute("SELECT setval(pg_get_serial_sequence(?, ?), ?)", (table.name, table.columns[0], last))


def _damage(folder: Path, damage: tuple[str, ...]) -> StoreUnavailable:
    named = "; ".join(damage[:MAX_NAMED_DAMAGE]) + (" …" if len(damage) > MAX_NAMED_DAMAGE else "")
    return StoreUnavailable(
        f"What {folder} holds is not what was recorded, so nothing was copied: {named}",
        hint="Look at it: fabric audit verify, without `store.url`. To copy it as it is: fabric db copy --damaged",
    )


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
