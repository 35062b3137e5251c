"""A connection to PostgreSQL as table modules see it.

Nothing outlives a transaction on the server's side, so that pgbouncer can lend a connection for each of them: no
settings of the session, no LISTEN, no locks but those of a transaction. Only where no one stands in between are
statements prepared, those of the hot path: for a single run, half of the server's work is parsing and planning.
"""

import os
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, Final

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.string import StrDumperUnknown

from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.infrastructure.persistence import dialects
from agent_fabric.infrastructure.persistence.postgres.binary import BinaryStatement
from agent_fabric.infrastructure.persistence.postgres.errors import explain_errors
from agent_fabric.infrastructure.persistence.sql import Rows, storable

CONNECT_TIMEOUT_S: Final = 5
DEAD_PEER_MS: Final = 10_000
"""How long the other end may leave what we sent unacknowledged before the connection counts as broken."""

PREPARE_AT: Final = 4
"""A statement is prepared when it is used for this time on a connection; most processes write less."""
REPLAN_EVERY: Final = 2_000
"""After so many uses a statement is prepared anew: its plan was made for tables as they were then."""
_NOT_PREPARED: Final = b"26000"

_translated = lru_cache(maxsize=1_024)(dialects.translate)


class PostgresConnection:
    """SqlConnection over psycopg. Each statement is a transaction of its own, unless BEGIN was sent."""

    def __init__(self, url: str) -> None:
        """Connect.

        Raises:
            StoreUnavailable: it is not possible.
        """
        with explain_errors(place_of(url)):
            self._connection = psycopg.connect(_with_defaults(url), autocommit=True, prepare_threshold=None)
        self._connection.adapters.register_dumper(str, _StorableText)
        self._is_direct: bool | None = None
        """Whether the server itself is at the other end, and always the same process of it; None: no one has looked."""
        self._uses: dict[BinaryStatement, int] = {}

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Rows:
        """Run one statement; without parameters, also several."""
        # Without parameters the driver leaves `%` alone.
        text, values = (_translated(sql), parameters) if parameters else (sql, None)
        cursor = self._connection.execute(text, values)
        return cursor if cursor.description is not None else _NO_ROWS

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> None:
        """Run one statement for each row of parameters, with one round trip for all of them."""
        with self._connection.cursor() as cursor:
            cursor.executemany(_translated(sql), rows)

    def execute_binary(self, statement: BinaryStatement, values: Sequence[Any]) -> list[tuple[bytes, ...]]:
        """Run a statement of the hot path; return its rows as they came over the wire. None of them is NULL."""
        result = self._run_binary(statement, statement.dump(values))
        match result.status:
            case pq.ExecStatus.TUPLES_OK:
                columns = range(result.nfields)
                return [
                    tuple(result.get_value(row, column) or b"" for column in columns) for row in range(result.ntuples)
                ]
            case pq.ExecStatus.COMMAND_OK:
                return []
            case _:
                raise _problem_of(result)

    def _run_binary(self, statement: BinaryStatement, dumped: list[bytes]) -> pq.abc.PGresult:
        wire = self._connection.pgconn
        if self._is_prepared(statement):
            result = wire.exec_prepared(statement.name, dumped, statement.formats, pq.Format.BINARY)
            if result.error_field(pq.DiagnosticField.SQLSTATE) != _NOT_PREPARED:
                return result
            self._is_direct = False  # a pooler after all, which told us nothing
            if wire.transaction_status != pq.TransactionStatus.IDLE:
                return result  # what was done before is undone, too
        return wire.exec_params(statement.sql, dumped, statement.oids, statement.formats, pq.Format.BINARY)

    def _is_prepared(self, statement: BinaryStatement) -> bool:
        """Count one more use of a statement; prepare it when it is used often, and again when tables may have grown."""
        if not statement.name:
            return False
        uses = self._uses[statement] = self._uses.get(statement, 0) + 1
        if uses < PREPARE_AT or self._is_direct is False:
            return False
        if (uses - PREPARE_AT) % REPLAN_EVERY == 0:
            if self._is_direct is None and not self._find_whether_direct():
                return False
            wire = self._connection.pgconn
            if uses > PREPARE_AT:
                self._require_done(wire.exec_(b"DEALLOCATE " + statement.name))
            self._require_done(wire.prepare(statement.name, statement.sql, statement.oids))
        return True

    def _find_whether_direct(self) -> bool:
        """Ask for the process at the other end: a pooler has told us another one, or none."""
        row = self._connection.execute("SELECT pg_backend_pid()").fetchone()
        self._is_direct = row is not None and row[0] == self._connection.pgconn.backend_pid
        return self._is_direct

    def _require_done(self, result: pq.abc.PGresult) -> None:
        if result.status != pq.ExecStatus.COMMAND_OK:
            raise _problem_of(result)

    @contextmanager
    def copy_into(self, table: str, columns: Sequence[str]) -> Iterator[Callable[[Sequence[Any]], None]]:
        """Give what sends a row to a table of ours; none of them is kept here."""
        names = ", ".join(columns)
        with self._connection.cursor() as cursor, cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
            yield copy.write_row

    def commit(self) -> None:
        """End a transaction.

        Raises:
            StoreUnavailable: it was rolled back, because of an error that someone has swallowed.
        """
        if self._connection.execute("COMMIT").statusmessage != "COMMIT":
            raise StoreUnavailable("A transaction with a failed statement cannot be committed; nothing of it happened")

    @property
    def is_usable(self) -> bool:
        """Whether there is still a server at the other end, as far as is known here."""
        return not self._connection.closed and self._connection.pgconn.status == pq.ConnStatus.OK

    @property
    def is_idle(self) -> bool:
        """Whether it is usable, and outside of any transaction."""
        return self.is_usable and self._connection.pgconn.transaction_status == pq.TransactionStatus.IDLE

    def abort(self) -> None:
        """End the connection from another thread, so that a thread that waits for the server gets an error."""
        with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(self._connection.fileno())) as end:
            end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


