"""An answer is used again only for the same owner, the same question and a model that would give it again."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from agent_fabric.application.ports.runs import RunReader
from agent_fabric.application.runs.reuse_answers import ReuseAnswers
from agent_fabric.domain.errors import RunNotFound
from agent_fabric.domain.events import Body, Event, ModelAnswered
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.models.messages import Message, ModelSettings, Role, Usage
from agent_fabric.domain.runs.reuse import Asker, reuse_key
from agent_fabric.domain.tools.specs import FINISH_TASK, Effect, ToolSpec, object_schema
from agent_fabric.testing.workbench import SETTINGS
from contract.run_repository_contract import run_created
from memory_storage import MemoryStorage

pytestmark = pytest.mark.proves("A33-074", "ME-15")
COLD = replace(SETTINGS, temperature=0.0)
ASKED = [Message(Role.SYSTEM, "Be brief."), Message(Role.USER, "When does the pool open?")]
ADA = Asker(RunId("new"), "user:ada", encrypted=False)
SAID = ModelAnswered(
    content="At nine.", tool_calls=(), usage=Usage(9, 3), model="m", finish_reason="stop", duration_s=2.0, cost=0.1
)
TOOL = ToolSpec(name="look", description="", parameters=object_schema({}), effect=Effect.IDEMPOTENT)


class Logs:
    """RunReader over logs in a dictionary."""

    def __init__(self) -> None:
        self.logs: dict[RunId, list[Event]] = {}

    async def page(self, run_id: RunId, *, after: int, limit: int, whole: bool = True) -> Sequence[Event]:
        if run_id not in self.logs:
            raise RunNotFound(f"There is no run {run_id}")
        return [event for event in self.logs[run_id] if event.seq > after][:limit]


def opened() -> tuple[ReuseAnswers, Logs]:
    logs = Logs()
    reader: RunReader = logs  # type: ignore[assignment] # it is asked for pages only
    return ReuseAnswers(MemoryStorage().responses, reader, b"secret"), logs


async def keep(reuse: ReuseAnswers, logs: Logs, *, encrypted: bool = False) -> str:
    """Let an earlier run ask and log the answer; return the key of the question."""
    key = reuse.key(COLD, ASKED, (), ADA)
    answer = await reuse.note(key, SAID, ADA._replace(run_id=RunId("old")))
    created = replace(run_created("x"), encrypted=encrypted)
    bodies: list[Body] = [created, answer]
    logs.logs[RunId("old")] = [Event(seq, 1.0, LaneId("engineering"), "", body) for seq, body in enumerate(bodies)]
    return key


async def test_the_answer_comes_from_the_log_and_names_its_origin() -> None:
    reuse, logs = opened()
    key = await keep(reuse, logs)
    found = await reuse.find(key, ADA)
    assert found == replace(SAID, usage=Usage(0, 0), duration_s=0.0, cost=None, reused="old#1")
    assert logs.logs[RunId("old")][1].body == replace(SAID, reuse_key=key)


async def test_what_is_gone_or_was_never_logged_is_asked_again() -> None:
    reuse, logs = opened()
    key = await keep(reuse, logs)
    del logs.logs[RunId("old")][1]
    assert await reuse.find(key, ADA) is None, "the process died before the answer was durable"
    logs.logs.clear()
    assert await reuse.find(key, ADA) is None, "the run was deleted"
    assert await reuse.find("0" * 64, ADA) is None


async def test_what_is_encrypted_does_not_come_to_lie_in_an_open_log() -> None:
    reuse, logs = opened()
    key = await keep(reuse, logs, encrypted=True)
    assert await reuse.find(key, ADA) is None
    assert await reuse.find(key, ADA._replace(encrypted=True)) is not None


@pytest.mark.parametrize(
    "answer",
    [replace(SAID, finish_reason="length"), replace(SAID, problem="no call")],
    ids=["cut", "wrong"],
)
async def test_half_an_answer_is_not_used_again(answer: ModelAnswered) -> None:
    reuse, _ = opened()
    assert await reuse.note("k", answer, ADA) == answer
    assert await reuse.index.find("k") is None


def test_each_difference_makes_another_question() -> None:
    def key(
        model: ModelSettings = COLD, asked: Sequence[Message] = ASKED, owner: str = "user:ada", secret: bytes = b"s"
    ) -> str:
        return reuse_key(secret, model, asked, (), owner)

    other = [ASKED[0], Message(Role.USER, "When does the sauna open?")]
    keys = [
        key(),
        key(owner="user:bob"),
        key(secret=b"t"),
        key(asked=other),
        key(asked=ASKED[1:]),
        key(replace(COLD, model="other")),
        key(replace(COLD, top_p=0.5)),
        key(replace(COLD, max_tokens=7)),
        key(replace(COLD, base_url="http://elsewhere/v1")),
    ]
    assert len(set(keys)) == len(keys)
    assert all(len(each) == 64 for each in keys)
    assert key() == key()


def test_warm_models_and_models_with_tools_are_asked() -> None:
    assert reuse_key(b"s", replace(COLD, temperature=0.2), ASKED, (), "user:ada") == ""
    assert reuse_key(b"s", COLD, ASKED, [TOOL], "user:ada") == ""
    finish = replace(TOOL, name=FINISH_TASK)
    keys = {
        reuse_key(b"s", COLD, ASKED, tools, "user:ada") for tools in ((), [finish], [replace(finish, description="x")])
    }
    assert len(keys) == 3
    assert "" not in keys
