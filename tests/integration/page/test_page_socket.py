"""The socket of the page under fire: garbage, floods, and many tabs."""

import asyncio
import json
import random
import time
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from agent_fabric.interfaces.http.connection import LINGER_S
from agent_fabric.interfaces.http.fleet.node_socket import PROVE_TIMEOUT_S
from agent_fabric.interfaces.http.page.messages import MISUSED, InvalidMessage, Ping, read_message
from agent_fabric.interfaces.http.page.socket import HELLO_TIMEOUT_S, MAX_INVALID
from agent_fabric.interfaces.http.page.sockets import MAX_SOCKETS
from agent_fabric.testing.scripted_model import Call, Say, Script
from effort import effort, report
from integration.http.served import served
from integration.page.page_client import PATIENCE_S, Browser, Socket, browser

WORDS = ("hello", "follow", "unfollow", "ping", "event", "", "run", "session", "after", "page_token", "type")


def garbage(dice: random.Random) -> str | bytes:
    """Return a frame that nobody sends, or nearly one that somebody would."""
    match dice.randrange(8):
        case 0:
            return dice.randbytes(dice.randrange(200))
        case 1:
            return "".join(chr(dice.choice((dice.randrange(1, 128), dice.randrange(0x20, 0xD7FF)))) for _ in range(40))
        case 2:
            return "[" * dice.randrange(2_000)
        case 3:
            said = {dice.choice(WORDS): value(dice), dice.choice(WORDS): value(dice)}
            return json.dumps({"type": dice.choice(WORDS), **said})
        case 4:
            return json.dumps({"type": "follow", "run": value(dice), "after": value(dice)})
        case 5:
            return json.dumps({"type": "follow", "session": value(dice)})
        case 6:
            return json.dumps(value(dice))
        case _:
            return json.dumps({"type": "ping", "x": "y" * dice.randrange(60_000)})


def value(dice: random.Random, depth: int = 0) -> Any:
    """Return any JSON."""
    simple = (None, True, -1, 2**70, 1.5, "", "x" * 300, "..", "\u0000", "%", "'; --", "a\nb", float(2**60))
    if depth > 3 or dice.random() < 0.7:
        return dice.choice(simple)
    if dice.random() < 0.5:
        return [value(dice, depth + 1) for _ in range(dice.randrange(4))]
    return {str(value(dice, 9)): value(dice, depth + 1) for _ in range(dice.randrange(4))}


def test_whatever_is_said_is_understood_or_refused() -> None:
    dice = random.Random(11)
    for _ in range(effort(3_000, 100_000)):
        frame = garbage(dice)
        try:
            read_message(frame if isinstance(frame, str) else None)
        except InvalidMessage as problem:
            assert str(problem)


async def bombard(person: Browser, dice: random.Random, frames: int) -> int:
    """Send garbage over as many sockets as that takes; return how many frames the server has read and judged."""
    judged = 0
    while judged < frames:
        async with person.page() as page:
            sent = [garbage(dice) for _ in range(min(MAX_INVALID, frames - judged))]  # one more would close the socket
            answered = asyncio.create_task(pongs(page, 1 + sum(map(is_ping, sent))))
            for frame in sent:
                await page.connection.send(frame)
            await page.say(type="ping")
            await asyncio.wait_for(answered, PATIENCE_S)
            judged += len(sent)
    return judged


async def pongs(page: Socket, count: int) -> None:
    """Read until so many pings were answered: whatever was sent before them has been read by then."""
    for _ in range(count):
        await page.until(type="pong")


def is_ping(frame: str | bytes) -> bool:
    try:
        return isinstance(read_message(frame if isinstance(frame, str) else None), Ping)
    except InvalidMessage:
        return False


@pytest.mark.slow
async def test_fuzzed_frames_make_no_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    frames = effort(600, 20_000)
    async with served(tmp_path) as server, browser(server) as person:
        sent = await bombard(person, random.Random(7), frames)
        async with person.page() as page:
            for _ in range(MAX_INVALID + 1):
                await page.say(type="nonsense")
            assert (await page.until(type="bye"))[-1]["code"] == MISUSED
        async with person.socket() as socket:
            await socket.connection.send("x" * (64 * 1024 + 1))
            with pytest.raises(ConnectionClosed) as closed:
                await socket.hear()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1009
    assert [record for record in caplog.records if record.levelname in {"ERROR", "CRITICAL"}] == []
    report("frames sent to the socket of the page", sent)


@pytest.mark.slow
async def test_one_person_has_a_limited_number_of_sockets(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser(server) as person, asyncio.TaskGroup() as group:
        done = asyncio.Event()
        ready = asyncio.Semaphore(0)

        async def tab() -> None:
            async with person.page():
                ready.release()
                await done.wait()

        for _ in range(MAX_SOCKETS):
            group.create_task(tab())
        for _ in range(MAX_SOCKETS):
            await asyncio.wait_for(ready.acquire(), 30)
        async with person.socket() as one_more:
            await one_more.say(type="hello", page_token=person.page_token)
            assert (await one_more.hear())["code"] == 4429
        done.set()


@pytest.mark.slow
@pytest.mark.parametrize(("path", "silence_s"), [("/api/v1/web/ws", HELLO_TIMEOUT_S), ("/api/v1/ws", PROVE_TIMEOUT_S)])
async def test_a_socket_that_says_nothing_at_all_ends_when_the_guide_says_so(
    tmp_path: Path, path: str, silence_s: float
) -> None:
    async with served(tmp_path) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        origin = f"Origin: http://127.0.0.1:{server.port}\r\n" if "web" in path else ""
        head = (
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n{origin}Upgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        writer.write(head.encode())
        async with asyncio.timeout(PATIENCE_S):
            assert b" 101 " in await reader.readline()
            since = time.monotonic()
            await reader.read()  # to the end of the connection; no goodbye is answered
        assert silence_s - 1 < time.monotonic() - since < silence_s + LINGER_S + 3
        writer.close()


@pytest.mark.slow
async def test_whoever_says_nothing_is_sent_away(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser(server) as person, person.socket() as silent:
        async with asyncio.timeout(60):
            assert (await silent.hear())["type"] == "bye"
            with pytest.raises(ConnectionClosed) as closed:
                await silent.hear()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4401


@pytest.mark.slow
@pytest.mark.proves("CO-19")
async def test_what_is_decided_elsewhere_is_settled_in_every_tab(tmp_path: Path) -> None:
    asks = Script(turns=(Call("shell", {"command": "make deploy"}), Say("Not today, then.")))
    async with served(tmp_path, asks) as server, browser(server) as person, person.page() as one, person.page() as two:
        started = await server.client.post("/runs", json={"prompt": "deploy it", "pack": "engineering"})
        assert started.status_code == 202, started.text
        cards = [(await tab.until(type="approval"))[-1]["approval"] for tab in (one, two)]
        assert [card["status"] for card in cards] == ["pending", "pending"]
        decided = await server.client.post(f"/approvals/{cards[0]['id']}", json={"decision": "deny"})
        assert decided.status_code == 200, decided.text
        async with asyncio.timeout(effort(10, 1)):  # a second, on a machine that does nothing else
            settled = [(await tab.until(type="approval"))[-1]["approval"] for tab in (one, two)]
        assert [(card["id"], card["status"]) for card in settled] == [(cards[0]["id"], "denied")] * 2
