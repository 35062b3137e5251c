"""A process that dies anywhere loses nothing, answers nothing twice and lets no outsider approve (CH-18).

The process dies before or after every single thing that it does to the store or the platform, and another one goes on
with what is there. In memory, so every point can be tried.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from agent_fabric.application.ports.approvals import ApprovalStatus
from agent_fabric.domain.channels.addresses import Place, Sender, run_of_message
from agent_fabric.domain.channels.deliveries import DOUBT_NOTE, DeliveryStatus, PartKind
from agent_fabric.domain.channels.inbound import ButtonPress, Inbound, InboundMessage
from agent_fabric.domain.identity.principals import Role
from contract.storage_contract import START
from unit.application.channels.world import World

ID = "abcd1234abcd"
PARTS = ("people", "inbound", "conversations", "turns", "outbox", "deliveries", "notify")


class Died(BaseException):
    """The process is gone."""


@dataclass
class Fate:
    """When the process dies."""

    at: int
    """The how many-th thing that it does."""
    after: bool
    """Whether that was done."""
    done: int = 0

    def wrap(self, inner: Any) -> Any:
        return Mortal(inner, self)


class Mortal:
    """Does what something does, until the process dies."""

    def __init__(self, inner: Any, fate: Fate) -> None:
        self._inner, self._fate = inner, fate

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name in PARTS:
            return Mortal(found, self._fate)
        return self._dying(found) if callable(found) and name not in {"render", "plain", "size"} else found

    def _dying(self, call: Callable[..., Any]) -> Callable[..., Any]:
        fate = self._fate

        async def call_or_die(*args: Any, **more: Any) -> Any:
            fate.done += 1
            if fate.done == fate.at and not fate.after:
                raise Died
            found = await call(*args, **more)
            if fate.done == fate.at:
                raise Died
            return found

        return call_or_die


async def _lived(world: World, fate: Fate | None) -> bool:
    """Let a process live until there is nothing to do; False: it has died."""
    born = World(born_of=world, wrap=(lambda each: each) if fate is None else fate.wrap)
    try:
        await born.run.deliver.recover()
        for _ in range(4):
            await born.run.step()
            world.clock.time += 2
    except Died:
        return False
    except BaseExceptionGroup as several:
        assert several.subgroup(Died) is not None, several
        return False
    return True


async def _go(world: World, fate: Fate | None) -> bool:
    if await _lived(world, fate):
        return True
    assert await _lived(world, None)
    return False


def _said(key: str, text: str) -> InboundMessage:
    return InboundMessage(
        key=key,
        place=Place("scripted", "1", "7"),
        sender=Sender("scripted", "1", "7"),
        text=text,
        sent_at=START,
        message_id=key,
    )


async def _scene(world: World) -> None:
    """Ann writes two messages and a command; a run of hers asks; a stranger and she press the button."""
    await world.add("ann")
    await world.add("bob", Role.MEMBER, number="8")
    await world.asks(ID)
    card = next(each for each in world.channel.sent if each.buttons)
    sent = await world.sent_as(card)
    presses = [
        ButtonPress(
            key=f"p{number}",
            place=card.place,
            sender=Sender("scripted", "1", number),
            data=next(each.data for each in card.buttons if each.label == label),
            message_id=sent.message_id,
            sent_at=START,
        )
        for number, label in (("8", "Approve"), ("7", "Deny"))
    ]
    came: list[Inbound] = [
        _said("m1", "hello"),
        _said("m2", "/status"),
        presses[0],
        presses[1],
        _said("m3", "and more"),
    ]
    await world.store.inbound.add(came, now=START)


async def _die_once(fate: Fate) -> bool:
    world = World()
    await _scene(world)
    lived = await _go(world, fate)
    # Everything was handled, once.
    assert await world.store.inbound.pending("scripted", "1", limit=99) == []
    turns = {run_of_message("scripted", "1", key) for key in ("m1", "m3")}
    assert set(world.storage.owed) == turns
    held = await world.store.conversations.find(Place("scripted", "1", "7"))
    assert held is not None
    queued = await world.storage.message_queue.list(held.session_id)
    assert sorted(each.content for each in queued) == ["and more", "hello"]
    decided = await world.storage.approvals.find(ID)
    assert (decided.status, decided.decided_by) == (ApprovalStatus.DENIED, "ann")
    # What went out, went out once; or nobody knows, and the person was told.
    ids = [each.id for each in world.channel.sent if each.kind is not PartKind.EDIT]  # the same text again is the same
    assert len(ids) == len(set(ids))
    parts = await world.store.deliveries.list(limit=999)
    for part in parts:
        assert part.status in (DeliveryStatus.SENT, DeliveryStatus.IN_DOUBT)
    doubts = [each for each in parts if each.status is DeliveryStatus.IN_DOUBT]
    about = [each for each in doubts if not each.source.startswith(("doubt:", "approval:"))]
    assert bool(about) <= (DOUBT_NOTE in world.texts)
    assert len([text for text in world.texts if "under way" in text]) + len(about) >= 1
    return lived


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_every_point_at_which_a_process_can_die(after: bool) -> None:
    deaths = 0
    while not await _die_once(Fate(deaths + 1, after)):
        deaths += 1
    assert deaths > 60
