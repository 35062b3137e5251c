"""What every store of channels promises (CH-2, CH-5, CH-6, CH-11)."""

import asyncio
from dataclasses import replace

import pytest

from agent_fabric.application.ports.channels import ChannelStore, Conversation, PendingTurn
from agent_fabric.domain.audit.acts import Act, Deed
from agent_fabric.domain.channels.addresses import Place, Sender
from agent_fabric.domain.channels.deliveries import Button, DeliveryStatus, Part, PartKind, Settlement
from agent_fabric.domain.channels.files import StoredFile
from agent_fabric.domain.channels.inbound import ButtonPress, ChatMoved, Inbound, InboundFile, InboundMessage
from agent_fabric.domain.channels.notices import NotifyPreference
from agent_fabric.domain.channels.pairing import CODE_LASTS_S, PairingRequest
from agent_fabric.domain.errors import PairingNotFound
from agent_fabric.domain.ids import RunId, SessionId

PLACE = Place("telegram", "42", "7")
GROUP = Place("telegram", "42", "-5", "9", is_direct=False)
ANN = Sender("telegram", "42", "7")
ASKED = PairingRequest(code="ABCDEFGH", sender=ANN, place=PLACE, created_at=100.0)
SAID = InboundMessage(
    key="u1",
    place=PLACE,
    sender=ANN,
    text="hello \x00 \ud800",
    sent_at=99.0,
    files=(InboundFile(file_id="f", name="a.txt", size=3),),
)
ACT = Act(at=101.0, by="root", credential="local", deed=Deed.CHANNEL_PAIRED.value, about="ann")
PART = Part(
    source="run",
    place=PLACE,
    text="<b>x</b>",
    plain="x",
    buttons=(Button("Yes", "v1"),),
    facts={"nonce": "n"},
    created_at=1.0,
)


