"""The WhatsApp channel against a stand-in over real sockets (CH-11, CH-13, CH-17, CH-18)."""

import pytest

from agent_fabric.domain.channels.addresses import Place
from agent_fabric.domain.channels.deliveries import Accepted, AnswerLost, NotReached, Part, Refused, Throttled
from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.channels.whatsapp import WhatsAppChannel
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.testing.whatsapp_standin import NUMBER, TOKEN, WhatsAppStandIn

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
