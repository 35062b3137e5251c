"""A table, described once by the class of its rows: its statements, and rows to objects and back.

The fields of the class are columns, each through its codec where the database has no such type. Columns that are no
fields (counters, marks of processes) are left to written SQL. Statements are put together once, and queries that are
more than a condition stay written SQL. What makes the tables is `migrations/steps`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, Generic, NamedTuple, TypeVar

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.infrastructure.persistence.sql import Condition, Database, SqlConnection, marks, storable
from agent_fabric.wire.json_codec import dump_json, load_json

T = TypeVar("T")
_LAST_CHARACTER: Final = "\U0010ffff"


class Codec(NamedTuple):
    """How a column becomes a value of a field, and back. NULL is None without it."""

    load: Callable[[Any], Any]
    save: Callable[[Any], Any] | None = None
    """Only where the value itself cannot be stored: texts, enumerations of texts, numbers and bytes can."""


FLAG: Final = Codec(bool)


def json_text(load: Callable[[Any], Any] | None = None, save: Callable[[Any], Any] = dict) -> Codec:
    """Return the codec of JSON as text; `save` makes what JSON knows of a value, `load` the value of that."""
    if load is None:
        return Codec(lambda stored: load_json(stored.encode()), lambda value: dump_json(save(value)).decode())
    return Codec(lambda stored: load(load_json(stored.encode())), lambda value: dump_json(save(value)).decode())


def json_bytes(save: Callable[[Any], Any] = dict) -> Codec:
    """Return the codec of JSON as bytes."""
    return Codec(load_json, lambda value: dump_json(save(value)))


class Table(Generic[T]):
    """A table whose rows are of one class. Texts among values may be any: they are made storable."""

    def __init__(
        self,
        name: str,
        row: Callable[..., T],
        /,
        *,
        key: str,
        columns: str = "",
        renamed: Mapping[str, str] | None = None,
        split: Callable[[T], Mapping[str, Any]] | None = None,
        **codecs: Codec,
    ) -> None:
        """Describe a table.

        Args:
            name: Its name.
            row: The class of its rows, or what makes one of the columns by name.
            key: The columns that no two rows share.
            columns: The columns that make a row; those of the fields of `row`, if it is a dataclass.
            renamed: Columns by the name of their field, where that is another one.
            split: Returns the columns of an object, if `row` is no dataclass.
            codecs: By the name of the field.
        """
        self.name = name
        self.key = key.split()
        named = renamed or {}
        found = columns.split() or ([each.name for each in fields(row)] if is_dataclass(row) else [])
        self.columns = tuple(named.get(field, field) for field in found)
        """The columns that a row is made of."""
        self.names = ", ".join(self.columns)
        self.select = f"SELECT {self.names} FROM {name}"  # noqa: S608 - names of ours, here and below
        self._row = row
        self._fields = tuple(found)
        self._loads = [(field, codec.load) for field, codec in codecs.items()]
        self._saves = {named.get(field, field): codec.save for field, codec in codecs.items() if codec.save is not None}
        self._split = self._split_fields if split is None else split
        self._values = attrgetter(*found)
        self._insert = lru_cache(self._inserting)

    def load(self, row: Sequence[Any]) -> T:
        """Return the object of a row with the columns `names`."""
        values = dict(zip(self._fields, row, strict=True))
        for name, load in self._loads:
            if values[name] is not None:
                values[name] = load(values[name])
        return self._row(**values)

    def values(self, item: T, **more: Any) -> dict[str, Any]:
        """Return the columns of an object as they are stored, with those of `more`."""
        return self.encode({**self._split(item), **more})

    def _split_fields(self, item: T) -> Mapping[str, Any]:
        return dict(zip(self.columns, self._values(item), strict=True))

    def encode(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return values of columns as they are stored."""
        saves = self._saves
        return {
            name: plain(saves[name](value) if value is not None and name in saves else value)
            for name, value in changes.items()
        }

    def find(self, connection: SqlConnection, where: str, *values: Any) -> T | None:
        """Return the row under a condition, the first of several."""
        row = connection.execute(f"{self.select} WHERE {where}", [*map(plain, values)]).fetchone()
        return None if row is None else self.load(row)

    def rows(self, connection: SqlConnection, rest: str = "", *values: Any) -> list[T]:
        """Return rows; `rest` follows the name of the table."""
        return [*map(self.load, connection.execute(f"{self.select} {rest}", [*map(plain, values)]).fetchall())]

    def insert(self, connection: SqlConnection, item: T, **more: Any) -> None:
        """Insert a row.

        Raises:
            UniqueViolation: there is one with its key.
        """
        values = self.values(item, **more)
        connection.execute(self._insert((*values,), ""), [*values.values()])

    def add(self, connection: SqlConnection, item: T, **more: Any) -> bool:
        """Insert a row; False: there is one with its key."""
        values = self.values(item, **more)
        query = self._insert((*values,), " ON CONFLICT DO NOTHING RETURNING 1")
        return bool(connection.execute(query, [*values.values()]).fetchall())

    def statement(self, item: T) -> tuple[str, list[Any]]:
        """Return the statement that inserts a row, unless there is one with its key, and its values."""
        values = self.values(item)
        return self._insert((*values,), " ON CONFLICT DO NOTHING"), [*values.values()]

    def add_all(self, connection: SqlConnection, items: Iterable[T], **more: Any) -> None:
        """Insert rows; one whose key is there already stays as it is."""
        rows = [self.values(item, **more) for item in items]
        if rows:
            query = self._insert((*rows[0],), " ON CONFLICT DO NOTHING")
            connection.executemany(query, [[*row.values()] for row in rows])

    def put(self, connection: SqlConnection, item: T, *, changes: Sequence[str] = (), **more: Any) -> None:
        """Insert a row, or write over the one with its key: all of it, or the columns `changes`."""
        values = self.values(item, **more)
        names = changes or [name for name in values if name not in self.key]
        over = ", ".join(f"{name} = excluded.{name}" for name in names)
        query = self._insert((*values,), f" ON CONFLICT ({', '.join(self.key)}) DO UPDATE SET {over}")
        connection.execute(query, [*values.values()]).fetchall()

    def update(self, connection: SqlConnection, changes: Mapping[str, Any], where: str, *values: Any) -> int:
        """Change columns of the rows under a condition; return how many there were."""
        return len(connection.execute(*self.updating(changes, where, *values)).fetchall())

    def updating(self, changes: Mapping[str, Any], where: str, *values: Any) -> tuple[str, list[Any]]:
        """Return the statement that changes columns and returns the rows, and its values."""
        encoded = self.encode(changes)
        assigned = ", ".join(f"{name} = ?" for name in encoded)
        query = f"UPDATE {self.name} SET {assigned} WHERE {where} RETURNING {self.names}"  # noqa: S608
        return query, [*encoded.values(), *map(plain, values)]

    def delete(self, connection: SqlConnection, where: str, *values: Any) -> int:
        """Delete the rows under a condition; return how many there were."""
        query = f"DELETE FROM {self.name} WHERE {where} RETURNING 1"  # noqa: S608
        return len(connection.execute(query, [*map(plain, values)]).fetchall())

    def within(self, database: Database) -> "StoredTable[T]":
        """Return the table of a database."""
        return StoredTable(database, self)

    def _inserting(self, names: tuple[str, ...], conflict: str) -> str:
        return f"INSERT INTO {self.name} ({', '.join(names)}) VALUES ({marks(names)}){conflict}"  # noqa: S608


