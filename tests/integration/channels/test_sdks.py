"""The platforms' own clients talk to our stand-ins, so these speak as the platforms do (CH-18).

Versions are those of `constraints.txt`: python-telegram-bot, slack_sdk and discord.py.
"""

import asyncio
import contextlib
from typing import Any

import pytest
from yarl import URL

from agent_fabric.testing import telegram_standin
from agent_fabric.testing.telegram_standin import TelegramStandIn
from standins import discord_standin, slack_standin
from standins.discord_standin import DiscordStandIn
from standins.slack_standin import SlackStandIn

PATIENCE_S = 60.0


async def test_telegrams_bot_api(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTB_TIMEDELTA", "1")
    telegram = pytest.importorskip("telegram")
    async with TelegramStandIn() as stand_in, asyncio.timeout(PATIENCE_S):
        stand_in.write(7, "/start now")
        stand_in.send_file(7, "a.txt", b"data", "look")
        base = stand_in.api_base
        async with telegram.Bot(
            telegram_standin.TOKEN, base_url=f"{base}/bot", base_file_url=f"{base}/file/bot"
        ) as bot:
            assert (bot.id, bot.username) == (telegram_standin.BOT_ID, telegram_standin.USERNAME)
            said, sent = await bot.get_updates(timeout=0)
            assert said.message.parse_entities() == {said.message.entities[0]: "/start"}
            assert (said.message.chat.type, said.message.from_user.id) == ("private", 7)
            assert (sent.message.caption, sent.message.document.file_name) == ("look", "a.txt")
            file = await sent.message.document.get_file()
            assert bytes(await file.download_as_bytearray()) == b"data"
            buttons = telegram.InlineKeyboardMarkup([[telegram.InlineKeyboardButton("Yes", callback_data="x")]])
            card = await bot.send_message(7, "<b>May it?</b>", parse_mode="HTML", reply_markup=buttons)
            assert (card.message_id, card.text) == (stand_in.messages[-1].message_id, "May it?")
            stand_in.press(7, stand_in.messages[-1], "Yes")
            pressed = (await bot.get_updates(offset=sent.update_id + 1, timeout=0))[0].callback_query
            assert (pressed.data, pressed.from_user.id, pressed.message.message_id) == ("x", 7, card.message_id)
            assert await pressed.answer("no", show_alert=True)
            changed = await bot.edit_message_text("Yes.", 7, card.message_id)
            assert changed.text == "Yes."
            with pytest.raises(telegram.error.BadRequest, match="not modified"):
                await bot.edit_message_text("Yes.", 7, card.message_id)
            document = await bot.send_document(7, b"all", filename="b.txt")
            assert (document.document.file_name, stand_in.messages[-1].document) == ("b.txt", b"all")
            assert await bot.set_webhook("https://example.org/x", secret_token="shown")
            assert (await bot.get_webhook_info()).url == "https://example.org/x"
            assert await bot.delete_webhook()
            stand_in.fail("sendMessage", telegram_standin.Fault.THROTTLE, telegram_standin.Fault.BLOCKED)
            with pytest.raises(telegram.error.RetryAfter):
                await bot.send_message(7, "x")
            with pytest.raises(telegram.error.Forbidden):
                await bot.send_message(7, "x")
            with pytest.raises(telegram.error.BadRequest, match="an't parse entities"):
                await bot.send_message(7, "<b>x", parse_mode="HTML")


async def test_slacks_web_api_and_socket_mode() -> None:
    errors, web_client = (pytest.importorskip(f"slack_sdk.{name}") for name in ("errors", "web.async_client"))
    sockets = pytest.importorskip("slack_sdk.socket_mode.aiohttp")
    responses = pytest.importorskip("slack_sdk.socket_mode.response")
    async with SlackStandIn() as stand_in, asyncio.timeout(PATIENCE_S):
        web = web_client.AsyncWebClient(slack_standin.TOKEN, base_url=f"{stand_in.api_base}/")
        assert (await web.auth_test())["user_id"] == slack_standin.BOT
        metadata = {"event_type": "e", "event_payload": {"id": "1"}}
        sent = await web.chat_postMessage(channel="D7", text="hi", metadata=metadata)
        await web.chat_update(channel="D7", ts=sent["ts"], text="changed")
        history = await web.conversations_history(channel="D7", include_all_metadata=True)
        assert [(each["text"], each["metadata"]) for each in history["messages"]] == [("changed", metadata)]
        await web.chat_postEphemeral(channel="D7", user="U7", text="psst")
        await web.files_upload_v2(channel="D7", filename="a.txt", content="data")
        assert list(stand_in.uploads.values()) == [b"data"]
        stand_in.faults["chat.postMessage"] = ["throttle", "channel_not_found"]
        for status in (429, 200):
            with pytest.raises(errors.SlackApiError) as refused:
                await web.chat_postMessage(channel="D7", text="hi")
            assert refused.value.response.status_code == status
        verifier = pytest.importorskip("slack_sdk.signature").SignatureVerifier(slack_standin.SIGNING_SECRET)
        headers, body = stand_in.delivery("interactive", {"type": "block_actions"})
        assert verifier.is_valid_request(body, headers)
        came = asyncio.Queue[Any]()
        app_web = web_client.AsyncWebClient(slack_standin.APP_TOKEN, base_url=f"{stand_in.api_base}/")
        client = sockets.SocketModeClient(app_token=slack_standin.APP_TOKEN, web_client=app_web)

        async def take(source: Any, request: Any) -> None:
            await source.send_socket_mode_response(responses.SocketModeResponse(envelope_id=request.envelope_id))
            await came.put(request)

        client.socket_mode_request_listeners.append(take)
        await client.connect()
        try:
            await stand_in.write("U7", "hello")
            request = await came.get()
            assert (request.type, request.payload["event"]["text"]) == ("events_api", "hello")
            while stand_in.unacknowledged:
                await asyncio.sleep(0.01)
        finally:
            await client.close()


async def test_discords_rest_api_and_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    discord = pytest.importorskip("discord")
    async with DiscordStandIn() as stand_in, asyncio.timeout(PATIENCE_S):
        monkeypatch.setattr(discord.http.Route, "BASE", stand_in.api_base)
        gateway = URL(f"ws://127.0.0.1:{stand_in.port}/gateway/")
        monkeypatch.setattr(discord.gateway.DiscordWebSocket, "DEFAULT_GATEWAY", gateway)
        came = asyncio.Queue[Any]()
        client = discord.Client(intents=discord.Intents(guild_messages=True, dm_messages=True))

        async def on_message(message: Any) -> None:
            await came.put(message)

        client.event(on_message)
        running = asyncio.create_task(client.start(discord_standin.TOKEN))
        try:
            while not stand_in.sockets:
                assert not running.done(), running.exception()
                await asyncio.sleep(0.01)
            await stand_in.share("7", "a.txt", b"data", "hello")
            message = await came.get()
            assert (message.content, message.author.id, message.guild) == ("hello", 7, None)
            assert await message.attachments[0].read() == b"data"
            chat = client.get_partial_messageable(97)
            sent = await chat.send("**hi**", nonce="n1")
            assert (sent.content, sent.author.id, str(sent.id)) == ("**hi**", 4242, stand_in.messages[0]["id"])
            assert (await sent.edit(content="changed")).content == "changed"
            file = await chat.send("all", file=discord.File(__file__, filename="b.py"))
            assert (file.attachments[0].filename, bool(stand_in.messages[1]["document"])) == ("b.py", True)
            with pytest.raises(discord.NotFound):
                await chat.get_partial_message(1).edit(content="x")
        finally:
            await client.close()
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
