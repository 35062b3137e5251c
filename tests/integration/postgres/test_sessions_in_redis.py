"""Two servers, one database, one Redis: the next message may come to either, with Redis and without."""

from pathlib import Path

import pytest
import redis as redis_client

from agent_fabric.application.runs.fold_log import fold_log
from agent_fabric.domain.chat.turn_context import context_after
from agent_fabric.domain.ids import RunId, SessionId
from e2e.fabric_process import until
from integration.http.served import Served, served
from integration.http.test_sessions import BASE, answered, answering, new_session, say
from own_services import run_redis


async def talk(server: Served, session: str, words: str) -> str:
    """Say something, wait for the answer, and return the turn."""
    run_id = str((await say(server, session, words))["run_id"])
    await answered(server, session, run_id)
    return run_id


def said_to_model(server: Served) -> list[str]:
    """Return what the model was told last of what the person has said."""
    return [str(each["content"]) for each in server.model.requests[-1].body["messages"] if each["role"] == "user"]


@pytest.mark.proves("A33-131", "SC-8")
@pytest.mark.parametrize("encryption", ["sessions", "off"])
async def test_a_session_goes_on_at_any_server_with_redis_and_without(tmp_path: Path, encryption: str) -> None:
    with run_redis() as redis, redis_client.Redis(port=redis.port) as raw:
        also = {"redis": {"url": redis.url}, "encryption": encryption}
        async with (
            served(tmp_path, answering, also=also) as one,
            served(tmp_path, answering, also=also) as other,
        ):
            session = SessionId(await new_session(one))
            turn = RunId(await talk(one, session, "look first"))
            await until(lambda: raw.exists(f"session:{session}") == 1, "it is cached")
            contexts = other.fabric.chat.contexts
            assert contexts is not None
            cached = await contexts.get(session, turn)
            log = await other.fabric.records.runs.read(turn)
            assert cached == context_after(await fold_log(turn, log))
            assert cached is not None
            assert (cached.events, cached.encrypted) == (len(log), encryption == "sessions")
            await talk(other, session, "then this")
            short = await new_session(one)
            await talk(other, short, "only this")
            await until(lambda: raw.exists(f"session:{short}") == 1, "it is cached")
            assert (await one.client.delete(f"{BASE}/{short}")).status_code == 204
            await until(lambda: raw.exists(f"session:{short}") == 0, "it is forgotten")
            redis.kill()
            await talk(one, session, "and that")
            asked = [*said_to_model(one), *said_to_model(other)]
            assert {"look first", "then this", "and that"} <= set(asked)
            redis.start()
            await talk(other, session, "at last")
            assert (await one.client.delete(f"{BASE}/{session}")).status_code == 204
