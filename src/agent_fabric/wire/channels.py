"""Channels as JSON."""

from agent_fabric.application.ports.channels import ChannelStatus
from agent_fabric.domain.channels.deliveries import Part
from agent_fabric.domain.channels.notices import NotifyPreference
from agent_fabric.domain.channels.pairing import Person
from agent_fabric.wire.shape import Listing, Shape

CHANNEL = Shape(
    ChannelStatus,
    "channel account? name? state problem? hint? heard_at",
    name="ChannelStatus",
    about="How a channel stands.",
    also={"connected": bool},
)
CHANNELS = Listing("channels", CHANNEL, name="ChannelList", about="The channels that are configured.")
PERSON = Shape(
    Person,
    "channel=sender.channel account=sender.account sender=sender.id user paired_at paired_by?",
    name="ChannelPerson",
    about="A sender on a channel who is a user.",
)
PEOPLE = Listing("people", PERSON, name="ChannelPeople", about="Everyone who is paired, by user.")
NOTIFY = Shape(
    NotifyPreference,
    "user approvals alerts quiet_hours? timezone",
    name="NotifyPreference",
    about="Where a user wants to be told of approvals and alerts, and when not.",
)
DELIVERY = Shape(
    Part,
    "id source channel=place.channel chat=place.chat kind status attempts created_at settled_at message_id? problem?",
    name="ChannelDelivery",
    about="A message that goes out, and what is known about whether it has arrived. Its text is not shown.",
)
DELIVERIES = Listing("deliveries", DELIVERY, name="ChannelDeliveries", about="What went out, the newest first.")
