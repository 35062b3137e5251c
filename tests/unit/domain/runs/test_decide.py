"""Pure decisions: one state in, the same actions out."""

from dataclasses import replace

import pytest

from agent_fabric.domain.events import (
    Body,
    ContextCompacted,
    Event,
    GuidanceGiven,
    ModelAnswered,
    ModelCalled,
    ModelFailed,
    PackStarted,
    RunCompleted,
    RunCreated,
    RunFailed,
    RunInterrupted,
    RunResumed,
    RunWaited,
    SpecialistsRecruited,
    ToolCalled,
    ToolErred,
    ToolReturned,
    UnknownEvent,
)
from agent_fabric.domain.evidence.events import WorkspaceCompared
from agent_fabric.domain.evidence.proofs import NO_PROOF
from agent_fabric.domain.ids import CallId, LaneId, RunId, SpecialistId
from agent_fabric.domain.models.events import PlainAnswerAccepted
from agent_fabric.domain.models.messages import Role, ToolCallRequest, Usage
from agent_fabric.domain.packs.contents import FinishSpec
from agent_fabric.domain.runs.actions import CallModel, CallTool, Compact, LookAtChanges, OpenLane, Record, Recruit
from agent_fabric.domain.runs.decide import decide
from agent_fabric.domain.runs.evolve import evolve, fold
from agent_fabric.domain.runs.state import RunState
from agent_fabric.domain.runs.task import MAX_CHAT_STEPS, Budget, Profile, RunStatus
from agent_fabric.domain.tools.specs import Effect, ToolSpec
from agent_fabric.testing.workbench import SETTINGS

RUN = RunId("run")
LANE = LaneId("engineering")
WHO = SpecialistId("engineering")
FINISH = FinishSpec(
    parameters={"type": "object", "properties": {"summary": {"type": "string"}}, "required": ["summary"]},
    needs_proof=True,
)


def tool(name: str, effect: Effect) -> ToolSpec:
    return ToolSpec(name=name, description=name, parameters={"type": "object"}, effect=effect)


TOOLS = (tool("look", Effect.READS), tool("put", Effect.IDEMPOTENT), tool("shell", Effect.CHANGES_WORKSPACE))


class Story:
    """A log told event by event."""

    def __init__(self, *, profile: Profile = Profile.TASK, window: int | None = None, **budget: float) -> None:
        self.state = RunState(RUN)
        self.log: list[Event] = []
        limits = Budget.of(profile, **budget)  # type: ignore[arg-type]  # steps and tokens are given as ints
        self.tell(
            RunCreated(
                prompt="do it",
                specialist_id=None,
                model_key="quality",
                network_allowed=True,
                profile=profile,
                budget=limits,
                workspace="/w",
                sandbox="none",
                policy_version="1",
                fabric_version="0",
            ),
            lane=None,
        )
        self.window = window

    def tell(self, *bodies: Body, lane: LaneId | None = LANE) -> "Story":
        for body in bodies:
            event = Event(len(self.log), 1000.0 + len(self.log), lane, "", body)
            self.log.append(event)
            evolve(self.state, event)
        return self

    def begin(self) -> "Story":
        return self.tell(
            SpecialistsRecruited(
                specialist_id=WHO,
                specialist_ids=(WHO,),
                required_capabilities=(),
                routing_method="default",
                is_task_force=False,
            ),
            PackStarted(
                specialist_id=WHO,
                pack_index=0,
                system_prompt="system",
                opening="do it",
                tools=TOOLS,
                finish=FINISH,
                model=replace(SETTINGS, context_window=self.window),
            ),
        )

    def ask(self, attempt: int = 1) -> "Story":
        return self.tell(ModelCalled(step=0, message_count=2, attempt=attempt, model="m"))

    def answer(self, *calls: tuple[str, str], text: str = "", tokens: int = 10) -> "Story":
        requests = tuple(ToolCallRequest(CallId(f"c{i}"), name, args) for i, (name, args) in enumerate(calls))
        return self.ask().tell(
            ModelAnswered(
                content=text,
                tool_calls=requests,
                usage=Usage(tokens, 5),
                model="m",
                finish_reason="stop",
                duration_s=1.0,
            )
        )

    def did(self, name: str = "look", call: str = "c0", *, changed: bool = False, proved: str = "") -> "Story":
        return self.tell(
            ToolCalled(tool=name, args={}, call_id=CallId(call)),
            ToolReturned(tool=name, result={"ok": 1}, call_id=CallId(call), changed=changed, proved=proved),
        )

    def next(self) -> object:
        (action,) = decide(self.state)
        return action

    def follow(self) -> Body:
        """Let the one decision that needs no world happen, and return its last event."""
        action = self.next()
        if isinstance(action, LookAtChanges):
            self.tell(WorkspaceCompared(known=False))
            action = self.next()
        assert isinstance(action, Record)
        self.tell(*action.bodies, lane=action.lane)
        return action.bodies[-1]


