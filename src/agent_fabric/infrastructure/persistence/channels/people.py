"""The tables of people on channels and of the codes that senders were shown."""

from collections.abc import Sequence
from typing import Any

from agent_fabric.domain.audit.acts import Act
from agent_fabric.domain.channels.addresses import Place, Sender
from agent_fabric.domain.channels.pairing import CODE_LASTS_S, PairingRequest, Person, ShowCode, pairing_step
from agent_fabric.domain.errors import PairingNotFound
from agent_fabric.infrastructure.persistence.audit.act_log import add_act
from agent_fabric.infrastructure.persistence.audit.chain_writer import ChainWriter
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, storable

_PEOPLE = "channel, account, sender, user_name, chat, paired_at, paired_by"
_PAIRINGS = "code, channel, account, sender, chat, created_at"


class SqlChannelPeople:
    """PeopleStore over the database."""

    def __init__(self, database: Database, chain: ChainWriter) -> None:
        self._database = database
        self._chain = chain

    async def find(self, sender: Sender) -> Person | None:
        query = f"SELECT {_PEOPLE} FROM channel_people WHERE channel = ? AND account = ? AND sender = ?"  # noqa: S608 - ours
        row = await self._database.read_briefly(lambda connection: connection.execute(query, _key(sender)).fetchone())
        return None if row is None else _person(row)

    async def list(self) -> Sequence[Person]:
        query = f"SELECT {_PEOPLE} FROM channel_people ORDER BY user_name, channel, account, sender"  # noqa: S608 - ours
        rows = await self._database.read(lambda connection: connection.execute(query).fetchall())
        return [_person(row) for row in rows]

    async def ask(self, request: PairingRequest) -> bool:
        dead = "DELETE FROM channel_pairings WHERE created_at <= ?"
        waiting = f"SELECT {_PAIRINGS} FROM channel_pairings WHERE channel = ? AND account = ?"  # noqa: S608 - ours
        keep = (
            f"INSERT INTO channel_pairings ({_PAIRINGS}) VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608 - ours
            " ON CONFLICT (code) DO NOTHING RETURNING 1"
        )
        sender, now = request.sender, request.created_at
        values = (request.code, *_key(sender), storable(request.place.chat), now)

        def shows_code(connection: SqlConnection) -> bool:
            rows = connection.execute(waiting, _key(sender)[:2]).fetchall()
            return isinstance(pairing_step(sender, [_request(row) for row in rows], now=now), ShowCode)

        if not await self._database.read_briefly(shows_code):
            return False  # a thousand strangers cost no transaction each

        def write(connection: SqlConnection) -> bool:
            connection.execute(dead, (now - CODE_LASTS_S,))
            if not shows_code(connection):
                return False
            return bool(connection.execute(keep, values).fetchall())

        return await self._database.write(write)

    async def pair(self, code: str, user: str, *, now: float, act: Act | None) -> Person:
        take = f"DELETE FROM channel_pairings WHERE code = ? RETURNING {_PAIRINGS}"  # noqa: S608 - ours
        keep = (
            f"INSERT INTO channel_people ({_PEOPLE}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - ours
            " ON CONFLICT (channel, account, sender) DO UPDATE SET user_name = excluded.user_name,"
            " chat = excluded.chat, paired_at = excluded.paired_at, paired_by = excluded.paired_by"
        )

        def write(connection: SqlConnection) -> Person | None:
            row = connection.execute(take, (storable(code),)).fetchone()
            if row is None or _request(row).expires_at <= now:
                return None
            found = _request(row)
            person = Person(
                sender=found.sender,
                user=user,
                place=found.place,
                paired_at=now,
                paired_by=act.by if act is not None else "",
            )
            values = (*_key(found.sender), storable(user), found.place.chat, now, storable(person.paired_by))
            connection.execute(keep, values)
            add_act(connection, self._chain, act)
            return person

        person = await self._database.write(write)
        if person is None:
            raise PairingNotFound(
                "No such pairing code is waiting",
                hint="A code lasts for an hour and is used once. The person gets a new one by writing to the bot.",
            )
        return person

    async def unpair(self, sender: Sender, *, act: Act | None) -> bool:
        query = "DELETE FROM channel_people WHERE channel = ? AND account = ? AND sender = ? RETURNING 1"

        def write(connection: SqlConnection) -> bool:
            done = bool(connection.execute(query, _key(sender)).fetchall())
            if done:
                add_act(connection, self._chain, act)
            return done

        return await self._database.write(write)


def _key(sender: Sender) -> tuple[str, str, str]:
    return storable(sender.channel), storable(sender.account), storable(sender.id)


def _person(row: Sequence[Any]) -> Person:
    channel, account, sender, user, chat, paired_at, paired_by = row
    return Person(
        sender=Sender(channel, account, sender),
        user=user,
        place=Place(channel, account, chat),
        paired_at=float(paired_at),
        paired_by=paired_by,
    )


def _request(row: Sequence[Any]) -> PairingRequest:
    code, channel, account, sender, chat, created_at = row
    return PairingRequest(
        code=code,
        sender=Sender(channel, account, sender),
        place=Place(channel, account, chat),
        created_at=float(created_at),
    )
