"""WhatsApp's wire format (CH-9, CH-11, CH-13)."""

from typing import Any

import pytest

from agent_fabric.domain.channels.addresses import Place
from agent_fabric.domain.channels.deliveries import Accepted, AnswerLost, Button, Part, Refused, Throttled
from agent_fabric.domain.channels.inbound import ButtonPress, DeliveryReport, InboundMessage
from agent_fabric.infrastructure.channels.whatsapp_wire import message_for, read_outcome, read_webhook

NUMBER = "1055"
PART = Part(source="run", place=Place("whatsapp", NUMBER, "4917"), text="hi", plain="hi")


def _delivery(number: str = NUMBER, **value: Any) -> dict[str, Any]:
    inner = {"messaging_product": "whatsapp", "metadata": {"phone_number_id": number}, **value}
    return {"object": "whatsapp_business_account", "entry": [{"changes": [{"field": "messages", "value": inner}]}]}


def test_messages_presses_and_reports_are_read() -> None:
    said = {"from": "4917", "id": "wamid.1", "timestamp": "1700000000", "type": "text", "text": {"body": "hello"}}
    press = {
        "from": "4917",
        "id": "wamid.2",
        "timestamp": "1700000001",
        "type": "interactive",
        "interactive": {"type": "button_reply", "button_reply": {"id": "v1.a.x.y", "title": "Approve"}},
        "context": {"id": "wamid.card"},
    }
    status = {"id": "wamid.3", "status": "delivered", "recipient_id": "4917", "biz_opaque_callback_data": PART.id}
    message, pressed, report = read_webhook(_delivery(messages=[said, press], statuses=[status]), NUMBER)
    assert isinstance(message, InboundMessage)
    assert (message.key, message.text, message.sender.id, message.sent_at) == ("wamid.1", "hello", "4917", 1.7e9)
    assert isinstance(pressed, ButtonPress)
    assert (pressed.data, pressed.message_id) == ("v1.a.x.y", "wamid.card")
    assert isinstance(report, DeliveryReport)
    assert (report.part_id, report.message_id, report.has_arrived) == (PART.id, "wamid.3", True)


@pytest.mark.parametrize("broken", [None, [], {}, {"entry": [7]}, {"entry": [{"changes": [{"value": []}]}]}])
def test_what_is_not_ours_or_broken_brings_nothing(broken: object) -> None:
    assert read_webhook(broken, NUMBER) == []
    said = {"from": "4917", "id": "wamid.1", "text": {"body": "hello"}}
    assert read_webhook(_delivery("other", messages=[said]), NUMBER) == []


def test_what_is_sent() -> None:
    assert message_for(PART) == {
        "messaging_product": "whatsapp",
        "recipient_type": "individual",
        "to": "4917",
        "biz_opaque_callback_data": PART.id,
        "type": "text",
        "text": {"preview_url": False, "body": "hi"},
    }
    card = Part(source="a", place=PART.place, text="May it?", plain="May it?", buttons=(Button("Approve", "v1"),))
    assert message_for(card)["interactive"]["action"]["buttons"][0]["reply"] == {"id": "v1", "title": "Approve"}


@pytest.mark.parametrize(
    ("status", "answer", "outcome"),
    [
        (200, {"messages": [{"id": "wamid.9"}]}, Accepted("wamid.9")),
        (400, {"error": {"code": 131_056, "message": "pair"}}, Throttled(6.0)),
        (429, {"error": {"code": 130_429, "message": "rate"}}, Throttled(60.0, whole_account=True)),
        (500, {"error": {"code": 1, "message": "oops"}}, AnswerLost("oops")),
        (400, {"error": {"code": 100, "message": "bad"}}, Refused("bad")),
    ],
)
def test_what_is_known_afterwards(status: int, answer: object, outcome: object) -> None:
    assert read_outcome(status, answer) == outcome


def test_outside_of_the_window_the_reason_is_said() -> None:
    refused = read_outcome(400, {"error": {"code": 131_047, "message": "Re-engagement message"}})
    assert isinstance(refused, Refused)
    assert "24 hours" in refused.problem
