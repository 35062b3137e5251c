"""Slack as values: what its sockets bring, requests that go. No connection is made here.

The format is that of the published packages slack_sdk 3.47.0, @slack/socket-mode 3.1.0 and @slack/types 3.2.0.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from agent_fabric.domain.channels.addresses import Place, Sender
from agent_fabric.domain.channels.deliveries import (
    Accepted,
    AnswerLost,
    Part,
    PartKind,
    Refused,
    SendOutcome,
    Throttled,
)
from agent_fabric.domain.channels.inbound import ButtonPress, Inbound, InboundFile, InboundMessage
from agent_fabric.domain.channels.rendering import SLACK
from agent_fabric.infrastructure.channels.wire_values import id_in, number_in, table_in, tables_in

CHANNEL: Final = "slack"
EVENT_TYPE: Final = "agent_fabric_part"
"""What our messages are marked as; the mark tells later whether one has arrived."""
REFUSED_TOKENS: Final = frozenset(
    {"invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "not_allowed_token_type"}
)
_PAUSE_S: Final = 30.0
"""How long to wait when Slack does not say it."""
_SAID: Final = (None, "file_share", "thread_broadcast", "me_message")
"""Subtypes of messages that someone has written. All others tell of something, such as a topic that was changed."""
UNSURE: Final = frozenset({"internal_error", "fatal_error", "service_unavailable", "request_timeout"})
"""Errors that say nothing about what became of a request, and that pass."""
_MENTION: Final = re.compile(r"<@([A-Z0-9]+)(?:\|[^>]*)?>")
_MOMENT: Final = re.compile(r"[0-9]{1,12}\.[0-9]{1,9}")
_LINK: Final = re.compile(r"<(https?://[^>|]+)(?:\|[^>]*)?>")


class Bot(NamedTuple):
    """Who we are there."""

    team: str
    user: str

    @property
    def account(self) -> str:
        return f"{self.team}.{self.user}"


class Method(NamedTuple):
    """A request of the Web API."""

    name: str
    body: Mapping[str, Any]


def read_envelope(envelope: Mapping[str, Any], bot: Bot) -> Inbound | None:
    """Return what an envelope brings; None: nothing that is for us. It is acknowledged in any case."""
    payload = envelope.get("payload")
    if not isinstance(payload, Mapping) or not _is_of(payload, bot):
        return None
    match envelope.get("type"):
        case "events_api":
            return _message(table_in(payload.get("event")), bot)
        case "interactive":
            return _press(payload, bot)
        case _:
            return None


def read_delivery(payload: Any, bot: Bot) -> Inbound | None:
    """Return what a delivery of the Events API or of a pressed button brings; None: nothing that is for us."""
    if not isinstance(payload, Mapping):
        return None
    kind = "events_api" if payload.get("type") == "event_callback" else "interactive"
    return read_envelope({"type": kind, "payload": payload}, bot)


def _is_of(payload: Mapping[str, Any], bot: Bot) -> bool:
    """Tell whether a payload is of our workspace: ids of people are unique only within one.

    An app that is installed in several gets the events of all of them. One that is installed in a whole organisation
    (`E…`) has people whose ids are the organisation's.
    """
    named = [payload.get("team_id"), payload.get("context_team_id"), table_in(payload.get("team")).get("id")]
    named += [each.get("team_id") for each in tables_in(payload.get("authorizations"))]
    teams = [each for each in named if each]
    return not teams or bot.team in teams or bot.team.startswith("E")


def method_for(part: Part) -> Method:
    """Return the request that sends a part."""
    text = part.text if part.text != part.plain else SLACK.literal(part.plain)
    body: dict[str, Any] = {"channel": part.place.chat, "text": text}
    if part.kind is PartKind.EDIT:
        return Method("chat.update", {**body, "ts": part.edits, "blocks": _blocks(part)})
    body |= {"unfurl_links": False, "unfurl_media": False, "mrkdwn": part.text != part.plain}
    body["metadata"] = {"event_type": EVENT_TYPE, "event_payload": {"id": part.id}}
    if part.place.thread:
        body["thread_ts"] = part.place.thread
    if part.buttons:
        body["blocks"] = _blocks(part)
    return Method("chat.postMessage", body)


def _blocks(part: Part) -> list[dict[str, Any]]:
    """Return a card: its text as plain text, in which nothing can pretend to be markup."""
    if not part.buttons and part.text != part.plain:
        return []
    blocks: list[dict[str, Any]] = [
        {"type": "section", "text": {"type": "plain_text", "text": part.plain, "emoji": False}}
    ]
    if part.buttons:
        elements = [
            {
                "type": "button",
                "action_id": f"b{number}",
                "text": {"type": "plain_text", "text": each.label},
                "value": each.data,
            }
            for number, each in enumerate(part.buttons)
        ]
        blocks.append({"type": "actions", "elements": elements})
    return blocks


def read_outcome(status: int, headers: Mapping[str, str], answer: Any) -> SendOutcome:
    """Return what an answer says about a part."""
    if status == 429:
        return Throttled(_seconds(headers.get("retry-after")))
    if not isinstance(answer, Mapping) or status >= 500:
        return AnswerLost(f"Slack answered {status} without saying what became of it")
    if answer.get("ok") is True:
        return Accepted(str(answer.get("ts", "")))
    error = str(answer.get("error", ""))[:200]
    if error == "ratelimited":
        return Throttled(_seconds(headers.get("retry-after")))
    if error in UNSURE:
        return AnswerLost(f"Slack answered {error}")
    return Refused(f"Slack answered {error or status}")


def part_in_history(answer: Any, part: Part) -> str | None:
    """Return the `ts` of a part among the messages of a chat; None: it is not there."""
    for each in tables_in(table_in(answer).get("messages")):
        if table_in(table_in(each.get("metadata")).get("event_payload")).get("id") == part.id:
            return str(each.get("ts", ""))
    return None


def read_history(answer: Mapping[str, Any], chat: str, bot: Bot) -> list[InboundMessage]:
    """Return what people have written, on a page of the history of a direct chat, the newest first."""
    found = []
    for each in tables_in(answer.get("messages")):
        event = {**each, "channel": chat, "channel_type": "im"}
        if event.get("thread_ts") == event.get("ts"):  # a thread has begun below it since
            del event["thread_ts"]
        found.append(_message(event, bot))
    return [each for each in found if each is not None]


def next_page(answer: Mapping[str, Any]) -> str:
    """Return where the history of a chat goes on; empty: this is the end."""
    return id_in(table_in(answer.get("response_metadata")).get("next_cursor"))


def moment_in(key: str) -> str:
    """Return the moment, by Slack's clock, of a message or a press whose key this is; empty: it does not say."""
    moment = key.rpartition(" ")[2]
    return moment if _MOMENT.fullmatch(moment) else ""


