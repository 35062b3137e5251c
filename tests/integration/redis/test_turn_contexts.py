"""What turns have left, in a real Redis: found by every server, changed by nobody, and never missed."""

import logging
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest
import redis as redis_client

from agent_fabric.domain.chat.turn_context import TurnContext
from agent_fabric.domain.ids import CallId, RunId, SessionId, SpecialistId
from agent_fabric.domain.models.messages import Message, Role, ToolCallRequest
from agent_fabric.domain.runs.task import Quoted
from agent_fabric.infrastructure.cluster.redis.turn_contexts import KEPT_S, RETRY_S, RedisTurnContexts
from agent_fabric.infrastructure.persistence.secrets.run_encryption import RunCipher
from own_services import OwnService, run_redis

pytestmark = pytest.mark.proves("A33-131", "SC-8")
KEY = b"k" * 32
SESSION, RUN = SessionId("s-1"), RunId("r-1")
CALL = ToolCallRequest(CallId("c-1"), "list_files", '{"path": "ä"}')
CONTEXT = TurnContext(
    run_id=RUN,
    events=12,
    session=SESSION,
    owner="user:ada",
    history=(
        Message(Role.USER, "look at the shed"),
        Message(Role.ASSISTANT, "", (CALL,)),
        Message(Role.TOOL, "a shed", call_id=CallId("c-1")),
        Message(Role.ASSISTANT, "It is red."),
    ),
    labels=Quoted(own_words="look at the shed", untrusted=("a page",), private=("files",), addresses=("a@b.c",)),
    specialist_ids=(SpecialistId("engineering"),),
    workspace="/w",
    project=True,
)


def no_cipher(run_id: RunId) -> RunCipher | None:
    return None


@pytest.fixture(scope="module")
def server() -> Iterator[OwnService]:
    with run_redis() as server:
        yield server


@pytest.fixture
def raw(server: OwnService) -> Iterator["redis_client.Redis"]:
    if server.process.poll() is not None:
        server.start()
    with redis_client.Redis(port=server.port) as client:
        client.flushall()
        yield client


@pytest.fixture
async def two(server: OwnService, raw: "redis_client.Redis") -> AsyncIterator[list[RedisTurnContexts]]:
    contexts = [RedisTurnContexts(server.url, KEY, no_cipher) for _ in range(2)]
    yield contexts
    for each in contexts:
        await each.aclose()


async def put(contexts: RedisTurnContexts, context: TurnContext) -> None:
    """Put it, and wait until it is there."""
    contexts.put(context)
    for task in [*contexts._under_way]:
        await task


async def test_another_server_finds_what_a_turn_has_left(
    two: list[RedisTurnContexts], raw: "redis_client.Redis"
) -> None:
    one, other = two
    assert await other.get(SESSION, RUN) is None
    await put(one, CONTEXT)
    assert await other.get(SESSION, RUN) == CONTEXT
    assert raw.keys() == [b"session:s-1"]
    assert 0 < raw.ttl("session:s-1") <= KEPT_S
    stored = raw.get("session:s-1")
    assert isinstance(stored, bytes)
    assert b"shed" not in stored
    one.drop(SESSION)
    for task in [*one._under_way]:
        await task
    assert await other.get(SESSION, RUN) is None


async def test_what_an_encrypted_turn_has_left_is_readable_with_its_key_only(
    server: OwnService, two: list[RedisTurnContexts], raw: "redis_client.Redis"
) -> None:
    encrypted = replace(CONTEXT, encrypted=True)
    await put(two[0], encrypted)
    assert raw.keys() == []  # there is no key
    cipher = RunCipher(RUN, b"r" * 32)
    ciphers = {RUN: cipher}
    contexts = RedisTurnContexts(server.url, KEY, ciphers.get)
    await put(contexts, encrypted)
    assert await contexts.get(SESSION, RUN) == encrypted
    assert await contexts.get(SESSION, RunId("r-2")) is None
    assert await two[1].get(SESSION, RUN) is None
    ciphers[RUN] = RunCipher(RUN, b"s" * 32)
    assert await contexts.get(SESSION, RUN) is None
    await contexts.aclose()


async def test_an_earlier_turn_is_not_taken_for_the_newest(two: list[RedisTurnContexts]) -> None:
    await put(two[0], CONTEXT)
    await put(two[0], replace(CONTEXT, session="", run_id=RunId("r-2")))
    assert await two[1].get(SESSION, RunId("r-2")) is None
    await put(two[0], replace(CONTEXT, run_id=RunId("r-2")))
    assert await two[1].get(SESSION, RUN) is None


async def test_what_somebody_has_changed_moved_or_made_up_is_not_believed(
    server: OwnService, two: list[RedisTurnContexts], raw: "redis_client.Redis"
) -> None:
    one, other = two
    await put(one, CONTEXT)
    stored = raw.get("session:s-1")
    assert isinstance(stored, bytes)
    raw.set("session:s-2", stored)
    assert await other.get(SessionId("s-2"), RUN) is None
    for forged in (stored[:-1] + bytes([stored[-1] ^ 1]), stored[:20], b"", b"1", b'{"run_id": "r-1"}'):
        raw.set("session:s-1", forged)
        assert await other.get(SESSION, RUN) is None
    raw.set("session:s-1", stored)
    stranger = RedisTurnContexts(server.url, b"x" * 32, no_cipher)
    assert await stranger.get(SESSION, RUN) is None
    await stranger.aclose()
    assert await other.get(SESSION, RUN) == CONTEXT


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "hangs"])
async def test_without_redis_nobody_waits_and_when_it_is_back_it_is_used(
    server: OwnService, two: list[RedisTurnContexts], how: str, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = two
    await put(one, CONTEXT)
    with caplog.at_level(logging.WARNING):
        server.kill() if how == "killed" else server.pause()
        began = time.monotonic()
        for _ in range(50):
            assert await other.get(SESSION, RUN) is None
            await put(one, CONTEXT)
        assert time.monotonic() - began < 10 * RETRY_S
    assert len([each for each in caplog.records if "read from the log" in each.message]) == 2, "each says it once"
    server.start() if how == "killed" else server.go_on()
    one._away_until = other._away_until = 0.0
    await put(one, CONTEXT)
    assert await other.get(SESSION, RUN) == CONTEXT
