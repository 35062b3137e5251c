"""The table of where users want to be told."""

from collections.abc import Sequence
from typing import Any, Final

from agent_fabric.domain.audit.acts import Act
from agent_fabric.domain.channels.notices import NotifyPreference
from agent_fabric.infrastructure.persistence.audit.act_log import add_act
from agent_fabric.infrastructure.persistence.audit.chain_writer import ChainWriter
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, storable

_COLUMNS: Final = "user_name, approvals, alerts, quiet_hours, timezone"
_SELECT: Final = f"SELECT {_COLUMNS} FROM channel_notify"  # noqa: S608 - names of ours, here and below


class SqlNotifyPreferences:
    """NotifyStore over the database."""

    def __init__(self, database: Database, chain: ChainWriter) -> None:
        self._database = database
        self._chain = chain

    async def find(self, user: str) -> NotifyPreference:
        query = f"{_SELECT} WHERE user_name = ?"
        row = await self._database.read_briefly(
            lambda connection: connection.execute(query, (storable(user),)).fetchone()
        )
        return NotifyPreference(user=user) if row is None else _preference(row)

    async def list(self) -> Sequence[NotifyPreference]:
        query = f"{_SELECT} ORDER BY user_name"
        rows = await self._database.read(lambda connection: connection.execute(query).fetchall())
        return [_preference(row) for row in rows]

    async def save(self, preference: NotifyPreference, *, act: Act | None) -> None:
        query = (
            f"INSERT INTO channel_notify ({_COLUMNS}) VALUES (?, ?, ?, ?, ?)"  # noqa: S608
            " ON CONFLICT (user_name) DO UPDATE SET approvals = excluded.approvals, alerts = excluded.alerts,"
            " quiet_hours = excluded.quiet_hours, timezone = excluded.timezone"
        )
        values = (
            storable(preference.user),
            " ".join(preference.approvals),
            " ".join(preference.alerts),
            preference.quiet_hours,
            preference.timezone,
        )

        def write(connection: SqlConnection) -> None:
            connection.execute(query, values)
            add_act(connection, self._chain, act)

        await self._database.write(write)


def _preference(row: Sequence[Any]) -> NotifyPreference:
    user, approvals, alerts, quiet_hours, timezone = row
    return NotifyPreference(
        user=user,
        approvals=tuple(approvals.split()),
        alerts=tuple(alerts.split()),
        quiet_hours=quiet_hours,
        timezone=timezone,
    )
