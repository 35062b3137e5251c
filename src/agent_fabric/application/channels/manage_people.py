"""Decides who on a channel is who."""

from collections.abc import Sequence

from agent_fabric.application.channels.replies import plain_part
from agent_fabric.application.ports.channels import ChannelOutbox, PeopleStore
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.identity import UserRepository
from agent_fabric.domain.audit.acts import Act, Deed
from agent_fabric.domain.channels.addresses import Sender
from agent_fabric.domain.channels.pairing import Person, is_still, paired_text, read_code
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import AccountNotFound, ChannelNotFound, Forbidden
from agent_fabric.domain.identity.accounts import User
from agent_fabric.domain.identity.principals import Kind, Principal, Scope


def principal_of(user: User) -> Principal:
    """Return a user as one who writes on a channel: with all their scopes but `admin`, which no phone has."""
    return Principal(user.name, Kind.USER, frozenset(user.scopes) - {Scope.ADMIN})


@dataclass(frozen=True, slots=True)
class ManagePeople:
    """Use case: pair senders with users, list them, and part them again."""

    people: PeopleStore
    users: UserRepository
    outbox: ChannelOutbox
    clock: Clock

    async def principal(self, sender: Sender) -> Principal | None:
        """Return who a sender is now; None: a stranger, or a user who was disabled or removed."""
        person = await self.people.find(sender)
        user = None if person is None else await self.users.find(person.user)
        return principal_of(user) if person is not None and user is not None and is_still(person, user) else None

    async def pair(self, code: str, user: str, *, by: Principal) -> Person:
        """Make the sender who was shown a code a user, and tell them.

        Raises:
            Forbidden: the caller is no admin, or a run.
            InvalidInputs: it is no code.
            AccountNotFound: there is no such user, or they are disabled.
            PairingNotFound: no one waits with this code.
        """
        require_admin(by, "decide who is who")
        wanted = read_code(code)
        found = await self.users.find(user)
        if found is None or found.disabled:
            raise AccountNotFound(
                f"There is no user {user[:80]!r}, or they are disabled",
                hint="See them with `fabric users list`; add one with `fabric users add NAME`.",
            )
        now = self.clock.now()
        act = Act.of(by, Deed.CHANNEL_PAIRED, at=now, about=user)
        person = await self.people.pair(wanted, user, now=now, act=act)
        await self.outbox.put([plain_part(f"paired:{wanted}", person.place, paired_text(user), at=now)])
        return person

    async def list(self) -> Sequence[Person]:
        return await self.people.list()

    async def unpair(self, user: str, *, channel: str = "", by: Principal) -> Sequence[Person]:
        """Make a user a stranger, on one channel or on all; return whom it was done to.

        Raises:
            Forbidden: the caller is no admin, or a run.
            ChannelNotFound: they are not paired there.
        """
        require_admin(by, "decide who is who")
        found = [
            each for each in await self.people.list() if each.user == user and channel in ("", each.sender.channel)
        ]
        if not found:
            where = f"not paired on {channel}" if channel else "paired nowhere"
            raise ChannelNotFound(f"{user!r} is {where}", hint="See people with `fabric channels people`.")
        for each in found:
            detail = f"{each.sender.channel} {each.sender.id}"
            act = Act.of(by, Deed.CHANNEL_UNPAIRED, at=self.clock.now(), about=user, detail=detail)
            await self.people.unpair(each.sender, act=act)
        return found


def require_admin(by: Principal, to_do: str) -> None:
    """Refuse everyone but an admin, and any run.

    Raises:
        Forbidden: the caller is no admin, or a run.
    """
    if by.run or not by.may(Scope.ADMIN):
        raise Forbidden(f"{by.name} may not {to_do}: it needs the scope 'admin'")
