"""Those who run the server see what went out, and send it again (CH-11)."""

from dataclasses import replace

import pytest

from agent_fabric.application.channels.manage_deliveries import ManageDeliveries
from agent_fabric.application.channels.replies import plain_part
from agent_fabric.domain.channels.addresses import Place
from agent_fabric.domain.channels.deliveries import Accepted, AnswerLost, DeliveryStatus
from agent_fabric.domain.channels.inbound import DeliveryReport
from agent_fabric.domain.errors import ChannelNotFound, Forbidden, InvalidInputs
from unit.application.channels.test_talking import ROOT
from unit.application.channels.world import World


async def test_a_test_message_goes_out_and_a_doubt_goes_again() -> None:
    world = World()
    await world.add("ann")
    manage = ManageDeliveries(world.store, world.storage.approvals, world.clock)
    world.channel.outcomes = [AnswerLost("cut")]
    [part] = await manage.send_test("ann", by=ROOT)
    await world.run.step()
    assert [each.id for each in await manage.list(statuses=[DeliveryStatus.IN_DOUBT])] == [part.id]
    assert (await manage.resend(part.id, by=ROOT)).id == part.id
    await world.run.step()
    assert world.texts.count("A test message, sent by root.") == 2
    with pytest.raises(InvalidInputs):
        await manage.resend(part.id, by=ROOT)
    with pytest.raises(ChannelNotFound):
        await manage.resend("none:0:0:x", by=ROOT)
    with pytest.raises(ChannelNotFound):
        await manage.send_test("eve", by=ROOT)
    with pytest.raises(Forbidden):
        await manage.resend(part.id, by=replace(ROOT, run="a run"))


@pytest.mark.parametrize(
    ("arrived", "status"), [(True, DeliveryStatus.SENT), (False, DeliveryStatus.FAILED)], ids=["arrived", "failed"]
)
async def test_a_report_of_the_platform_settles_a_doubt(arrived: bool, status: DeliveryStatus) -> None:
    world = World()
    await world.add("ann")
    world.channel.outcomes = [AnswerLost("cut")]
    await world.write("/help")
    part = world.channel.sent[0]
    report = DeliveryReport(
        key="r1",
        place=Place("scripted", "1", "7"),
        part_id=part.id,
        message_id="wamid",
        has_arrived=arrived,
        sent_at=0.0,
    )
    await world.store.inbound.add([report], now=1.0)
    await world.run.step()
    assert (await world.sent_as(part)).status is status


async def test_a_doubt_is_looked_up_again_by_the_next_process_if_the_last_one_died_over_it() -> None:
    world = World()
    await world.add("ann")
    part = plain_part("test:1", Place("scripted", "1", "7"), "hi", at=world.clock.now())
    await world.store.outbox.put([part])
    world.channel.outcomes = [AnswerLost("?")]
    await world.run.deliver()
    world.channel.traces = [Accepted("m9")]
    world.clock.time += 30
    assert await World(born_of=world).run.deliver.recover() == 1
    assert (await world.sent_as(part)).status is DeliveryStatus.SENT
    old = plain_part("test:2", Place("scripted", "1", "7"), "hi", at=world.clock.now())
    await world.store.outbox.put([old])
    world.channel.outcomes = [AnswerLost("?")]
    await world.run.deliver()
    world.clock.time += 4_000
    assert await World(born_of=world).run.deliver.recover() == 0


async def test_the_same_words_in_another_message_settle_no_doubt() -> None:
    world = World()
    await world.add("ann")
    place = Place("scripted", "1", "7")
    one, other = (plain_part(f"test:{number}", place, "hi", at=world.clock.now()) for number in (1, 2))
    await world.store.outbox.put([one, other])
    world.channel.outcomes = [Accepted("m1"), AnswerLost("?")]
    world.channel.traces = [Accepted("m1")]
    for _ in range(2):
        await world.run.deliver()
        world.clock.time += 2
    assert (await world.sent_as(one)).status is DeliveryStatus.SENT
    assert (await world.sent_as(other)).status is DeliveryStatus.IN_DOUBT
