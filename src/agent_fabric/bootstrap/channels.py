"""Joins the channels of a server. What is not configured costs no import."""

import asyncio
import logging
import secrets
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any

from agent_fabric.application.channels.answer_press import AnswerPress
from agent_fabric.application.channels.conversations import Conversations
from agent_fabric.application.channels.deliver_parts import DeliverParts, TellUndelivered
from agent_fabric.application.channels.handle_inbound import HandleInbound
from agent_fabric.application.channels.manage_deliveries import ManageDeliveries
from agent_fabric.application.channels.manage_people import ManagePeople
from agent_fabric.application.channels.notify_user import ManageNotify, NotifyUser
from agent_fabric.application.channels.post_approvals import PostApprovals
from agent_fabric.application.channels.preview_turns import PreviewTurns, Streaming
from agent_fabric.application.channels.receive_files import ReceiveFiles
from agent_fabric.application.channels.receive_webhook import ReadDelivery, ReceiveWebhook
from agent_fabric.application.channels.relay_answers import RelayAnswers
from agent_fabric.application.channels.run_channel import RunChannel
from agent_fabric.application.channels.send_cards import SendCards
from agent_fabric.application.channels.send_files import SendFiles
from agent_fabric.application.cluster.watch_pending_work import WatchPendingWork
from agent_fabric.application.fleet.machine_calls import Machine
from agent_fabric.application.ports.bus import Bus
from agent_fabric.application.ports.channels import Alert, Channel, ChannelStatus, ChannelStore
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.pending_work import NOTICES
from agent_fabric.application.runs.fetch_files import FetchDocuments
from agent_fabric.bootstrap.chat import Chat
from agent_fabric.bootstrap.local import LocalFabric
from agent_fabric.bootstrap.runs import fetch_files
from agent_fabric.config.schema.channels import (
    DiscordConfig,
    PackagedChannelConfig,
    SlackConfig,
    TelegramConfig,
    WhatsAppConfig,
)
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.automation.webhooks import Scheme, Signing
from agent_fabric.domain.channels.cards import NONCE_BYTES
from agent_fabric.domain.channels.inbound import Inbound
from agent_fabric.domain.channels.pairing import CODE_LENGTH, code_from
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.cluster.wake_ups.choose import watched_pause
from agent_fabric.infrastructure.cluster.wake_ups.in_process import InProcessWakeUps
from agent_fabric.infrastructure.packs.plugins import open_channel

