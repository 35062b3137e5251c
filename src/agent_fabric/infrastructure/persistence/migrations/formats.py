"""Ties alembic's revisions to the formats of the product: one revision stands for all `steps`.

So `alembic upgrade head` and `fabric db migrate` make the same tables, in whichever order they are used. Revisions that
`alembic revision --autogenerate` writes come after it.
"""

from typing import Final

from sqlalchemy import Connection, text

from agent_fabric.infrastructure.persistence.postgres.migration import lifting_statements
from agent_fabric.infrastructure.persistence.schema import FORMAT, FORMAT_TABLE

REVISION: Final = "formats"


def lift(connection: Connection) -> None:
    """Bring a database to the newest format, in alembic's transaction."""
    for statement in FORMAT_TABLE:
        connection.execute(text(statement))
    before, min_writer = connection.execute(text("SELECT max(version), max(min_writer) FROM fabric_format")).one()
    for statement in lifting_statements(before or 0, min_writer or 0):
        connection.exec_driver_sql(statement.replace("%", "%%"))


def follow_format(connection: Connection) -> None:
    """Let alembic know what `fabric db migrate` has done: its own note follows the format of the tables.

    Raises:
        SystemExit: own revisions are there, and the product's formats are newer than the database.
    """
    if not has_table(connection, "fabric_format"):
        return
    version = connection.execute(text("SELECT max(version) FROM fabric_format")).scalar() or 0
    connection.execute(text("CREATE TABLE IF NOT EXISTS alembic_version (version_num VARCHAR(32) PRIMARY KEY)"))
    noted = {str(row[0]) for row in connection.execute(text("SELECT version_num FROM alembic_version"))}
    is_newest = version == FORMAT
    if is_newest and not noted:
        connection.execute(text("INSERT INTO alembic_version (version_num) VALUES (:noted)"), {"noted": REVISION})
    elif not is_newest and noted == {REVISION}:
        connection.execute(text("DELETE FROM alembic_version"))
    elif not is_newest and noted:
        raise SystemExit(f"The tables have format {version} of {FORMAT}. First: fabric db migrate")
    connection.commit()


def has_table(connection: Connection, table: str) -> bool:
    """Tell whether there is such a table."""
    found = connection.execute(text("SELECT to_regclass(:name) IS NOT NULL"), {"name": table}).scalar()
    connection.rollback()
    return bool(found)
