"""Turns of a session: what they know of those before, how they end, and what becomes of their messages."""

from dataclasses import replace

import pytest
from pydantic import ValidationError

from agent_fabric.config.schema.chat import ChatConfig
from agent_fabric.domain.chat.sessions import message_from, title_from
from agent_fabric.domain.chat.turn_context import MAX_CHARS, history_after
from agent_fabric.domain.events import ContextCompacted, RunCancelled, RunCompleted, RunCreated, RunFailed, ToolReturned
from agent_fabric.domain.ids import CallId
from agent_fabric.domain.models.events import PlainAnswerAccepted
from agent_fabric.domain.models.messages import Message, Role, ToolCallRequest, Usage
from agent_fabric.domain.policy.outside_plan import Outside
from agent_fabric.domain.runs.actions import CallModel, Compact, Record
from agent_fabric.domain.runs.effects import Effects, NotedCall, Outcome
from agent_fabric.domain.runs.evolve import evolve
from agent_fabric.domain.runs.irreversible import sent_away
from agent_fabric.domain.runs.state import RunState
from agent_fabric.domain.runs.task import Profile, RunStatus
from agent_fabric.domain.runs.timeline import timeline_of
from unit.domain.runs.test_decide import LANE, RUN, TOOLS, WHO, Story

BEFORE = (
    Message(Role.USER, "what is here?"),
    Message(Role.ASSISTANT, "", (ToolCallRequest(CallId("c0"), "look", "{}"),)),
    Message(Role.TOOL, '{"ok": 1}', call_id=CallId("c0")),
    Message(Role.ASSISTANT, "one file"),
    Message(Role.USER, "and now?"),
    Message(Role.ASSISTANT, "the same"),
)


class Turn(Story):
    """A turn that goes on from others."""

    def __init__(self, history: tuple[Message, ...] = (), *, window: int | None = None, **budget: float) -> None:
        super().__init__(profile=Profile.CHAT, window=window, **budget)
        created = self.log[0].body
        assert isinstance(created, RunCreated)
        self.log, self.state = [], RunState(RUN)
        self.tell(replace(created, session="s", history=history), lane=None)


def told(turn: Story) -> list[tuple[str, str]]:
    return [(message.role.value, message.content) for message in turn.state.lanes[LANE].messages]


def end(turn: Story, *, said: str = "done") -> Story:
    turn.tell(PlainAnswerAccepted(payload={"summary": said}))
    done = RunCompleted(run_id=RUN, specialist_ids=(WHO,), task_force_mode="sequential", payload={"summary": said})
    return turn.tell(done, lane=None)


@pytest.mark.proves("CO-10", "C02", "C03", "FC-021", "FC-023", "FC-025")
def test_a_turn_knows_what_was_said_before_and_ends_by_a_plain_answer() -> None:
    turn = Turn(BEFORE).begin()
    assert told(turn) == [
        ("system", "system"),
        *((each.role.value, each.content) for each in BEFORE),
        ("user", "do it"),
    ]
    lane = turn.state.lanes[LANE]
    assert [tool.name for tool in lane.offered] == [tool.name for tool in TOOLS], "there is no finish_task"
    turn.answer(("look", "{}")).did().answer(text="Here it is.")
    assert turn.follow().kind == "plain_answer_accepted"
    end(turn, said="Here it is.")
    after = history_after(turn.state)
    assert [message.role.value for message in after] == [
        "user", "assistant", "tool", "assistant", "user", "assistant", "user", "assistant", "tool", "assistant",
    ]  # fmt: skip
    assert after[:6] == BEFORE
    assert after[-1].content == "Here it is."


def test_a_stopped_and_a_failed_turn_leave_a_sound_history() -> None:
    stopped = Turn().begin().answer(("look", "{}")).tell(RunCancelled(by="ada", reason="", said="I was go"), lane=None)
    assert [(each.role.value, each.content, each.tool_calls) for each in history_after(stopped.state)] == [
        ("user", "do it", ()),
        ("assistant", "I was go\n(The person stopped this answer.)", ()),
    ], "a call without a result is left out"
    failed = Turn().begin().answer(("look", "{}")).did()
    failed.tell(RunFailed(code="model_busy", message="too busy", hint=""), lane=None)
    assert [each.role.value for each in history_after(failed.state)] == ["user", "assistant", "tool", "assistant"]
    assert "too busy" in history_after(failed.state)[-1].content


def test_a_long_history_loses_its_oldest_exchanges_as_a_whole() -> None:
    long = tuple(
        message
        for number in range(60)
        for message in (Message(Role.USER, f"question {number}"), Message(Role.ASSISTANT, "x" * 5_000))
    )
    turn = Turn(long).begin().answer(text="short")
    kept = history_after(end(turn, said="short").state)
    assert sum(len(each.content) for each in kept) <= MAX_CHARS + 100
    assert "left out" in kept[0].content
    assert kept[1].content.startswith("question")