_Settings = TelegramConfig | SlackConfig | DiscordConfig | WhatsAppConfig | PackagedChannelConfig
RESTART_AFTER_S = 30.0
"""A channel that ended by a mistake of ours is begun again after this time."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Channels:
    """The channels of a server, and the people on them."""

    people: ManagePeople
    deliveries: ManageDeliveries
    notify: ManageNotify
    post_approvals: PostApprovals
    running: Sequence[RunChannel] = ()
    webhooks: Mapping[str, ReceiveWebhook] = field(default_factory=dict)
    """Take what platforms deliver, by the names of the channels; those that connect by themselves have none."""

    @property
    def statuses(self) -> Sequence[ChannelStatus]:
        return [each.channel.status for each in self.running]

    def show_answers(self, so_far: Callable[[RunId], str]) -> None:
        """Show answers as they grow; `so_far` knows what is written of them."""
        for each in self.running:
            if each.relay.preview is not None:
                each.relay.preview.answer_so_far = so_far

    def duties(self) -> "list[Coroutine[Any, Any, None]]":
        """Return what a server does for as long as it lives."""
        return [*(_forever(each) for each in self.running), self.post_approvals()]


@dataclass(frozen=True, slots=True)
class _Joined:
    """What all channels of a server share."""

    config: FabricConfig
    local: LocalFabric
    chat: Chat
    people: ManagePeople
    bus: Bus
    alert: Alert


def serve_channels(
    config: FabricConfig, local: LocalFabric, chat: Chat, bus: Bus, alert: Alert, watch: WatchPendingWork | None = None
) -> Channels:
    """Join the parts. Nothing is connected yet."""
    storage = local.records.storage
    people = ManagePeople(storage.channels.people, storage.users, storage.channels.outbox, storage.clock)
    joined = _Joined(config, local, chat, people, bus, alert)
    running, webhooks = list[RunChannel](), dict[str, ReceiveWebhook]()

    def add(settings: _Settings, channel: Channel, webhook: ReceiveWebhook | None = None) -> None:
        running.append(_run(channel, joined, settings))
        if webhook is not None:
            webhooks[channel.status.channel] = webhook

    wanted = config.channels
    if wanted.telegram is not None:
        add(wanted.telegram, *_telegram(wanted.telegram, local, storage.clock))
    if wanted.slack is not None:
        add(wanted.slack, *_slack(wanted.slack, local, storage.clock))
    if wanted.discord is not None:
        add(wanted.discord, _discord(wanted.discord, local, storage.clock))
    if wanted.whatsapp is not None:
        add(wanted.whatsapp, *_whatsapp(wanted.whatsapp, local, storage.clock))
    for name, packaged in wanted.packaged.items():
        add(packaged, open_channel(name, packaged.options, local.secrets.chain.resolve, storage.clock))
    post_approvals = PostApprovals(NotifyUser.of(storage), storage.approvals, storage.agent_locks)
    if watch is not None:
        post_approvals.pause = watched_pause(InProcessWakeUps(), NOTICES, NOTICES, watch)
    deliveries = ManageDeliveries(storage.channels, local.records.approvals, storage.clock)
    notify = ManageNotify(storage.channels, storage.users, storage.clock)
    return Channels(people, deliveries, notify, post_approvals, running, webhooks)


def _telegram(config: TelegramConfig, local: LocalFabric, clock: Clock) -> tuple[Channel, ReceiveWebhook | None]:
    from agent_fabric.infrastructure.channels import telegram, telegram_wire  # noqa: PLC0415 - only who has it pays

    resolve, webhook = local.secrets.chain.resolve, None
    if config.webhook_url is not None and config.webhook_secret is not None:
        secret = partial(resolve, config.webhook_secret)
        webhook = telegram.TelegramWebhook(f"{config.webhook_url}/api/v1/channels/telegram", secret)
    token = partial(resolve, config.token)
    channel = telegram.TelegramChannel(token, clock, api_base=config.api_base, webhook=webhook)

    async def read(payload: Any) -> Sequence[Inbound]:
        return telegram_wire.read_updates([payload], await channel.identity())

    if config.webhook_secret is None:
        return channel, None
    return channel, _receiver(Scheme.TELEGRAM, config.webhook_secret, read, local, clock)


def _slack(config: SlackConfig, local: LocalFabric, clock: Clock) -> tuple[Channel, ReceiveWebhook | None]:
    from agent_fabric.infrastructure.channels.slack import SlackChannel  # noqa: PLC0415 - as above
    from agent_fabric.infrastructure.channels.slack_wire import CHANNEL, read_delivery  # noqa: PLC0415 - as above

    resolve = local.secrets.chain.resolve
    app_token = None if config.app_token is None else partial(resolve, config.app_token)
    known = partial(_newest_keys, local.records.storage.channels, CHANNEL)
    channel = SlackChannel(partial(resolve, config.token), app_token, clock, known, api_base=config.api_base)

    async def read(payload: Any) -> Sequence[Inbound]:
        found = read_delivery(payload, await channel.identity())
        return [] if found is None else [found]

    if config.signing_secret is None:
        return channel, None
    return channel, _receiver(Scheme.SLACK, config.signing_secret, read, local, clock)


def _discord(config: DiscordConfig, local: LocalFabric, clock: Clock) -> Channel:
    from agent_fabric.infrastructure.channels.discord import DiscordChannel  # noqa: PLC0415 - as above
    from agent_fabric.infrastructure.channels.discord_wire import CHANNEL  # noqa: PLC0415 - as above

    known = partial(_newest_keys, local.records.storage.channels, CHANNEL)
    return DiscordChannel(partial(local.secrets.chain.resolve, config.token), clock, known, api_base=config.api_base)


async def _newest_keys(store: ChannelStore, channel: str) -> Mapping[str, str]:
    """Return the key of what came last, for each direct chat of a channel with a paired person."""
    places = [replace(each.place, thread="") for each in await store.people.list() if each.place.channel == channel]
    newest = {place.chat: await store.inbound.newest(place) for place in places}
    return {chat: key for chat, key in newest.items() if key}


def _whatsapp(config: WhatsAppConfig, local: LocalFabric, clock: Clock) -> tuple[Channel, ReceiveWebhook]:
    from agent_fabric.infrastructure.channels.whatsapp import WhatsAppChannel  # noqa: PLC0415 - as above
    from agent_fabric.infrastructure.channels.whatsapp_wire import Template, read_webhook  # noqa: PLC0415 - as above

    resolve, number = local.secrets.chain.resolve, config.phone_number_id
    channel = WhatsAppChannel(
        partial(resolve, config.token),
        clock,
        phone_number_id=number,
        api_base=config.api_base,
        template=Template(config.template, config.template_language) if config.template else None,
    )

    async def read(payload: Any) -> Sequence[Inbound]:
        return read_webhook(payload, phone_number_id=number)

    # GitHub's header, made in the same way.
    return channel, _receiver(Scheme.GITHUB, config.app_secret, read, local, clock, verify_token=config.verify_token)


def _receiver(
    scheme: Scheme, secret: str, read: ReadDelivery, local: LocalFabric, clock: Clock, *, verify_token: str = ""
) -> ReceiveWebhook:
    return ReceiveWebhook(
        signing=Signing(scheme=scheme),
        secret=secret,
        verify_token=verify_token,
        read=read,
        inbound=local.records.storage.channels.inbound,
        resolve=local.secrets.chain.resolve,
        clock=clock,
    )


def _run(channel: Channel, joined: _Joined, settings: _Settings) -> RunChannel:
    if isinstance(settings, WhatsAppConfig):  # it has neither
        groups: Collection[str] = ()
        streaming = Streaming.OFF
    else:
        groups, streaming = settings.groups, Streaming(settings.streaming)
    local, chat, people, bus = joined.local, joined.chat, joined.people, joined.bus
    storage, store = local.records.storage, local.records.storage.channels
    clock = storage.clock
    documents, page_url = FetchDocuments(fetch_files(local.records)), joined.config.channels.page_url or ""
    files = SendFiles(documents, clock, page_url)
    undelivered = TellUndelivered(store.outbox, clock, joined.alert)
    deliver = DeliverParts(
        channel, store.outbox, store.deliveries, clock, bus.publish, documents=documents, undelivered=undelivered
    )
    preview = PreviewTurns(store, storage.reader, clock, lambda: deliver.pacer, streaming)

    async def stop(run_id: RunId, by: str) -> object:
        return await local.cancel_run(run_id, by=by, reason="stopped in a chat")

    async def find_machine(which: str) -> Machine:
        node = await storage.nodes.find(which)
        return Machine(which) if node is None else Machine(node.name, node.wants_signatures)

    def new_nonce() -> str:
        return secrets.token_urlsafe(NONCE_BYTES)

    handle = HandleInbound(
        store=store,
        people=people,
        held=Conversations(store, chat.sessions, chat.manage),
        queue=chat.queue,
        send=chat.send,
        stop=stop,
        press=AnswerPress(people, store, storage.approvals, local.decide_approval, storage.acts, clock),
        tell=bus.publish,
        new_code=lambda: code_from(secrets.token_bytes(CODE_LENGTH)),
        clock=clock,
        fetch=ReceiveFiles(clock),
        files=files,
        undelivered=undelivered,
        groups=groups,
        max_age_s=settings.catch_up_max_age_s,
    )
    return RunChannel(
        channel=channel,
        store=store,
        handle=handle,
        relay=RelayAnswers(store, storage.reader, chat.queue, clock, preview, files),
        cards=SendCards(store, people, storage.approvals, new_nonce, clock, find_machine, page_url),
        deliver=deliver,
        locks=storage.agent_locks,
        clock=clock,
    )


async def _forever(run: RunChannel) -> None:
    """Run a channel; one mistake of ours must not end it for ever."""
    while True:
        try:
            await run()
        except Exception:  # noqa: BLE001 - see above
            _log.exception("The channel %s has failed", run.channel.status.channel)
        else:
            return  # the platform refuses the credential, and the status says so
        await asyncio.sleep(RESTART_AFTER_S)