@pytest.mark.proves("AF-050", "C30")
def test_a_new_run_recruits_then_opens_its_pack_then_asks_the_model() -> None:
    story = Story()
    assert story.next() == Recruit()
    story.tell(
        SpecialistsRecruited(
            specialist_id=WHO,
            specialist_ids=(WHO,),
            required_capabilities=(),
            routing_method="explicit",
            is_task_force=False,
        )
    )
    assert story.next() == OpenLane(WHO, 0)
    assert Story().begin().next() == CallModel(LANE, 1, 0.0, must_finish=False)


def test_nothing_is_decided_while_an_effect_is_in_flight() -> None:
    assert decide(Story().begin().ask().state) == ()
    story = Story().begin().answer(("look", "{}")).tell(ToolCalled(tool="look", args={}, call_id=CallId("c0")))
    assert decide(story.state) == ()


@pytest.mark.proves("AF-055", "AF-060")
def test_calls_of_one_turn_run_in_order_and_finish_is_judged_last() -> None:
    story = Story().begin().answer(("finish_task", '{"summary": "done"}'), ("look", "{}"), ("put", "{}"))
    action = story.next()
    assert isinstance(action, CallTool)
    assert action.call.tool == "look"
    story.did("look", "c1")
    action = story.next()
    assert isinstance(action, CallTool)
    assert action.call.tool == "put"
    story.did("put", "c2")
    assert story.follow() == ToolReturned(tool="finish_task", result={"summary": "done"}, call_id=CallId("c0"))
    assert isinstance(story.follow(), RunCompleted)
    assert story.state.status is RunStatus.COMPLETED
    assert decide(story.state) == ()


@pytest.mark.parametrize(("most", "made"), [(1, 2), (3, 4), (3, 1_000), (64, 65)])
def test_calls_beyond_the_limit_of_a_turn_are_refused_together_and_none_of_them_runs(most: int, made: int) -> None:
    calls = [("look", f'{{"at": {number}}}') for number in range(made)]
    story = Story(max_calls_per_turn=most).begin().answer(("finish_task", '{"summary": "done"}'), *calls)
    for number in range(most):
        action = story.next()
        assert isinstance(action, CallTool)
        story.did("look", action.call.call_id)
        assert action.call.call_id == f"c{number + 1}"
    refused = story.next()
    assert isinstance(refused, Record)
    assert sum(isinstance(body, ToolErred) for body in refused.bodies) == made - most
    told = story.follow()
    assert isinstance(told, ToolErred)
    assert f"budget.max_calls_per_turn = {most}" in told.error_message
    assert fold(RUN, story.log) == story.state, "a replay comes to the same"
    assert isinstance(story.follow(), ToolReturned), "the finish is judged all the same"


