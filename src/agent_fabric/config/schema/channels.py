"""Channels: where people write to the server."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.declared import Field, Settings, model_validator
from agent_fabric.config.schema.values import BaseAddress, EntryKey, SecretReference, Text, Texts


class TelegramConfig(Settings):
    """A bot on Telegram. It polls, so the server needs no public address, unless `webhook_url` is set."""

    token: SecretReference
    """The bot's token, such as `env:TELEGRAM_TOKEN`; @BotFather gives it out."""
    api_base: BaseAddress = "https://api.telegram.org"
    """Where the Bot API is."""
    webhook_url: BaseAddress | None = None
    """Where Telegram reaches this server over HTTPS, such as `https://fabric.example.org`. It then delivers to
    `POST /api/v1/channels/telegram` there; not set: it is polled."""
    webhook_secret: SecretReference | None = None
    """What Telegram shows with every delivery: 16 to 256 letters, digits, `_` and `-` that cannot be guessed."""
    groups: Texts = ()
    """The ids of groups in which paired people may mention the bot, such as `-1001234567890`; empty: none."""
    streaming: Literal["off", "progress", "edit"] = "edit"
    """What is shown of an answer that takes longer than three seconds: nothing, what is being done, or also the answer
    as it grows. One message is changed for it."""
    catch_up_max_age_s: Annotated[float, Field(gt=0)] = 3_600.0
    """A message that is older when the server sees it is asked about before it is done, in seconds."""

    @model_validator(mode="after")
    def _has_both_or_neither(self) -> Self:
        if (self.webhook_url is None) != (self.webhook_secret is None):
            raise ConfigProblem("needs both `webhook_url` and `webhook_secret`, or neither to be polled")
        return self


class WhatsAppConfig(Settings):
    """A number of the WhatsApp Cloud API. Meta delivers to `POST /api/v1/channels/whatsapp`, over HTTPS."""

    token: SecretReference
    """The token of a system user with `whatsapp_business_messaging`, such as `env:WHATSAPP_TOKEN`."""
    app_secret: SecretReference
    """The secret of the app, which signs deliveries."""
    verify_token: SecretReference
    """A word of your choice that Meta shows once, when the webhook is set up."""
    phone_number_id: Text
    """The id of the number; not the number itself."""
    api_base: BaseAddress = "https://graph.facebook.com/v26.0"
    """Where the Graph API is."""
    template: Text | None = None
    """The name of an approved template without variables, which asks a user to write who has not done so for 24
    hours; not set: they get nothing, and an alert is raised."""
    template_language: Text = "en_US"
    """The language of the template, as Meta calls it."""
    catch_up_max_age_s: Annotated[float, Field(gt=0)] = 3_600.0
    """A message that is older when the server sees it is asked about before it is done, in seconds."""


class SlackConfig(Settings):
    """An app in a Slack workspace. With `app_token` it connects by itself, and the server needs no public address."""

    token: SecretReference
    """The bot token, which begins with `xoxb-`, such as `env:SLACK_BOT_TOKEN`."""
    app_token: SecretReference | None = None
    """The app-level token with `connections:write`, which begins with `xapp-`, for Socket Mode."""
    signing_secret: SecretReference | None = None
    """The signing secret of the app, instead of `app_token`: Slack then delivers to `POST /api/v1/channels/slack`, over
    HTTPS."""
    api_base: BaseAddress = "https://slack.com/api"
    """Where the Web API is."""
    groups: Texts = ()
    """The ids of channels in which paired people may mention the app, such as `C0123456789`; empty: none."""
    streaming: Literal["off", "progress", "edit"] = "edit"
    """What is shown of an answer that takes longer than three seconds: nothing, what is being done, or also the answer
    as it grows. One message is changed for it."""
    catch_up_max_age_s: Annotated[float, Field(gt=0)] = 3_600.0
    """A message that is older when the server sees it is asked about before it is done, in seconds."""

    @model_validator(mode="after")
    def _has_one_way_in(self) -> Self:
        if (self.app_token is None) == (self.signing_secret is None):
            raise ConfigProblem("needs `app_token` (Socket Mode) or `signing_secret` (deliveries), and not both")
        return self


class DiscordConfig(Settings):
    """A bot on Discord. It connects by itself, so the server needs no public address."""

    token: SecretReference
    """The bot's token, such as `env:DISCORD_TOKEN`."""
    api_base: BaseAddress = "https://discord.com/api/v10"
    """Where the REST API is."""
    groups: Texts = ()
    """The ids of channels of servers in which paired people may mention the bot; empty: none."""
    streaming: Literal["off", "progress", "edit"] = "edit"
    """What is shown of an answer that takes longer than three seconds: nothing, what is being done, or also the answer
    as it grows. One message is changed for it."""
    catch_up_max_age_s: Annotated[float, Field(gt=0)] = 3_600.0
    """A message that is older when the server sees it is asked about before it is done, in seconds."""


class PackagedChannelConfig(Settings):
    """A channel that an installed package brings along, as an entry point of `agent_fabric.channels`."""

    options: Mapping[EntryKey, Text] = {}
    """What it is given; secrets as references."""
    groups: Texts = ()
    """The ids of groups in which paired people may mention the bot; empty: none."""
    streaming: Literal["off", "progress", "edit"] = "edit"
    """What is shown of an answer that takes longer than three seconds: nothing, what is being done, or also the answer
    as it grows. One message is changed for it."""
    catch_up_max_age_s: Annotated[float, Field(gt=0)] = 3_600.0
    """A message that is older when the server sees it is asked about before it is done, in seconds."""


class ChannelsConfig(Settings):
    """Where people write to the server. A stranger gets a code, and reaches no model until they are paired."""

    telegram: TelegramConfig | None = None
    """A bot on Telegram; not set: none."""
    slack: SlackConfig | None = None
    """An app on Slack; not set: none."""
    discord: DiscordConfig | None = None
    """A bot on Discord; not set: none."""
    whatsapp: WhatsAppConfig | None = None
    """A number on WhatsApp; not set: none."""
    page_url: BaseAddress | None = None
    """Where people reach the page, such as `https://fabric.example.org`. It stands in messages about what cannot be
    shown or sent there; not set: they name a command."""
    packaged: Mapping[EntryKey, PackagedChannelConfig] = {}
    """Channels of installed packages, by the names of their entry points."""
