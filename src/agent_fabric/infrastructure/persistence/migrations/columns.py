"""Columns as the schema has them, and where all tables are described."""

from sqlalchemy import BigInteger, Column, Double, Identity, LargeBinary, MetaData, Text, text

METADATA = MetaData()
"""All tables, as soon as `tables` was imported."""


def number(name: str, *, key: bool = False, default: str | None = None, null: bool = False) -> "Column[int]":
    """Return a column with whole numbers."""
    given = None if default is None else text(default)
    return Column(name, BigInteger, primary_key=key, autoincrement=False, nullable=null, server_default=given)


def counter(name: str) -> "Column[int]":
    """Return a key that the database counts."""
    return Column(name, BigInteger, Identity(always=False), primary_key=True)


def words(
    name: str, *, key: bool = False, unique: bool = False, default: str | None = None, null: bool = False
) -> "Column[str]":
    """Return a column with text."""
    given = None if default is None else text(default)
    return Column(name, Text, primary_key=key, unique=unique or None, nullable=null, server_default=given)


def real(name: str, *, key: bool = False, default: str | None = None, null: bool = False) -> "Column[float]":
    """Return a column with fractions, such as times."""
    given = None if default is None else text(default)
    return Column(name, Double, primary_key=key, nullable=null, server_default=given)


def octets(name: str, *, key: bool = False, unique: bool = False, null: bool = False) -> "Column[bytes]":
    """Return a column with bytes."""
    return Column(name, LargeBinary, primary_key=key, unique=unique or None, nullable=null)