def test_a_log_in_which_more_calls_were_run_than_may_be_continues_and_refuses_the_rest() -> None:
    calls = [("look", f'{{"at": {number}}}') for number in range(100)]
    story = Story().begin().answer(*calls)
    assert story.state.task is not None
    assert story.state.task.budget.max_calls_per_turn == 64
    for number in range(80):  # as a version without the limit did
        story.did("look", f"c{number}")
    refused = story.next()
    assert isinstance(refused, Record)
    assert sum(isinstance(body, ToolErred) for body in refused.bodies) == 20
    story.follow()
    story.answer(("look", "{}"))
    assert isinstance(story.next(), CallTool), "the next turn has its own share"


@pytest.mark.proves("AF-058")
def test_finishing_before_any_work_is_sent_back() -> None:
    story = Story().begin().answer(("finish_task", '{"summary": "done"}'))
    body = story.follow()
    assert isinstance(body, ToolErred)
    assert body.error_type == "NoWorkDone"
    assert isinstance(story.next(), CallModel)


@pytest.mark.proves("AF-059")
@pytest.mark.parametrize("arguments", ["{}", '{"summary": 7}', "nonsense", "[]"])
def test_a_finish_that_does_not_fit_the_schema_is_sent_back(arguments: str) -> None:
    story = Story().begin().answer(("look", "{}")).did().answer(("finish_task", arguments))
    assert isinstance(story.follow(), ToolErred)
    assert isinstance(story.next(), CallModel)


@pytest.mark.proves("AF-124")
def test_a_finish_without_proof_is_sent_back_once_and_then_marked() -> None:
    story = Story().begin().answer(("put", "{}")).did("put", changed=True)
    story.answer(("finish_task", '{"summary": "done"}'))
    sent_back = story.follow()
    assert isinstance(sent_back, ToolErred)
    assert sent_back.error_type == "Unproven"
    story.answer(("finish_task", '{"summary": "done", "unproven": ""}'))
    accepted = story.follow()
    assert isinstance(accepted, ToolReturned)
    assert "no test" in accepted.result["unproven"]


@pytest.mark.proves("AF-124")
def test_a_proof_after_the_last_change_is_enough_and_a_later_change_undoes_it() -> None:
    story = Story().begin().answer(("shell", "{}")).did("shell", changed=True)
    story.answer(("shell", '{"command": "pytest"}')).did("shell", proved="pytest")
    assert story.state.lanes[LANE].proof.command == "pytest"
    story.answer(("put", '{"n": 1}')).did("put", changed=True)
    assert story.state.lanes[LANE].proof == NO_PROOF
    story.answer(("finish_task", '{"summary": "done"}'))
    assert isinstance(story.follow(), ToolErred)


@pytest.mark.proves("AF-061")
def test_plain_text_after_work_ends_a_task_and_before_work_does_not() -> None:
    story = Story().begin().answer(text="I would do it like this.")
    for _ in range(2):
        nudge = story.follow()
        assert isinstance(nudge, GuidanceGiven)
        story.answer(text="I would do it like this.")
    given_up = story.follow()
    assert isinstance(given_up, PlainAnswerAccepted)
    assert "without using any tool" in given_up.payload["unproven"]

    story = Story().begin().answer(("look", "{}")).did().answer(text=" All good. ")
    assert story.follow() == PlainAnswerAccepted(payload={"summary": "All good."})


def test_a_chat_turn_ends_with_its_first_plain_answer_and_has_fewer_steps() -> None:
    story = Story(profile=Profile.CHAT).begin().answer(text="Hello.")
    assert story.follow() == PlainAnswerAccepted(payload={"summary": "Hello."})
    assert Budget.of(Profile.CHAT).max_steps == 15
    assert Budget.of(Profile.CHAT, max_steps=500).max_steps == MAX_CHAT_STEPS


@pytest.mark.proves("AF-053")
def test_a_task_stops_after_forty_steps() -> None:
    story = Story().begin()
    for number in range(40):
        assert isinstance(story.next(), CallModel)
        story.answer(("look", f'{{"n": {number}}}')).did()
    failed = story.follow()
    assert isinstance(failed, RunFailed)
    assert failed.code == "budget_exhausted"
    assert "--max-steps" in failed.hint


