"""Channels: how long until what came is durable, what that costs, and whether messages go out at the platform's pace.

    python benchmarks/bench_channels.py [--seconds 20] [--messages 1000] [--chats 100]

*Inbound*: 50 signed deliveries a second in WhatsApp's format to a real server on SQLite, beside the same to a bare
aiohttp handler that checks the signature and forgets. *Pace*: messages to chats on Telegram's stand-in, at 30 a second
in all and one a second in a chat. *Idle*: the processor time of a server with a bot that nobody writes to, less that of
one without.
"""

import argparse
import asyncio
import hmac
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from agent_fabric.application.channels.deliver_parts import DeliverParts
from agent_fabric.application.channels.replies import plain_part
from agent_fabric.application.ports.channels import ChannelStore
from agent_fabric.domain.channels.addresses import Place
from agent_fabric.domain.channels.deliveries import DeliveryStatus
from agent_fabric.infrastructure.channels.telegram import TelegramChannel
from agent_fabric.infrastructure.clock import RandomIds, SystemClock
from agent_fabric.infrastructure.persistence.storage import open_storage
from agent_fabric.testing.telegram_standin import BOT_ID, TOKEN, TelegramStandIn
from bench_http import free_port

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from standins.whatsapp_standin import APP_SECRET, NUMBER, WhatsAppStandIn

RATE = 50
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """Return the processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@asynccontextmanager
async def serving(channels: dict[str, Any]) -> AsyncIterator[tuple[str, int]]:
    """Run a server with these channels; yield its address and process."""
    with tempfile.TemporaryDirectory() as folder:
        port, fabric = free_port(), str(Path(sys.executable).with_name("fabric"))
        settings = {
            f"FABRIC_CHANNELS__{name}__{key}".upper(): text
            for name, settings in channels.items()
            for key, text in settings.items()
        }
        secrets = {"TELEGRAM_TOKEN": TOKEN, "WA_TOKEN": "x", "WA_SECRET": APP_SECRET, "WA_VERIFY": "v"}
        process = await asyncio.create_subprocess_exec(
            *(fabric, "serve", "--port", str(port), "--workspace", f"{folder}/.fabric"),
            env={**os.environ, **secrets, **settings, "XDG_CONFIG_HOME": folder},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        url = f"http://127.0.0.1:{port}"
        try:
            async with aiohttp.ClientSession() as session, asyncio.timeout(120):
                while True:
                    try:
                        async with session.get(f"{url}/health") as answer:
                            if answer.status == 200:
                                break
                    except aiohttp.ClientError:
                        await asyncio.sleep(0.2)
            yield url, process.pid
        finally:
            process.terminate()
            await process.wait()


async def deliver(url: str, seconds: float) -> list[float]:
    """Send signed deliveries at an even rate; return how long each took, in ms."""
    made, took = WhatsAppStandIn(), list[float]()

    async def one(session: aiohttp.ClientSession, number: int) -> None:
        headers, body = made.said(f"49{number:09}", "hello")
        began = time.perf_counter()
        async with session.post(url, data=body, headers=headers) as answer:
            assert answer.status == 200, answer.status
            await answer.read()
        took.append((time.perf_counter() - began) * 1_000)

    async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
        began = time.monotonic()
        for number in range(int(seconds * RATE)):
            group.create_task(one(session, number))
            await asyncio.sleep(max(began + (number + 1) / RATE - time.monotonic(), 0))
    return took


@asynccontextmanager
async def bare() -> AsyncIterator[str]:
    """Run the handler that one would write by hand, without a store."""

    async def take(request: web.Request) -> web.Response:
        body = await request.read()
        wanted = f"sha256={hmac.digest(APP_SECRET.encode(), body, 'sha256').hex()}"
        good = hmac.compare_digest(request.headers.get("x-hub-signature-256", ""), wanted)
        return web.json_response({}, status=200 if good and json.loads(body) else 401)

    app = web.Application()
    app.router.add_post("/", take)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    await runner.cleanup()


async def pace(messages: int, chats: int) -> tuple[float, float]:
    """Send messages to chats; return how long it took and how long the pace allows."""

    async def token() -> str:
        return TOKEN

    with tempfile.TemporaryDirectory() as folder:
        storage = open_storage(Path(folder), clock=SystemClock(), ids=RandomIds(), run_dir=str)
        try:
            return await _deliver(storage.channels, messages, chats, token)
        finally:
            storage.close()


async def _deliver(
    store: ChannelStore, messages: int, chats: int, token: Callable[[], Awaitable[str]]
) -> tuple[float, float]:
    async with TelegramStandIn() as telegram:
        clock, outbox = SystemClock(), store.outbox
        channel = TelegramChannel(token, clock, api_base=telegram.api_base)
        channel.status.account = str(BOT_ID)
        now = clock.now()
        await outbox.put(
            [
                plain_part(f"m{number}", Place("telegram", str(BOT_ID), str(1 + number % chats)), "hello", at=now)
                for number in range(messages)
            ]
        )
        deliver_parts = DeliverParts(channel, outbox, store.deliveries, clock)
        began = time.monotonic()
        while await store.deliveries.list(statuses=(DeliveryStatus.QUEUED, DeliveryStatus.SENDING), limit=1):
            while await deliver_parts():
                pass
            await asyncio.sleep(min(deliver_parts.free_in_s or 0.5, 0.5))
        took = time.monotonic() - began
        assert len(telegram.messages) == messages
        await channel.aclose()
    return took, max((messages - 1) // 30, (messages // chats - 1) * 1.0)


def shown(took: list[float]) -> str:
    """Return the median and the 99th percentile."""
    return f"p50 {statistics.median(took):.1f} ms, p99 {statistics.quantiles(took, n=100)[98]:.1f} ms"


async def measure(seconds: float, messages: int, chats: int) -> None:
    """Measure everything, and print it."""
    async with bare() as url:
        print(f"inbound, bare handler: {shown(await deliver(url, seconds))}")
    number = {"token": "env:WA_TOKEN", "app_secret": "env:WA_SECRET", "verify_token": "env:WA_VERIFY"}
    number |= {"phone_number_id": NUMBER, "api_base": "http://127.0.0.1:9"}
    async with serving({"whatsapp": number}) as (url, pid):
        await asyncio.sleep(3)
        before, began = cpu_s(pid), time.monotonic()
        took = await deliver(f"{url}/api/v1/channels/whatsapp", seconds)
        share = (cpu_s(pid) - before) / (time.monotonic() - began)
        print(f"inbound, durable: {shown(took)}; {share:.0%} of a core at {RATE}/s")
    idle = []
    async with TelegramStandIn() as telegram:
        bot = {"token": "env:TELEGRAM_TOKEN", "api_base": telegram.api_base}
        for channels in ({}, {"telegram": bot}):
            async with serving(channels) as (_, pid):
                await asyncio.sleep(5)
                before, began = cpu_s(pid), time.monotonic()
                await asyncio.sleep(seconds)
                idle.append((cpu_s(pid) - before) / (time.monotonic() - began))
    print(f"idle: {idle[0]:.2%} without, {idle[1]:.2%} with a bot: {idle[1] - idle[0]:.2%} of a core a channel")
    took_s, allowed_s = await pace(messages, chats)
    print(f"pace: {messages} messages to {chats} chats in {took_s:.1f} s; the platform allows {allowed_s:.1f} s")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description="Measure channels.")
    options.add_argument("--seconds", type=float, default=20.0)
    options.add_argument("--messages", type=int, default=1_000)
    options.add_argument("--chats", type=int, default=100)
    given = options.parse_args()
    asyncio.run(measure(given.seconds, given.messages, given.chats))
