"""How far the events can be read without missing any.

Where processes write at the same time, an event with a higher position may become durable before one with a lower one.
"""

from agent_fabric.infrastructure.persistence.dialects import Dialect
from agent_fabric.infrastructure.persistence.sql import SqlConnection

_NEWEST = "SELECT coalesce(max(position), 0) FROM events"


def settled_position(connection: SqlConnection, dialect: Dialect, *, known: int = -1) -> int:
    """Return the newest position before which nothing is being written any more; outside of a transaction.

    `known` is a position of which that is known. Unless there are newer events, no one is waited for.
    """
    newest = int(connection.execute(_NEWEST).fetchone()[0])
    if not dialect.wait_for_writers or newest <= known:
        return newest
    connection.execute("BEGIN")
    connection.execute(dialect.wait_for_writers)
    newest = int(connection.execute(_NEWEST).fetchone()[0])
    connection.execute("COMMIT")
    return newest