def test_the_token_and_time_budgets_stop_a_run() -> None:
    for budget in ({"max_tokens": 100}, {"max_seconds": 1.0}):
        story = Story(**budget).begin().answer(("look", "{}"), tokens=200).did()
        failed = story.follow()
        assert isinstance(failed, RunFailed)
        assert failed.code == "budget_exhausted"


def test_an_empty_answer_is_asked_again_twice_and_then_fails() -> None:
    story = Story().begin().answer(text=" ")
    for _ in range(2):
        assert isinstance(story.follow(), GuidanceGiven)
        story.answer(text="")
    failed = story.follow()
    assert isinstance(failed, RunFailed)
    assert failed.code == "model_answer_empty"


def test_the_same_call_again_is_answered_from_memory_then_finish_is_forced_then_it_fails() -> None:
    story = Story().begin().answer(("look", "{}")).did()
    for repeat in range(3):
        action = story.next()
        assert isinstance(action, CallModel)
        assert action.must_finish == (repeat >= 2)
        story.answer(("look", "{}"))
        answered = story.follow()
        assert isinstance(answered, ToolReturned)
        assert answered.repeated
    story.answer(("look", "{}"))
    failed = story.follow()
    assert isinstance(failed, RunFailed)
    assert failed.code == "model_repeats_itself"


SED = ("shell", '{"command": "sed -i s/mul/multiply/g calc.py"}')


@pytest.mark.proves("DB-5")
def test_a_call_that_has_changed_files_is_not_made_again_while_they_are_as_it_left_them() -> None:
    story = Story().begin().answer(SED).did("shell", changed=True).answer(("look", "{}")).did()
    story.answer(SED)
    answered = story.follow()
    assert isinstance(answered, ToolReturned)
    assert answered.repeated
    assert "no file has changed since" in str(answered.result["note"])
    story.answer(("write_file", "{}")).did("write_file", changed=True).answer(SED)
    assert isinstance(story.next(), CallTool), "the files are others now"


@pytest.mark.parametrize("code", [0, 1])
def test_a_call_that_failed_may_be_made_again_whatever_it_has_changed(code: int) -> None:
    story = Story().begin().answer(SED)
    returned = ToolReturned(tool="shell", result={"exit_code": code}, call_id=CallId("c0"), changed=True)
    story.tell(ToolCalled(tool="shell", args={}, call_id=CallId("c0")), returned)
    story.answer(("look", "{}")).did().answer(SED)
    assert isinstance(story.next(), CallTool) == bool(code)


def failure(code: str, retry_after_s: float | None = None) -> ModelFailed:
    return ModelFailed(
        error_type=code,
        error_message="m",
        hint="h",
        attempt=1,
        retryable=True,
        retry_after_s=retry_after_s,
        duration_s=0.1,
    )


@pytest.mark.parametrize(
    ("code", "delays"),
    [
        ("model_unreachable", [0.5, 1.0, 2.0]),
        ("model_busy", [1.0, 2.0, 4.0, 8.0]),
        ("model_timed_out", [0.0]),
        ("model_answer_unusable", [0.2, 0.5]),
        ("model_refused", []),
        ("config_invalid", []),
    ],
)
def test_each_kind_of_failure_is_retried_so_often_and_no_more(code: str, delays: list[float]) -> None:
    story = Story().begin()
    for attempt, delay in enumerate(delays, start=2):
        story.ask(attempt - 1).tell(failure(code))
        action = story.next()
        assert isinstance(action, CallModel)
        assert delay / 2 <= action.delay_s <= delay
        assert action == CallModel(LANE, attempt, action.delay_s, must_finish=False)
        assert action == decide(fold(RUN, story.log))[0], "decided again, it is decided alike"
    story.ask(len(delays) + 1).tell(failure(code))
    failed = story.follow()
    assert isinstance(failed, RunFailed)
    assert failed.code == code


