"""The choice of specialists as a use case: when a model is asked, and what its answer may do."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from agent_fabric.application.models.model_turn import ModelTurn
from agent_fabric.application.packs.ask_routing_model import CHOOSE, PATIENCE_S, AskRoutingModel
from agent_fabric.application.packs.recruit import RecruitSpecialists, parse_pack_names
from agent_fabric.application.ports.llm import ChosenModel, Notice
from agent_fabric.domain.errors import ConfigError, FabricError, ModelUnreachable, RecruitError
from agent_fabric.domain.events import Body, ModelAnswered, ModelCalled, ModelFailed, SpecialistsRecruited
from agent_fabric.domain.ids import CallId, SpecialistId
from agent_fabric.domain.models.messages import LLMResponse, Message, ToolCallRequest, Usage
from agent_fabric.domain.packs.recruitment import Specialist
from agent_fabric.domain.runs.task import Budget, Profile, Task
from agent_fabric.testing.fakes import FrozenClock, FunctionClient, OneModel, quiet
from agent_fabric.testing.workbench import SETTINGS

PEOPLE = [
    Specialist(specialist_id=SpecialistId("engineering"), description="Builds.", keywords=("code",)),
    Specialist(specialist_id=SpecialistId("research"), description="Finds out.", keywords=("review",)),
    Specialist(specialist_id=SpecialistId("research_plus"), description="Finds out more."),
]


def task(prompt: str, *packs: str) -> Task:
    return Task(
        prompt=prompt,
        specialist_ids=tuple(map(SpecialistId, packs)),
        model_key="quality",
        budget=Budget(max_steps=5),
    )


class Asked:
    """A routing model that gives one answer and remembers what it was asked."""

    def __init__(self, answer: LLMResponse | FabricError) -> None:
        self.answer = answer
        self.questions: list[Sequence[Message]] = []

    def recruit(self) -> RecruitSpecialists:
        async def answer(messages: Sequence[Message]) -> LLMResponse:
            self.questions.append(messages)
            if isinstance(self.answer, FabricError):
                raise self.answer
            return self.answer

        turn = ModelTurn(FunctionClient(answer), FrozenClock())
        return RecruitSpecialists(PEOPLE, {}, AskRoutingModel(turn, OneModel(replace(SETTINGS, model="small")), "fast"))


async def recruited(recruit: RecruitSpecialists, what: Task) -> list[Body]:
    prepared = recruit(what, quiet)
    bodies = list(prepared.bodies)
    if prepared.effect is not None:
        bodies += await prepared.effect()
    return bodies


def says(*names: object, content: str = "") -> LLMResponse:
    call = ToolCallRequest(CallId("c"), CHOOSE, json.dumps({"specialist_ids": list(names)}))
    return LLMResponse(content=content, tool_calls=(call,) if names else (), usage=Usage(7, 3))


@pytest.mark.proves("AF-040", "AF-135")
async def test_a_named_pack_is_taken_without_looking_at_the_task() -> None:
    model = Asked(says("research"))
    (body,) = await recruited(model.recruit(), task("review of code", "engineering"))
    assert isinstance(body, SpecialistsRecruited)
    assert (body.specialist_id, body.routing_method, body.is_task_force) == ("engineering", "explicit", False)
    assert model.questions == []


async def test_clear_words_need_no_model() -> None:
    model = Asked(says("research"))
    (body,) = await recruited(model.recruit(), task("write code"))
    assert isinstance(body, SpecialistsRecruited)
    assert (body.specialist_ids, body.routing_method) == (("engineering",), "keywords")
    assert model.questions == []


@pytest.mark.proves("AF-042", "AF-133", "C04")
async def test_a_model_settles_what_words_leave_open_and_the_log_shows_it() -> None:
    model = Asked(says("research"))
    called, answered, body = await recruited(model.recruit(), task("review of code"))
    assert isinstance(called, ModelCalled)
    assert (called.purpose, called.model) == ("routing", "fast")
    assert isinstance(answered, ModelAnswered)
    assert isinstance(body, SpecialistsRecruited)
    assert (body.specialist_ids, body.routing_method) == (("research",), "model")
    assert "engineering: Builds." in model.questions[0][0].content
    assert "review of code" in model.questions[0][1].content


@pytest.mark.parametrize(
    ("answer", "who"),
    [
        (says("research", "engineering"), ("research", "engineering")),
        (says(content="I would ask research_plus."), ("research_plus",)),
        (
            LLMResponse(
                content="", tool_calls=(ToolCallRequest(CallId("c"), CHOOSE, '{"specialist_ids": "engineering"}'),)
            ),
            ("engineering",),
        ),
        (says(content='{"specialist_ids": ["research"]}'), ("research",)),
        (says(7, None, "research"), ("research",)),
    ],
)
async def test_answers_are_read_whatever_their_form(answer: LLMResponse, who: tuple[str, ...]) -> None:
    body = (await recruited(Asked(answer).recruit(), task("hm")))[-1]
    assert isinstance(body, SpecialistsRecruited)
    assert body.specialist_ids == who
    assert body.is_task_force == (len(who) > 1)


@pytest.mark.parametrize(
    "answer",
    [
        says("wizard"),
        says(content="Nobody I know."),
        says(content="I would not use research; engineering, please."),
        says(content=""),
        LLMResponse(content="", tool_calls=(ToolCallRequest(CallId("c"), CHOOSE, "{not json"),)),
        ModelUnreachable("nobody listens"),
    ],
)
async def test_without_a_usable_answer_the_fallback_rule_decides(answer: LLMResponse | FabricError) -> None:
    bodies = await recruited(Asked(answer).recruit(), task("hm"))
    body = bodies[-1]
    assert isinstance(body, SpecialistsRecruited)
    assert (body.specialist_ids, body.routing_method) == (("research",), "fallback")
    assert "routing model" in body.reasons[0]
    if isinstance(answer, FabricError):
        assert isinstance(bodies[1], ModelFailed)


async def test_a_routing_model_that_is_not_configured_is_no_obstacle() -> None:
    class NoModels:
        async def choose(self, key: str, notice: Notice) -> ChosenModel:
            raise ConfigError(f"There is no model {key!r}")

    turn = ModelTurn(FunctionClient(lambda _: pytest.fail("nobody is asked")), FrozenClock())
    *_, body = await recruited(RecruitSpecialists(PEOPLE, {}, AskRoutingModel(turn, NoModels(), "fast")), task("hm"))
    assert isinstance(body, SpecialistsRecruited)
    assert "There is no model 'fast'" in body.reasons[0]


def test_an_unknown_pack_is_named_with_those_there_are() -> None:
    with pytest.raises(RecruitError, match="wizard") as caught:
        RecruitSpecialists(PEOPLE, {})(task("x", "research", "wizard"), quiet)
    assert "engineering, research" in caught.value.hint


def test_without_any_pack_a_person_is_told_what_to_do() -> None:
    with pytest.raises(RecruitError) as caught:
        RecruitSpecialists([], {})(task("x"), quiet)
    assert "specialists" in caught.value.hint


async def test_a_huge_task_is_not_sent_whole_to_the_routing_model() -> None:
    model = Asked(says("research"))
    await recruited(model.recruit(), task("hm " * 100_000))
    assert len(model.questions[0][1].content) < 5_000


def test_several_packs_are_named_with_commas() -> None:
    assert parse_pack_names(" research , engineering,,research") == ("research", "engineering")
    assert parse_pack_names("") == ()


TALKERS = [
    *PEOPLE,
    Specialist(specialist_id=SpecialistId("sysadmin"), description="Looks after machines.", keywords=("fleet",)),
    Specialist(specialist_id=SpecialistId("assistant"), description="Talks."),
]


def talking(*, nodes: bool | FabricError = False) -> RecruitSpecialists:
    async def has_nodes() -> bool:
        if isinstance(nodes, FabricError):
            raise nodes
        return nodes

    return replace(Asked(ModelUnreachable("gone")).recruit(), specialists=TALKERS, has_nodes=has_nodes)


def turn(prompt: str, *packs: str) -> Task:
    return replace(task(prompt, *packs), profile=Profile.CHAT)


@pytest.mark.parametrize(
    ("prompt", "nodes", "chosen"),
    [
        ("hello", False, "assistant"),
        ("hello", True, "sysadmin"),
        ("write some code", False, "engineering"),
        ("write some code", True, "engineering"),
        ("is the fleet well?", False, "sysadmin"),
    ],
)
@pytest.mark.proves("CO-10")
async def test_a_conversation_is_for_the_assistant_unless_its_words_or_machines_ask_for_another(
    prompt: str, nodes: bool, chosen: str
) -> None:
    (body,) = await recruited(talking(nodes=nodes), turn(prompt))
    assert isinstance(body, SpecialistsRecruited)
    assert body.specialist_ids == (chosen,)


@pytest.mark.parametrize("prompt", ["hello", "hm", "What is 17 * 23?", "compare cats and dogs"])
async def test_what_no_specialist_is_asked_for_is_for_the_assistant_and_no_model_is_asked(prompt: str) -> None:
    model = Asked(says("research"))
    (body,) = await recruited(replace(model.recruit(), specialists=TALKERS), task(prompt))
    assert isinstance(body, SpecialistsRecruited)
    assert body.specialist_ids == ("assistant",)
    assert model.questions == []


async def test_the_fallback_is_the_assistant() -> None:
    gone = replace(Asked(ModelUnreachable("gone")).recruit(), specialists=TALKERS)
    called, _, body = await recruited(gone, task("review of code"))
    assert isinstance(called, ModelCalled)
    assert isinstance(body, SpecialistsRecruited)
    assert (body.specialist_ids, body.routing_method) == (("assistant",), "fallback")


async def test_a_routing_model_has_five_seconds_also_to_be_found() -> None:
    assert PATIENCE_S == 5.0

    class Loading:
        async def choose(self, key: str, notice: Notice) -> ChosenModel:
            await asyncio.sleep(60)
            raise AssertionError("nobody waits for it")

    turn = ModelTurn(FunctionClient(lambda _: pytest.fail("nobody is asked")), FrozenClock())
    ask = AskRoutingModel(turn, Loading(), "fast", patience_s=0.05)
    _, failed, body = await recruited(RecruitSpecialists(TALKERS, {}, ask), task("review of code"))
    assert isinstance(failed, ModelFailed)
    assert isinstance(body, SpecialistsRecruited)
    assert (body.specialist_ids, body.routing_method) == (("assistant",), "fallback")
    assert "within" in body.reasons[0]


async def test_who_answers_does_not_depend_on_whether_machines_can_be_listed() -> None:
    (body,) = await recruited(talking(nodes=ModelUnreachable("gone")), turn("hello"))
    assert isinstance(body, SpecialistsRecruited)
    assert body.specialist_ids == ("assistant",)


@pytest.mark.parametrize("profile", [Profile.CHAT, Profile.TASK])
async def test_the_only_pack_does_everything(profile: Profile) -> None:
    model = Asked(says("research"))
    only = replace(model.recruit(), specialists=PEOPLE[:1])
    (body,) = await recruited(only, replace(task("a poem"), profile=profile))
    assert isinstance(body, SpecialistsRecruited)
    assert (body.specialist_ids, model.questions) == (("engineering",), [])


async def test_without_an_assistant_a_conversation_is_given_to_somebody_as_a_task_is() -> None:
    bodies = await recruited(Asked(ModelUnreachable("gone")).recruit(), turn("hello"))
    assert isinstance(bodies[-1], SpecialistsRecruited)
    assert bodies[-1].specialist_ids == ("research",)
