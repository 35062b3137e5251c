"""What fits into a window, and how a server that silently drops a part of the conversation is found out."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_fabric.domain.ids import CallId
from agent_fabric.domain.models.messages import Message, Role, ToolCallRequest, Usage
from agent_fabric.domain.runs.context_window import (
    SMALLEST_WINDOW,
    Truncation,
    estimated_tokens,
    least_tokens,
    output_limit,
    truncation_of,
    window_after,
)
from agent_fabric.testing.workbench import SETTINGS

PROSE = "The quick brown fox jumps over the lazy dog while nobody looks at it. "
"""15 tokens for about 70 characters, as most tokenizers see it."""


def conversation(*texts: str) -> list[Message]:
    return [Message(Role.SYSTEM, "You help."), *(Message(Role.USER, text) for text in texts)]


# ── truncation ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_server_that_read_fewer_tokens_than_there_are_words_dropped_something_whatever_is_known() -> None:
    messages = conversation(PROSE * 600)
    for window in (None, 4_096, 32_768):
        found = truncation_of(messages, Usage(4_000, 10), window)
        assert found is not None
        assert found.read_tokens == 4_000 < found.sent_tokens


def test_server_that_drops_whole_messages_and_reads_far_below_its_window_is_found_out() -> None:
    messages = conversation(*[PROSE * 60] * 10)
    assert truncation_of(messages, Usage(1_200, 10), 4_096) is not None


def test_window_filled_to_the_brim_by_what_cannot_fit_is_found_out() -> None:
    messages = conversation("x9Fq2Lm7 " * 2_200)
    assert estimated_tokens(messages) > 4_096
    assert truncation_of(messages, Usage(4_095, 1), 4_096) is not None


def test_server_that_read_everything_raises_no_alarm() -> None:
    messages = conversation(PROSE * 600)
    assert truncation_of(messages, Usage(15 * 600, 10), 32_768) is None
    assert truncation_of(messages, Usage(15 * 600, 10), None) is None


@pytest.mark.parametrize("text", ["-" * 40_000, " " * 40_000, "\n" * 40_000, ("=" * 79 + "\n") * 500])
def test_text_that_hardly_has_tokens_raises_no_alarm(text: str) -> None:
    assert truncation_of(conversation(text), Usage(700, 10), None) is None
    assert truncation_of(conversation(text), Usage(700, 10), 32_768) is None


def test_server_that_counts_nothing_raises_no_alarm() -> None:
    assert truncation_of(conversation(PROSE * 600), Usage(0, 0), None) is None


def test_server_that_does_not_count_what_it_still_knew_raises_no_alarm() -> None:
    assert truncation_of(conversation(PROSE * 600), Usage(50, 10, cached_tokens=9_000), None) is None


def test_short_conversations_raise_no_alarm() -> None:
    assert truncation_of(conversation(PROSE), Usage(1, 1), 256) is None


def test_arguments_of_calls_count_as_sent() -> None:
    call = ToolCallRequest(CallId("c"), "write_file", PROSE * 600)
    assert truncation_of([Message(Role.ASSISTANT, "", (call,))], Usage(500, 1), None) is not None


texts = st.lists(st.text(alphabet="ab cd\n-=é漢1", max_size=400).map(lambda text: text * 40), max_size=6)


@given(texts, st.integers(0, 60_000), st.one_of(st.none(), st.integers(256, 200_000)))
def test_alarm_is_raised_only_for_less_than_was_sent(sent: list[str], read: int, window: int | None) -> None:
    messages = conversation(*sent)
    found = truncation_of(messages, Usage(read, 1), window)
    if found is not None:
        assert 0 < found.read_tokens < max(found.sent_tokens, least_tokens(messages))
        assert window is None or window_after(found, window) >= min(SMALLEST_WINDOW, window)


@given(texts, st.one_of(st.none(), st.integers(256, 200_000)))
def test_server_that_read_at_least_what_we_count_is_always_believed(sent: list[str], window: int | None) -> None:
    messages = conversation(*sent)
    read = max(estimated_tokens(messages), least_tokens(messages))
    assert truncation_of(messages, Usage(read, 1), window) is None


@given(st.text(max_size=2_000))
def test_least_count_is_never_more_than_the_letters(text: str) -> None:
    assert least_tokens([Message(Role.USER, text)]) <= len(text)


# ── the window afterwards ─────────────────────────────────────────────────────────────────────────────────────────────


def test_window_that_was_overrun_is_kept() -> None:
    assert window_after(Truncation(9_000, 300), 4_096) == 4_096


def test_window_that_should_have_held_everything_was_smaller_than_thought() -> None:
    assert window_after(Truncation(9_000, 4_000), 32_768) == 4_000


def test_window_is_never_taken_for_less_than_any_server_gives() -> None:
    assert window_after(Truncation(9_000, 300), 32_768) == SMALLEST_WINDOW
    assert window_after(Truncation(900, 120), 1_024) == 1_024


# ── outputs of tools ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_output_of_a_tool_gets_a_fifth_of_the_window() -> None:
    assert output_limit(replace(SETTINGS, context_window=8_192), 16_000) == int(8_192 * 4 * 0.2)
    assert output_limit(replace(SETTINGS, context_window=None), 16_000) == 16_000
    assert output_limit(replace(SETTINGS, context_window=8_192, compact=True), 16_000) == 2_000


@given(st.integers(1, 100_000), st.one_of(st.none(), st.integers(256, 1_000_000)), st.booleans())
def test_output_of_a_tool_is_never_longer_than_configured(most: int, window: int | None, compact: bool) -> None:
    assert 1 <= output_limit(replace(SETTINGS, context_window=window, compact=compact), most) <= most