def _message(event: Mapping[str, Any], bot: Bot) -> InboundMessage | None:
    kind, is_direct = event.get("type"), event.get("channel_type") == "im"
    author, chat, ts = id_in(event.get("user")), id_in(event.get("channel")), id_in(event.get("ts"))
    text = str(event.get("text") or "")
    mentioned = bot.user in _MENTION.findall(text)
    if kind not in ("message", "app_mention") or event.get("subtype") not in _SAID:
        return None
    if not author or author == bot.user or not chat or not ts:
        return None
    if kind == "message" and not is_direct and mentioned:
        return None  # the same message comes as `app_mention`, too
    thread = id_in(event.get("thread_ts")) or ("" if is_direct else ts)
    files = _files(event)
    if not text and not files:
        return None
    return InboundMessage(
        key=f"{chat} {ts}",  # the same in every repetition of its event, and in the history of the chat
        place=Place(CHANNEL, bot.account, chat, thread, is_direct=is_direct),
        sender=Sender(CHANNEL, bot.account, author),
        text=_plain(text, bot),
        sent_at=number_in(ts),
        message_id=ts,
        is_bot="bot_id" in event,
        is_addressed=kind == "app_mention" or event.get("parent_user_id") == bot.user,
        files=files,
    )


def _press(payload: Mapping[str, Any], bot: Bot) -> ButtonPress | None:
    actions, message = payload.get("actions"), payload.get("message")
    user, channel = table_in(payload.get("user")), table_in(payload.get("channel"))
    if payload.get("type") != "block_actions" or not isinstance(actions, list) or not actions:
        return None
    action = actions[0]
    if not isinstance(action, Mapping) or not isinstance(message, Mapping):
        return None
    chat, author, trigger = id_in(channel.get("id")), id_in(user.get("id")), id_in(payload.get("trigger_id"))
    if not chat or not author or not trigger:
        return None
    thread = id_in(message.get("thread_ts"))
    is_direct = chat.startswith("D")
    return ButtonPress(
        key=f"{trigger} {action.get('action_ts', '')}",
        place=Place(CHANNEL, bot.account, chat, thread, is_direct=is_direct),
        sender=Sender(CHANNEL, bot.account, author),
        data=str(action.get("value", "")),
        message_id=id_in(message.get("ts")),
        answer_id=author,
        sent_at=number_in(action.get("action_ts")),
    )


def _plain(text: str, bot: Bot) -> str:
    """Return what someone wrote, without our name at its beginning and without Slack's escapes."""
    text = text.strip()
    found = _MENTION.match(text)
    if found is not None and found[1] == bot.user:
        text = text[found.end() :].lstrip(" ,:")
    text = _LINK.sub(r"\1", text)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _files(event: Mapping[str, Any]) -> tuple[InboundFile, ...]:
    return tuple(
        InboundFile(
            file_id=str(each["url_private_download"]),
            name=str(each.get("name") or "file"),
            size=each["size"] if isinstance(each.get("size"), int) else None,
            media_type=str(each.get("mimetype", "")),
        )
        for each in tables_in(event.get("files"))
        if "url_private_download" in each
    )


def _seconds(value: str | None) -> float:
    return float(value) if value is not None and value.isascii() and value.isdigit() else _PAUSE_S