@dataclass(frozen=True, slots=True)
class StoredTable(Generic[T]):
    """A table of a database: each call is a read or a transaction of its own. See `Table` for what they do."""

    database: Database
    table: Table[T]

    async def find(self, where: str, *values: Any) -> T | None:
        """Return a row that takes microseconds to find."""
        return await self.database.read_briefly(lambda connection: self.table.find(connection, where, *values))

    async def rows(self, rest: str = "", *values: Any) -> list[T]:
        """Return rows."""
        return await self.database.read(lambda connection: self.table.rows(connection, rest, *values))

    async def add(self, item: T, **more: Any) -> bool:
        """Insert a row."""
        return await self.database.write(lambda connection: self.table.add(connection, item, **more))

    async def add_all(self, items: Iterable[T], **more: Any) -> None:
        """Insert rows."""
        await self.database.write(lambda connection: self.table.add_all(connection, items, **more))

    async def put(self, item: T, **more: Any) -> None:
        """Insert a row or write over it."""
        await self.database.write(lambda connection: self.table.put(connection, item, **more))

    async def update(self, changes: Mapping[str, Any], where: str, *values: Any) -> int:
        """Change rows."""
        return await self.database.write(lambda connection: self.table.update(connection, changes, where, *values))

    async def delete(self, where: str, *values: Any) -> int:
        """Delete rows."""
        return await self.database.write(lambda connection: self.table.delete(connection, where, *values))


async def fetch(database: Database, query: str, *values: Any) -> list[Any]:
    """Return the rows of a query; texts among its values may be any."""
    return await database.read(lambda connection: connection.execute(query, _storable(values)).fetchall())


async def fetch_briefly(database: Database, query: str, *values: Any) -> Any:
    """Return the first row of a query that takes microseconds; None: there is none."""
    return await database.read_briefly(lambda connection: connection.execute(query, _storable(values)).fetchone())


def _storable(values: Iterable[Any]) -> list[Any]:
    return [storable(value) if isinstance(value, str) else value for value in values]


def plain(value: Any) -> Any:
    """Return a value as both databases take it."""
    if isinstance(value, str):
        return storable(value)
    return int(value) if isinstance(value, bool) else value


def begins_with(column: str, prefix: str) -> Condition:
    """Return the condition that a text begins so, as an index finds it."""
    return Condition(f"{column} >= ? AND {column} < ?", (storable(prefix), storable(prefix) + _LAST_CHARACTER))


def matching(**wanted: Any) -> Condition:
    """Return the condition that columns have the wanted values, or one of them; what is empty may be any."""
    parts, values = ["1 = 1"], list[Any]()
    for column, value in wanted.items():
        several = value if isinstance(value, (tuple, list, set, frozenset)) else (value,) if value else ()
        if several:
            parts.append(f"{column} = ?" if len(several) == 1 else f"{column} IN ({marks([*several])})")
            values += several
    return Condition(" AND ".join(parts), (*map(plain, values),))