def test_a_server_says_how_long_to_wait_unless_that_is_too_long() -> None:
    story = Story().begin().ask().tell(failure("model_busy", 7.0))
    action = story.next()
    assert isinstance(action, CallModel)
    assert 7.0 <= action.delay_s <= 7.0 * 1.2
    story.ask(2).tell(failure("model_busy", 3600.0))
    assert isinstance(story.follow(), RunFailed)


@pytest.mark.parametrize(("name", "again"), [("look", True), ("put", True), ("shell", False)])
def test_a_call_in_doubt_runs_again_only_if_that_does_no_harm(name: str, again: bool) -> None:
    story = Story().begin().answer((name, "{}")).tell(ToolCalled(tool=name, args={}, call_id=CallId("c0")))
    story.tell(RunResumed(by="person", driver="d"), lane=None)
    action = story.next()
    if again:
        assert action == CallTool(LANE, ToolCallRequest(CallId("c0"), name, "{}"), 2)
    else:
        told = story.follow()
        assert isinstance(told, ToolErred)
        assert "may have happened" in told.error_message
        story.answer((name, "{}"))
        assert isinstance(story.next(), CallTool)  # the model checked and repeats it: that is no exact repeat


def test_a_model_call_in_doubt_is_a_new_attempt() -> None:
    story = Story().begin().ask().tell(RunResumed(by="person", driver="d"), lane=None)
    assert story.next() == CallModel(LANE, 2, 0.0, must_finish=False)


def test_three_takeovers_without_progress_need_a_person() -> None:
    story = Story().begin().ask()
    for _ in range(3):
        story.tell(RunResumed(by="server", driver="d"), lane=None)
    assert isinstance(story.follow(), RunInterrupted)
    assert decide(story.state) == ()
    story.tell(RunResumed(by="person", driver="d"), lane=None)
    assert isinstance(story.next(), CallModel)


def test_takeovers_that_came_as_far_as_waiting_were_not_in_vain() -> None:
    story = Story().begin().ask()
    for _ in range(3):
        story.tell(RunResumed(by="server", driver="d"), RunWaited(reason="a person has to agree"), lane=None)
    story.tell(RunResumed(by="server", driver="d"), lane=None)
    assert isinstance(story.next(), CallModel)


def test_an_event_from_a_newer_program_stops_all_decisions() -> None:
    story = Story().begin().tell(UnknownEvent(kind="from_the_future", payload={}))
    assert decide(story.state) == ()
    assert story.state.unknown_kind == "from_the_future"


def test_a_conversation_near_the_window_is_compacted_between_turns_only() -> None:
    story = Story(window=1000).begin()
    for number in range(4):
        story.answer(("look", f'{{"n": {number}}}'), ("put", f'{{"n": {number}}}'), tokens=800).did("look", "c0")
        if number == 3:
            assert isinstance(story.next(), CallTool)  # never between a call and its result
        story.did("put", "c1")
    action = story.next()
    assert isinstance(action, Compact)
    messages = story.state.lanes[LANE].messages
    assert messages[action.last].role is Role.ASSISTANT
    assert messages[action.last - 1].role is Role.TOOL
    kept = messages[action.last :]
    story.ask().tell(
        ContextCompacted(
            first=action.first,
            last=action.last,
            summary="what was done",
            by_model=True,
            usage=Usage(1, 1),
            duration_s=0.1,
        )
    )
    after = story.state.lanes[LANE].messages
    assert [message.content for message in after[:3]] == ["system", "do it", "what was done"]
    assert after[3:] == kept
    assert isinstance(story.next(), CallModel)


def test_a_conversation_that_cannot_be_shortened_fails_with_the_reason() -> None:
    story = Story().begin().ask().tell(failure("context_exceeded"))
    failed = story.follow()
    assert isinstance(failed, RunFailed)
    assert failed.code == "context_exceeded"


@pytest.mark.proves("AF-134")
def test_folding_a_log_gives_the_state_that_grew_with_it() -> None:
    story = Story().begin().answer(("put", "{}")).did("put", changed=True).answer(("finish_task", "{}"))
    story.follow()
    assert fold(RUN, story.log) == story.state