@pytest.mark.proves("CO-10")
def test_history_that_nears_the_window_is_summarised_before_the_model_is_asked() -> None:
    wordy = tuple(
        replace(each, content=each.content + " word" * 400) if not each.tool_calls else each for each in BEFORE
    )
    turn = Turn(wordy, window=2_500).begin()
    assert turn.next() == Compact(LANE, 1, 5), "all but the newest exchange"
    summary = ContextCompacted(first=1, last=5, summary="[…] talked", by_model=True, usage=Usage(1, 1), duration_s=0.1)
    turn.tell(summary)
    assert turn.state.lanes[LANE].history == 3
    assert told(turn)[1] == ("user", "[…] talked")
    assert told(turn)[-1] == ("user", "do it")
    assert isinstance(turn.next(), CallModel)
    turn.answer(text="fine")
    assert [each.role.value for each in history_after(end(turn, said="fine").state)] == [
        "user", "user", "assistant", "user", "assistant",
    ]  # fmt: skip


def test_a_finish_that_nobody_offered_counts_as_the_answer() -> None:
    turn = Turn().begin().answer(("finish_task", '{"summary": "all good"}'))
    action = turn.next()
    assert isinstance(action, Record)
    returned = action.bodies[-1]
    assert isinstance(returned, ToolReturned)
    assert returned.result == {"summary": "all good"}


def test_a_turn_becomes_messages_and_other_runs_do_not() -> None:
    turn = end(Turn().begin().answer(text="hi"), said="hi")
    created = turn.log[0].body
    assert isinstance(created, RunCreated)
    made = [message for event in turn.log if (message := message_from(RUN, created, event)) is not None]
    assert [(each.message_id, each.role, each.content) for each in made] == [
        ("run-1", "user", "do it"),
        ("run-2", "assistant", "hi"),
    ]
    assert message_from(RUN, replace(created, session=""), turn.log[0]) is None


def test_a_message_has_what_contradicts_it_above_its_words_and_its_sentences_in_their_new_places() -> None:
    turn = end(Turn().begin().answer(text="hi"), said="I have pushed 12 commits.")
    created, last = turn.log[0].body, turn.log[-1]
    assert isinstance(created, RunCreated)
    assert isinstance(last.body, RunCompleted)
    said = "I have pushed 12 commits."
    sentence = {"start": 0, "end": len(said), "events": [], "missing": ["12"]}
    denied = NotedCall(what="git push `rm` **x**", by="ada", why="not today")
    body = replace(
        last.body,
        payload={"summary": said, "sentences": [sentence]},
        effects=Effects(denied=(denied,)),
        outcome=Outcome.REFUSED,
    )
    message = message_from(RUN, created, last._replace(body=body))
    assert message is not None
    assert message.content.startswith("Not done:\n\n- `denied by ada: git push 'rm' **x** (not today)`")
    (moved,) = message.metadata["sentences"]
    assert message.content[moved["start"] : moved["end"]] == said
    assert message.metadata["outcome"] == "refused"
    assert message.metadata["effects"]["denied"][0]["by"] == "ada"


def test_titles_have_sixty_characters_at_most() -> None:
    assert title_from("  Why\nis  the disk full? ") == "Why is the disk full?"
    assert len(title_from("word " * 40)) <= 60
    assert title_from("word " * 40).endswith("…")


@pytest.mark.proves("FC-021", "C02")
def test_a_turn_has_fifty_answers_at_most() -> None:
    assert ChatConfig().max_turns == 15
    with pytest.raises(ValidationError):
        ChatConfig(max_turns=51)


@pytest.mark.proves("CO-25")
def test_a_timeline_has_calls_with_their_tokens_and_what_is_under_way() -> None:
    turn = Turn().begin().answer(("look", "{}"), tokens=7).did().ask()
    timeline = timeline_of(turn.log, RunStatus.RUNNING)
    assert [(span.kind, span.label, span.last_seq is not None) for span in timeline.spans] == [
        ("model", "m", True),
        ("tool", "look", True),
        ("model", "m", False),
    ]
    assert (timeline.prompt_tokens, timeline.completion_tokens) == (7, 5)
    assert timeline.lanes == (LANE,)


@pytest.mark.proves("CO-24")
def test_what_left_the_box_cannot_be_taken_back() -> None:
    turn = Turn().begin().answer(("shell", "{}"), ("look", "{}"))
    push = Outside(words=("/usr/bin/git", "push"), account="me@laptop")
    called = [replace(event.body) for event in Turn().begin().did("shell").log[-2:]]
    turn.tell(replace(called[0], outside=push), called[1])  # type: ignore[arg-type] # a call and its result
    turn.did("look", "c1")
    (sent,) = sent_away(RUN, turn.log)
    assert (sent.tool, sent.what, sent.certain) == ("shell", "/usr/bin/git push", True)


def test_folding_an_old_log_needs_no_session() -> None:
    state = RunState(RUN)
    for event in Story().begin().log:
        evolve(state, event)
    assert not state.talks
    assert state.lanes[LANE].history == 0
