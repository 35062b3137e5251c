"""Channels as JSON: no text of a chat is in it."""

from agent_fabric.application.ports.channels import ChannelState, ChannelStatus
from agent_fabric.domain.channels.addresses import Place, Sender
from agent_fabric.domain.channels.deliveries import Part
from agent_fabric.domain.channels.pairing import Person
from agent_fabric.wire.channels import CHANNEL, DELIVERY, PERSON

PLACE = Place("telegram", "42", "7")


def test_what_is_shown_of_channels_people_and_deliveries() -> None:
    assert CHANNEL.dump(ChannelStatus("telegram", state=ChannelState.CONNECTED, heard_at=1.0)) == {
        "channel": "telegram",
        "account": None,
        "name": None,
        "state": "connected",
        "problem": None,
        "hint": None,
        "heard_at": 1.0,
    }
    person = Person(sender=Sender("telegram", "42", "7"), user="ann", place=PLACE, paired_at=1.0, paired_by="root")
    assert PERSON.dump(person)["sender"] == "7"
    shown = DELIVERY.dump(Part(source="run", place=PLACE, text="secret", plain="secret"))
    assert (shown["id"], shown["status"], shown["chat"]) == ("run:0:0:telegram/42/7", "queued", "7")
    assert "secret" not in str(shown)
