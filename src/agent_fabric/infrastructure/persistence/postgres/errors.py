"""What the errors of PostgreSQL mean, in ours."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from agent_fabric.domain.errors import FabricError, StoreFull, StoreUnavailable
from agent_fabric.infrastructure.persistence.sql import UniqueViolation


class Unreachable(StoreUnavailable):
    """There is no connection, or no turn to write; nothing of what was asked for has happened."""


@contextmanager
def explain_errors(where: str) -> Iterator[None]:
    """Turn errors of the driver into ours; `where` names the database, without its password."""
    try:
        yield
    except FabricError:
        raise
    except psycopg.Error as problem:
        raise _ours(where, problem) from problem


def is_answer(problem: psycopg.Error) -> bool:
    """Tell whether the server has said that a statement failed.

    One that only says that it ends the connection, because it is shut down or has crashed, may have committed before.
    """
    return problem.diag.severity_nonlocalized == "ERROR"


def _ours(where: str, problem: psycopg.Error) -> StoreUnavailable:
    words = _first_line(problem)
    match problem:
        case errors.UniqueViolation():
            return UniqueViolation(f"{where} has such a row already: {words}")
        case errors.DiskFull():
            return StoreFull(
                f"The disk that holds {where} is full",
                hint="Free some space there, then resume with `fabric resume`. Nothing that was recorded is lost.",
            )
        case errors.UndefinedTable() | errors.UndefinedColumn() | errors.UndefinedFunction():
            return StoreUnavailable(
                f"{where} has not the tables of this version: {words}", hint="Run: fabric db migrate"
            )
        case errors.ReadOnlySqlTransaction():
            return Unreachable(
                f"{where} is a standby, which cannot be written", hint="Let `store.url` name the primary server."
            )
        case errors.InsufficientPrivilege():
            return StoreUnavailable(
                f"{where} may not be used by this user: {words}", hint="Grant the user all rights on its tables."
            )
        case errors.LockNotAvailable():
            return Unreachable(
                f"Another process has kept {where} from being written for too long",
                hint="Look for transactions that stay open in pg_stat_activity, then try again.",
            )
        case errors.DeadlockDetected() | errors.SerializationFailure():  # not the group's: each write is tried again
            return StoreUnavailable(f"Two processes have waited for each other in {where}", hint="Try again.")
        case psycopg.OperationalError():
            return Unreachable(f"{where} cannot be reached: {words}", hint=_hint(words))
        case _:
            return StoreUnavailable(f"{where} cannot be used: {words}", hint="Look into the log of the server.")


def _hint(words: str) -> str:
    # Without a connection there is no code for what went wrong, only its words.
    if "too many clients" in words or "connection slots" in words or "no more connections" in words:
        return "Lower `store.pool`, raise max_connections, or put pgbouncer in front of it."
    if "authentication failed" in words or "does not exist" in words:
        return "Check user, password and database in `store.url`."
    return "Check that PostgreSQL runs and that `store.url` is right. Nothing that was recorded is lost."


def _first_line(problem: psycopg.Error) -> str:
    return (str(problem).strip() or type(problem).__name__).splitlines()[0]
