"""Somebody who has not written for a day, on a platform that lets nothing through to them then (CH-13)."""

from dataclasses import replace

from agent_fabric.application.channels.deliver_parts import KNOCK
from agent_fabric.application.channels.replies import plain_part
from agent_fabric.application.ports.channels import UNDELIVERED
from agent_fabric.domain.channels.addresses import Place, Sender
from agent_fabric.domain.channels.deliveries import WINDOW_CLOSED, DeliveryStatus, Refused
from agent_fabric.domain.channels.inbound import DeliveryReport
from agent_fabric.domain.channels.pairing import PairingRequest
from unit.application.channels.world import World

PLACE = Place("scripted", "1", "7")


async def _sent(world: World, text: str = "It is done.") -> None:
    await world.store.outbox.put([plain_part("step:1", PLACE, text, at=world.clock.now())])
    await world.run.step()
    world.clock.time += 2
    await world.run.step()


async def test_they_are_asked_to_write_and_then_get_what_waited() -> None:
    world = World()
    await world.add("ann")
    world.channel.outcomes = [Refused(WINDOW_CLOSED)]
    await _sent(world)
    assert world.texts == ["It is done.", KNOCK]
    assert world.channel.sent[1].is_knock
    assert world.alerts == []
    await world.handle._send_what_waited(PLACE)
    await world.run.step()
    assert world.texts[-1] == "It is done."
    assert [each.status for each in await world.store.deliveries.list()] == [DeliveryStatus.SENT] * 2


async def test_what_has_waited_for_more_than_a_week_is_not_wanted_any_more() -> None:
    world = World()
    await world.add("ann")
    world.channel.outcomes = [Refused(WINDOW_CLOSED)]
    await _sent(world)
    world.clock.time += 8 * 86_400
    await world.handle._send_what_waited(PLACE)
    await world.run.step()
    assert world.texts == ["It is done.", KNOCK]


async def test_without_a_template_an_alert_is_raised() -> None:
    world = World()
    await world.add("ann")
    world.channel.outcomes = [Refused(WINDOW_CLOSED), Refused("no template is set")]
    await _sent(world)
    assert world.alerts == [UNDELIVERED]


async def test_one_knock_a_day_is_enough() -> None:
    world = World()
    await world.add("ann")
    world.channel.outcomes = [Refused(WINDOW_CLOSED)]
    await _sent(world)
    world.channel.outcomes = [Refused(WINDOW_CLOSED)]
    await world.store.outbox.put([plain_part("step:2", PLACE, "And this.", at=world.clock.now())])
    await world.run.step()
    assert world.texts.count(KNOCK) == 1


async def test_a_report_that_comes_later_has_the_same_effect() -> None:
    world = World()
    await world.add("ann")
    await _sent(world)
    [part] = await world.store.deliveries.list()
    assert part.status is DeliveryStatus.SENT
    report = DeliveryReport(
        key="r1",
        place=PLACE,
        part_id=part.id,
        message_id=part.message_id,
        has_arrived=False,
        problem=WINDOW_CLOSED,
        sent_at=world.clock.now(),
    )
    await world.store.inbound.add([report], now=world.clock.now())
    await world.run.step()
    assert (await world.sent_as(part)).status is DeliveryStatus.FAILED
    world.clock.time += 2
    await world.run.step()
    assert world.texts[-1] == KNOCK
    # That it was delivered, said after that, changes nothing.
    await world.store.inbound.add([replace(report, key="r2", has_arrived=True)], now=world.clock.now())
    await world.run.step()
    assert (await world.sent_as(part)).status is DeliveryStatus.FAILED


async def test_anything_else_that_is_refused_raises_an_alert() -> None:
    world = World()
    await world.add("ann")
    world.channel.outcomes = [Refused("bot was blocked by the user")]
    await _sent(world)
    assert (world.texts, world.alerts) == (["It is done."], [UNDELIVERED])


async def test_a_message_of_theirs_opens_the_window() -> None:
    world = World()
    await world.add("ann")
    sender, place = Sender("whatsapp", "1", "7"), Place("whatsapp", "1", "7")
    world.channel.status.channel = "whatsapp"
    person = (await world.store.people.list())[0]
    request = PairingRequest(code="whats-app", sender=sender, place=place, created_at=world.clock.now())
    assert await world.store.people.ask(request)
    await world.store.people.pair("whats-app", person.user, now=world.clock.now(), act=None)
    await world.store.outbox.put([plain_part("step:1", place, "It is done.", at=world.clock.now())])
    world.channel.outcomes = [Refused(WINDOW_CLOSED)]
    await world.run.step()
    await world.write("/status", place=place, sender=sender)
    assert world.texts.count("It is done.") == 2
