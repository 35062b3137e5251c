"""What a model thinks is told from what it says, however its answer is cut into pieces."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_fabric.domain.models.thoughts import Said, ThoughtSplitter, split_thoughts

pytestmark = pytest.mark.proves("CP-13")


def in_pieces(pieces: list[str]) -> Said:
    splitter = ThoughtSplitter()
    said = "".join([splitter.feed(piece) for piece in pieces]) + splitter.end()
    return Said(splitter.thoughts, said)


@pytest.mark.parametrize(
    ("text", "thoughts", "said"),
    [
        ("Hello.", "", "Hello."),
        ("  \n Hello.", "", "  \n Hello."),
        ("", "", ""),
        ("<b>Hello</b>", "", "<b>Hello</b>"),
        ("<think>So.</think>\n\nHello.", "So.", "Hello."),
        ("\n<think>\nSo.\n</think>Hello.", "So.", "Hello."),
        ("<thinking>So.</thinking>Hello.", "So.", "Hello."),
        ("<think>One.</think>\n<think>Two.</think>\nHello.", "One.\nTwo.", "Hello."),
        ("<think></think>Hello.", "", "Hello."),
        ("<think>It never ends", "It never ends", ""),
        ("<think>a < b </thin", "a < b </thin", ""),
        ("<thi", "", "<thi"),
        ("A page uses <think>tags</think>.", "", "A page uses <think>tags</think>."),
        ("So, it is 4.\n</think>\n\nHello.", "So, it is 4.", "Hello."),
        ("The end is </think> in text.", "", "The end is </think> in text."),
    ],
)
def test_thoughts_stand_at_the_beginning_and_are_no_part_of_the_answer(text: str, thoughts: str, said: str) -> None:
    assert split_thoughts(text) == (thoughts, said)


@given(st.lists(st.sampled_from(["<", "think", ">", "</", "ing", "a", "\n", " ", "<think>", "</think>"])))
def test_pieces_and_the_whole_are_told_apart_alike(pieces: list[str]) -> None:
    assert in_pieces(pieces) == in_pieces(["".join(pieces)])


def test_an_answer_of_nothing_but_blanks_takes_no_time() -> None:
    began = time.process_time()
    assert in_pieces([" "] * 100_000) == ("", " " * 100_000)
    assert time.process_time() - began < 2
