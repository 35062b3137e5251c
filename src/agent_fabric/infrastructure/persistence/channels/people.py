"""The tables of people on channels, of the codes that senders were shown, and of where users want to be notified."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agent_fabric.domain.audit.acts import Act
from agent_fabric.domain.channels.addresses import Place, Sender
from agent_fabric.domain.channels.notices import NotifyPreference
from agent_fabric.domain.channels.pairing import CODE_LASTS_S, PairingRequest, Person, may_show_code
from agent_fabric.domain.errors import PairingNotFound
from agent_fabric.infrastructure.persistence.audit.chain_writer import ChainWriter, add_act
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection
from agent_fabric.infrastructure.persistence.table import Codec, Table


def _person(channel: str, account: str, sender: str, user_name: str, chat: str, **rest: Any) -> Person:
    return Person(sender=Sender(channel, account, sender), user=user_name, place=Place(channel, account, chat), **rest)


def _request(channel: str, account: str, sender: str, chat: str, **rest: Any) -> PairingRequest:
    return PairingRequest(sender=Sender(channel, account, sender), place=Place(channel, account, chat), **rest)


def _sender(sender: Sender) -> dict[str, str]:
    return {"channel": sender.channel, "account": sender.account, "sender": sender.id}


def _split_person(person: Person) -> Mapping[str, Any]:
    rest = {"user_name": person.user, "chat": person.place.chat, "paired_by": person.paired_by}
    return {**_sender(person.sender), **rest, "paired_at": person.paired_at}


def _split_request(request: PairingRequest) -> Mapping[str, Any]:
    rest = {"code": request.code, "chat": request.place.chat, "created_at": request.created_at}
    return {**_sender(request.sender), **rest}


_SENDER: Final = "channel = ? AND account = ? AND sender = ?"
_PEOPLE: Final = Table(
    "channel_people",
    _person,
    key="channel account sender",
    columns="channel account sender user_name chat paired_at paired_by",
    split=_split_person,
)
_PAIRINGS: Final = Table(
    "channel_pairings",
    _request,
    key="code",
    columns="code channel account sender chat created_at",
    split=_split_request,
)
_WORDS: Final = Codec(lambda stored: tuple(stored.split()), " ".join)
_PREFERENCES: Final = Table(
    "channel_notify", NotifyPreference, key="user_name", renamed={"user": "user_name"}, approvals=_WORDS, alerts=_WORDS
)


class SqlChannelPeople:
    """PeopleStore over the database."""

    def __init__(self, database: Database, chain: ChainWriter) -> None:
        self._database = database
        self._chain = chain
        self._people = _PEOPLE.within(database)

    async def find(self, sender: Sender) -> Person | None:
        return await self._people.find(_SENDER, *_sender(sender).values())

    async def list(self) -> Sequence[Person]:
        return await self._people.rows("ORDER BY user_name, channel, account, sender")

    async def ask(self, request: PairingRequest) -> bool:
        sender, now = request.sender, request.created_at

        def shows_code(connection: SqlConnection) -> bool:
            waiting = _PAIRINGS.rows(connection, "WHERE channel = ? AND account = ?", sender.channel, sender.account)
            return may_show_code(sender, waiting, now=now)

        if not await self._database.read_briefly(shows_code):
            return False  # a thousand unknown senders cost no transaction each

        def write(connection: SqlConnection) -> bool:
            _PAIRINGS.delete(connection, "created_at <= ?", now - CODE_LASTS_S)
            return shows_code(connection) and _PAIRINGS.add(connection, request)

        return await self._database.write(write)

    async def pair(self, code: str, user: str, *, now: float, act: Act | None) -> Person:
        def write(connection: SqlConnection) -> Person | None:
            found = _PAIRINGS.find(connection, "code = ?", code)
            _PAIRINGS.delete(connection, "code = ?", code)
            if found is None or found.expires_at <= now:
                return None
            by = act.by if act is not None else ""
            person = Person(sender=found.sender, user=user, place=found.place, paired_at=now, paired_by=by)
            _PEOPLE.put(connection, person)
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
        def write(connection: SqlConnection) -> bool:
            done = bool(_PEOPLE.delete(connection, _SENDER, *_sender(sender).values()))
            if done:
                add_act(connection, self._chain, act)
            return done

        return await self._database.write(write)


class SqlNotifyPreferences:
    """NotifyStore over the database."""

    def __init__(self, database: Database, chain: ChainWriter) -> None:
        self._database = database
        self._chain = chain
        self._preferences = _PREFERENCES.within(database)

    async def find(self, user: str) -> NotifyPreference:
        return await self._preferences.find("user_name = ?", user) or NotifyPreference(user=user)

    async def list(self) -> Sequence[NotifyPreference]:
        return await self._preferences.rows("ORDER BY user_name")

    async def save(self, preference: NotifyPreference, *, act: Act | None) -> None:
        def write(connection: SqlConnection) -> None:
            _PREFERENCES.put(connection, preference)
            add_act(connection, self._chain, act)

        await self._database.write(write)
