"""What a conversation asks for, and what of it is only background."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_fabric.domain.chat.conversation import MAX_BACKGROUND_CHARS, Asked, Turn, asked_in, transcript, turns_of
from agent_fabric.domain.definitions.parameter import Parameter
from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.interfaces.http.openai.models import inputs_in

TEXT = Parameter(type="string", required=True)
NUMBER = Parameter(type="integer", required=True)
OPTIONAL = Parameter(type="string")


def test_the_newest_thing_that_the_user_said_is_the_task() -> None:
    turns = [Turn("note", "Be brief."), Turn("user", "first"), Turn("assistant", "one"), Turn("user", " second ")]
    asked = asked_in(turns)
    assert asked == Asked("second", tuple(turns[:3]))


def test_a_single_message_is_given_as_it_is() -> None:
    asked = asked_in([Turn("user", "do it\n")])
    assert asked is not None
    assert asked.prompt == "do it"


@pytest.mark.parametrize("turns", [[], [Turn("user", " \n")], [Turn("assistant", "hi")], [Turn("note", "x")]])
def test_without_a_word_of_the_user_nothing_is_asked(turns: list[Turn]) -> None:
    assert asked_in(turns) is None


def test_an_answer_that_was_cut_off_is_background_of_the_question_before_it() -> None:
    asked = asked_in([Turn("user", "tell me"), Turn("assistant", "It was")])
    assert asked == Asked("tell me", (Turn("assistant", "It was"),))


LINES = st.text(max_size=60)
TURNS = st.lists(st.builds(Turn, st.sampled_from(["note", "user", "assistant", "tool"]), LINES), max_size=6)


@given(TURNS)
def test_no_line_of_a_quotation_can_pass_for_its_end(turns: list[Turn]) -> None:
    shown = transcript(turns)
    for line in shown.splitlines()[1:]:
        assert line.startswith("| ")
    heads = [line for line in shown.splitlines()[1:] if not line.startswith("|   ")]
    assert len(heads) == (len(turns) if shown else 0)


@given(TURNS, LINES)
def test_a_prompt_tells_the_conversation_that_it_was_made_of(turns: list[Turn], task: str) -> None:
    asked = asked_in([*turns, Turn("user", f"do {task}")])
    assert asked is not None
    said = [Turn(role, "\n".join(text.strip().splitlines())) for role, text in asked.background]
    assert turns_of(asked.prompt) == [*said, Turn("user", asked.text)]


def test_what_is_too_much_is_left_out_but_neither_notes_nor_what_is_newest() -> None:
    old = [Turn("user", f"{number} " + "x" * 5_000) for number in range(20)]
    shown = transcript([Turn("note", "Be brief."), *old])
    assert len(shown) < MAX_BACKGROUND_CHARS + 1_000
    assert "(older messages are left out)" in shown
    assert "|   Be brief." in shown
    assert "|   19 x" in shown
    assert "|   0 x" not in shown
    assert "… (shortened)" in transcript([Turn("user", "x" * 100_000)])


def test_an_object_gives_the_inputs_and_anything_else_is_the_one_text() -> None:
    assert inputs_in('{"a": 1}', {"a": NUMBER}, of="It") == {"a": 1}
    assert inputs_in("Ada", {"who": TEXT, "greeting": OPTIONAL}, of="It") == {"who": "Ada"}
    assert inputs_in("Ada", {"greeting": OPTIONAL}, of="It") == {"greeting": "Ada"}
    assert inputs_in("go", {}, of="It") == {}
    for no_object in ("[1]", "{broken", '{"a": NaN}', '{"a": "\\ud800"}', "{" * 1_000, "3", '{"a":' * 500):
        assert inputs_in(no_object, {"who": TEXT}, of="It") == {"who": no_object}


def test_a_text_that_fits_no_input_is_refused_with_the_names_of_all() -> None:
    with pytest.raises(InvalidInputs, match=r"It .* who \(string, required\), n \(integer, required\)") as refused:
        inputs_in("Ada", {"who": TEXT, "n": NUMBER}, of="It")
    assert refused.value.hint == 'Send them as a JSON object: {"who": …, "n": …}'
    with pytest.raises(InvalidInputs):
        inputs_in("3", {"n": NUMBER}, of="It")
    with pytest.raises(InvalidInputs, match="too deep"):
        inputs_in('{"a":' * 100 + "1" + "}" * 100, {"a": TEXT}, of="It")
