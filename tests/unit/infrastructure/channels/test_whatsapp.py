"""The WhatsApp channel against a stand-in over real sockets (CH-11, CH-13, CH-17, CH-18)."""

from dataclasses import replace

import pytest

from agent_fabric.domain.channels.addresses import Place
from agent_fabric.domain.channels.deliveries import (
    WINDOW_CLOSED,
    Accepted,
    AnswerLost,
    NotReached,
    Part,
    PartKind,
    Refused,
    Throttled,
)
from agent_fabric.domain.channels.files import Document, FileProblem
from agent_fabric.domain.channels.inbound import InboundFile
from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.channels.whatsapp import WhatsAppChannel
from agent_fabric.infrastructure.channels.whatsapp_wire import Template
from agent_fabric.infrastructure.clock import SystemClock
from standins.whatsapp_standin import NUMBER, TOKEN, WhatsAppStandIn

PART = Part(source="run", place=Place("whatsapp", NUMBER, "4917"), text="*hi*", plain="hi")


async def _token() -> str:
    return TOKEN


async def _nothing(_: object) -> None:
    """Nothing comes this way."""


@pytest.mark.parametrize(
    ("fault", "outcome", "arrived"),
    [
        ("", Accepted, 1),
        ("cut_after", AnswerLost, 1),
        ("cut_before", AnswerLost, 0),
        ("131047", Refused, 0),
        ("131056", Throttled, 0),
    ],
)
async def test_what_is_known_after_a_part_was_sent(fault: str, outcome: type[object], arrived: int) -> None:
    async with WhatsAppStandIn() as whatsapp:
        channel = WhatsAppChannel(_token, SystemClock(), phone_number_id=NUMBER, api_base=whatsapp.api_base)
        whatsapp.faults += [fault] if fault else []
        assert isinstance(await channel.send(PART), outcome)
        assert [each["text"]["body"] for each in whatsapp.messages] == ["*hi*"] * arrived
        await channel.aclose()


async def test_a_long_answer_is_a_document_whose_type_whatsapp_takes() -> None:
    async with WhatsAppStandIn() as whatsapp:
        channel = WhatsAppChannel(_token, SystemClock(), phone_number_id=NUMBER, api_base=whatsapp.api_base)
        file = replace(PART, kind=PartKind.FILE, text="", plain="The whole answer")
        for number, name in enumerate(("answer.md", "a.pdf", "a.json", "a.bin")):
            outcome = await channel.send(replace(file, number=number, document=Document(name, b"all")))
            assert isinstance(outcome, Refused if name == "a.bin" else Accepted)
        names = [each["document"]["filename"] for each in whatsapp.messages]
        assert names == ["answer.md.txt", "a.pdf", "a.json.txt"]
        assert {whatsapp.media[each["document"]["id"]][1] for each in whatsapp.messages} == {b"all"}
        assert whatsapp.messages[0]["type"] == "document"
        await channel.aclose()


async def test_a_token_goes_to_nobody_but_meta(monkeypatch: pytest.MonkeyPatch) -> None:
    async with WhatsAppStandIn() as whatsapp:
        channel = WhatsAppChannel(_token, SystemClock(), phone_number_id=NUMBER, api_base=whatsapp.api_base)
        whatsapp.media["9000001"] = ("a", b"data")
        file = InboundFile(file_id="9000001", name="a", size=None)
        assert await channel.download(file, max_bytes=10) == b"data"
        assert await channel.download(file, max_bytes=3) == FileProblem("it is too large")
        monkeypatch.setattr(whatsapp, "api_base", "http://evil.example")
        assert await channel.download(file, max_bytes=10) == FileProblem("it is not at WhatsApp")
        await channel.aclose()


async def test_outside_of_the_window_only_the_template_gets_through() -> None:
    async with WhatsAppStandIn() as whatsapp:
        whatsapp.is_window_closed = True
        mute = WhatsAppChannel(_token, SystemClock(), phone_number_id=NUMBER, api_base=whatsapp.api_base)
        channel = WhatsAppChannel(
            _token,
            SystemClock(),
            phone_number_id=NUMBER,
            api_base=whatsapp.api_base,
            template=Template("please_write", "de"),
        )
        knock = replace(PART, source="knock:x", facts={"knock": True})
        assert await channel.send(PART) == Refused(WINDOW_CLOSED)
        assert isinstance(await mute.send(knock), Refused)
        assert isinstance(await channel.send(knock), Accepted)
        [sent] = whatsapp.messages
        assert (sent["type"], sent["template"]) == (
            "template",
            {"name": "please_write", "language": {"code": "de"}},
        )
        assert "text" not in sent
        await channel.aclose()
        await mute.aclose()


async def test_where_nobody_listens_nothing_can_have_arrived() -> None:
    channel = WhatsAppChannel(_token, SystemClock(), phone_number_id=NUMBER, api_base="http://127.0.0.1:9")
    assert isinstance(await channel.send(PART), NotReached)
    await channel.aclose()


async def test_a_refused_token_stops_the_channel_with_the_remedy() -> None:
    async with WhatsAppStandIn() as whatsapp:
        whatsapp.token = "another"
        channel = WhatsAppChannel(_token, SystemClock(), phone_number_id=NUMBER, api_base=whatsapp.api_base)
        with pytest.raises(ConfigError, match="refuses the token"):
            await channel.receive(_nothing)
        await channel.aclose()