def _problem_of(result: pq.abc.PGresult) -> psycopg.Error:
    """Return the error that the driver would have raised."""
    state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    words = result.error_message.decode(errors="replace")
    try:
        kind = psycopg.errors.lookup(state)
    except KeyError:  # none at all: the connection has ended
        kind = psycopg.OperationalError
    return kind(words)


class _StorableText(StrDumperUnknown):
    """Text as the server takes it. A name that someone typed must find nothing, and be no error."""

    def dump(self, obj: str) -> bytes:
        return storable(obj).encode()


class _NoRows:
    """The rows of a statement that has none."""

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def fetchone(self) -> Any:
        return None

    def fetchall(self) -> list[Any]:
        return []


_NO_ROWS: Final = _NoRows()


def place_of(url: str) -> str:
    """Name a database for people: never with a password.

    Raises:
        StoreUnavailable: the address cannot be read.
    """
    try:
        found = conninfo_to_dict(url)
    except psycopg.ProgrammingError:  # its words repeat the address, and with it the password
        raise StoreUnavailable(
            "`store.url` is no address of a PostgreSQL database",
            hint="It looks like this: postgresql://USER:PASSWORD@HOST:5432/DATABASE",
        ) from None
    where = str(found.get("host") or found.get("hostaddr") or "localhost")
    port = f":{found['port']}" if found.get("port") else ""
    return f"PostgreSQL at {where}{port}, database {found.get('dbname') or found.get('user') or 'of the user'}"


def _with_defaults(url: str) -> str:
    given = conninfo_to_dict(url)
    defaults: dict[str, str | int] = {
        "connect_timeout": CONNECT_TIMEOUT_S,
        "application_name": "agent-fabric",
        "client_encoding": "UTF8",
        "keepalives_idle": 10,
        "keepalives_interval": 3,
        "keepalives_count": 3,
        "tcp_user_timeout": DEAD_PEER_MS,
    }
    return make_conninfo(url, **{name: value for name, value in defaults.items() if name not in given})