class ChannelContract:
    async def test_a_preference_is_kept_instead_of_the_one_before(self, channels: ChannelStore) -> None:
        assert await channels.notify.find("ann") == NotifyPreference(user="ann")
        first = NotifyPreference(user="ann", approvals=("telegram", "webhook:ops"), quiet_hours="22:00-07:00")
        for each in (first, replace(first, timezone="Europe/Berlin")):
            await channels.notify.save(each, act=ACT)
            assert await channels.notify.find("ann") == each
        assert [each.user for each in await channels.notify.list()] == ["ann"]

    async def test_files_wait_for_their_turn_and_are_there_once(self, channels: ChannelStore) -> None:
        run_id, big = RunId("r1"), bytes(range(256)) * 2_000
        await channels.files.put(run_id, [StoredFile("inbox/b", b"x"), StoredFile("inbox/a", big)], now=1.0)
        await channels.files.put(run_id, [StoredFile("inbox/b", b"other")], now=2.0)
        await channels.files.put(RunId("r2"), [StoredFile("inbox/b", b"")], now=1.0)
        assert await channels.files.list(run_id) == [StoredFile("inbox/a", big), StoredFile("inbox/b", b"x")]
        await channels.files.discard(run_id)
        assert await channels.files.list(run_id) == []
        assert await channels.files.list(RunId("r2")) == [StoredFile("inbox/b", b"")]

    async def test_only_the_platform_overrules_that_something_was_sent(self, channels: ChannelStore) -> None:
        await channels.outbox.put([PART])
        await channels.outbox.settle(PART, Settlement(status=DeliveryStatus.SENT, message_id="1"), now=2.0)
        late = Settlement(status=DeliveryStatus.FAILED, problem="no")
        await channels.outbox.settle(PART, late, now=3.0)
        assert [each.status for each in await channels.deliveries.list()] == [DeliveryStatus.SENT]
        await channels.outbox.settle(PART, replace(late, overrules=True), now=3.0)
        assert [(each.status, each.problem) for each in await channels.deliveries.list()] == [("failed", "no")]

    async def test_what_is_old_and_done_is_deleted(self, channels: ChannelStore) -> None:
        await channels.inbound.add([SAID, replace(SAID, key="u2"), replace(SAID, key="u3")], now=10.0)
        await channels.inbound.settle([(SAID, "done")])
        await channels.inbound.add([replace(SAID, key="u4")], now=30.0)
        await channels.inbound.settle([(replace(SAID, key="u4"), "done")])
        sent = replace(PART, source="old")
        await channels.outbox.put([sent, PART])
        await channels.outbox.settle(sent, Settlement(status=DeliveryStatus.SENT, message_id="1"), now=2.0)
        assert await channels.prune(20.0) == 2
        assert await channels.inbound.add([SAID, replace(SAID, key="u2"), replace(SAID, key="u4")], now=40.0) == 1
        assert [each.source for each in await channels.deliveries.list()] == ["run"]

    async def test_what_waits_for_the_morning_holds_up_nothing(self, channels: ChannelStore) -> None:
        held = replace(PART, source="alert", is_held=True, next_at=50.0)
        await channels.outbox.put([held, PART])
        assert [each.source for each in await channels.outbox.due("telegram", "42", 10.0, limit=9)] == ["run"]
        due = await channels.outbox.due("telegram", "42", 60.0, limit=9)
        assert [(each.source, each.is_held) for each in due] == [("run", False), ("alert", True)]

    async def test_a_code_is_kept_once_and_makes_a_stranger_a_user(self, channels: ChannelStore) -> None:
        people = channels.people
        assert await people.ask(ASKED)
        assert not await people.ask(replace(ASKED, code="BBBBBBBB"))
        person = await people.pair("ABCDEFGH", "ann", now=101.0, act=ACT)
        assert (person.user, person.sender, person.place, person.paired_by) == ("ann", ANN, PLACE, "root")
        assert await people.find(ANN) == person
        assert await people.list() == [person]
        with pytest.raises(PairingNotFound):
            await people.pair("ABCDEFGH", "eve", now=101.0, act=ACT)
        assert await people.unpair(ANN, act=None)
        assert not await people.unpair(ANN, act=None)
        assert await people.find(ANN) is None

    async def test_a_code_that_admins_enter_at_once_is_used_once(self, channels: ChannelStore) -> None:
        people = channels.people
        assert await people.ask(ASKED)
        racing = (people.pair("ABCDEFGH", f"user{number}", now=101.0, act=None) for number in range(8))
        done = await asyncio.gather(*racing, return_exceptions=True)
        [person] = [each for each in done if not isinstance(each, BaseException)]
        assert [type(each) for each in done if each is not person] == [PairingNotFound] * 7
        assert await people.find(ANN) == person

    async def test_a_code_ends_after_an_hour_and_three_wait_at_most(self, channels: ChannelStore) -> None:
        for each in range(4):
            sender = Sender("telegram", "42", f"s{each}")
            kept = await channels.people.ask(replace(ASKED, code=f"AAAAAAA{each + 2}", sender=sender))
            assert kept == (each < 3)
        with pytest.raises(PairingNotFound):
            await channels.people.pair("AAAAAAA2", "ann", now=100.0 + CODE_LASTS_S, act=None)

    async def test_what_came_is_known_by_its_key_and_keeps_its_order(self, channels: ChannelStore) -> None:
        log = channels.inbound
        press = ButtonPress(key="u3", place=GROUP, sender=ANN, data="d", message_id="5", sent_at=1.0)
        moved = ChatMoved(key="u4", place=GROUP, to_chat="-100", sent_at=2.0)
        came: list[Inbound] = [SAID, replace(SAID, key="u2", text="second"), press, moved]
        assert await log.add(came, now=1.0) == 4
        assert await log.add(came, now=2.0) == 0
        first = await log.pending("telegram", "42", limit=9)
        assert [each.key for each in first] == ["u1", "u3"]
        assert first[1] == press
        assert isinstance(first[0], InboundMessage)
        assert first[0].files == SAID.files
        await log.settle([(first[0], "run"), (first[1], "pressed")])
        assert [each.key for each in await log.pending("telegram", "42", limit=9)] == ["u2", "u4"]
        assert await log.add([SAID], now=3.0) == 0
        assert await log.pending("telegram", "43", limit=9) == []

    async def test_a_session_is_held_at_one_place_and_moves_with_its_chat(self, channels: ChannelStore) -> None:
        held = Conversation(SessionId("s1"), GROUP, ANN)
        await channels.conversations.bind(held)
        assert await channels.conversations.find(GROUP) == held
        await channels.outbox.put([replace(PART, place=GROUP)])
        turn = PendingTurn(RunId("r1"), GROUP, ANN, "5")
        await channels.turns.add(turn)
        await channels.conversations.move(GROUP, "-100")
        there = replace(GROUP, chat="-100")
        assert await channels.conversations.find(GROUP) is None
        assert await channels.conversations.find(there) == held._replace(place=there)
        [part] = await channels.outbox.due("telegram", "42", 5.0, limit=9)
        assert part.place == there
        assert await channels.turns.find(RunId("r1")) == turn._replace(place=there)
        assert await channels.outbox.begin(part, now=1.0)
        await channels.conversations.bind(held._replace(session_id=SessionId("s2"), place=there))
        assert await channels.conversations.find(there) == held._replace(session_id=SessionId("s2"), place=there)

    async def test_a_part_is_there_once_and_sent_by_one(self, channels: ChannelStore) -> None:
        await channels.outbox.put([PART])
        await channels.outbox.put([replace(PART, text="other")])
        [part] = await channels.outbox.due("telegram", "42", 5.0, limit=9)
        assert part == PART
        assert await channels.outbox.begin(part, now=1.0)
        assert not await channels.outbox.begin(part, now=1.0)
        assert await channels.outbox.due("telegram", "42", 5.0, limit=9) == []
        assert [each.id for each in await channels.deliveries.list(statuses=[DeliveryStatus.SENDING])] == [PART.id]
        await channels.outbox.settle(part, Settlement(status=DeliveryStatus.SENT, message_id="77"), now=6.0)
        found = await channels.deliveries.of_message(PLACE, "77")
        assert found is not None
        assert (found.status, found.attempts, found.settled_at, found.facts) == ("sent", 1, 6.0, {"nonce": "n"})
        assert await channels.deliveries.of_message(replace(PLACE, chat="8"), "77") is None
        assert await channels.deliveries.of_message(PLACE, "") is None
        assert not await channels.outbox.requeue(part, now=7.0)

    async def test_parts_keep_their_order_and_a_doubt_or_a_card_holds_nothing_up(self, channels: ChannelStore) -> None:
        second = replace(PART, number=1)
        card = replace(PART, source="approval", kind=PartKind.CARD)
        elsewhere = replace(PART, place=GROUP)
        await channels.outbox.put([PART, second, card, elsewhere])
        due = await channels.outbox.due("telegram", "42", 5.0, limit=9)
        assert [each.id for each in due] == [card.id, PART.id, elsewhere.id]
        await channels.outbox.begin(PART, now=1.0)
        await channels.outbox.settle(PART, Settlement(status=DeliveryStatus.IN_DOUBT, problem="cut"), now=6.0)
        assert second.id in [each.id for each in await channels.outbox.due("telegram", "42", 6.0, limit=9)]
        [doubt] = await channels.deliveries.list(statuses=[DeliveryStatus.IN_DOUBT], channel="telegram", chat="7")
        assert await channels.outbox.requeue(doubt, now=9.0)
        assert [each.number for each in await channels.deliveries.of_source("run")] == [0, 0, 1]

    async def test_what_cannot_be_parsed_goes_on_as_plain_text(self, channels: ChannelStore) -> None:
        await channels.outbox.put([PART])
        await channels.outbox.begin(PART, now=1.0)
        settlement = Settlement(status=DeliveryStatus.QUEUED, next_at=8.0, problem="bad tag", as_plain=True)
        await channels.outbox.settle(PART, settlement, now=7.0)
        assert await channels.outbox.due("telegram", "42", 7.0, limit=9) == []
        [part] = await channels.outbox.due("telegram", "42", 8.0, limit=9)
        assert (part.text, part.attempts, part.problem) == ("x", 1, "bad tag")

    async def test_an_answer_is_owed_until_it_is_in_the_outbox(self, channels: ChannelStore) -> None:
        first, second = (PendingTurn(RunId(run), PLACE, ANN, "5") for run in ("r1", "r2"))
        await channels.turns.add(first)
        await channels.turns.add(second)
        await channels.turns.add(first._replace(message_id="other"))
        assert await channels.turns.open("telegram", "42", limit=9) == [first, second]
        assert await channels.turns.open("telegram", "43", limit=9) == []
        await channels.turns.close(RunId("r1"))
        assert await channels.turns.find(RunId("r1")) is None
        assert await channels.turns.open("telegram", "42", limit=9) == [second]
