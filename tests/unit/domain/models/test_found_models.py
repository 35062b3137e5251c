"""Models as they are found: their sizes, their names, and which one is taken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_fabric.domain.models.addresses import is_loopback
from agent_fabric.domain.models.found_models import (
    ModelCard,
    find_model,
    parameters_from,
    parameters_in_name,
    same_model,
    select_model,
    smallest_chat_model,
    tool_callers,
)
from agent_fabric.domain.models.messages import ModelPrice, Usage

SMALL = ModelCard(name="qwen2.5:1.5b", parameters_b=1.5)
LARGE = ModelCard(name="llama3.1:latest", parameters_b=8.0)
TALKER = ModelCard(name="gemma3:270m", parameters_b=0.27, calls_tools=False)
EMBEDDER = ModelCard(name="nomic-embed-text:latest", parameters_b=0.137, chats=False, calls_tools=False)
CLOUD = ModelCard(name="gpt-oss:20b-cloud", parameters_b=0.1, remote=True)


@pytest.mark.proves("AF-079")
@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8.0B", 8.0),
        ("8B", 8.0),
        ("494.03M", 0.49403),
        ("137M", 0.137),
        (" 1.5b ", 1.5),
        ("1.1T", 1100.0),
        ("70", 70.0),
        ("22K", 0.000022),
    ],
)
def test_size_is_read_in_billions_of_parameters(text: str, size: float) -> None:
    assert parameters_from(text) == pytest.approx(size)


@pytest.mark.parametrize("text", ["", "B", "8.0.1B", "-8B", "8x7B", "many", "8 B B", "１B", "1" * 400 + "B"])
def test_what_is_no_size_is_none(text: str) -> None:
    assert parameters_from(text) is None


@given(st.text(max_size=30))
def test_no_text_whatever_breaks_the_reading_of_sizes(text: str) -> None:
    size = parameters_from(text)
    assert size is None or 0 <= size < 1e13


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("llama3.1", "llama3.1:latest", True),
        ("llama3.1:8b", "llama3.1:latest", False),
        ("library/llama3.1", "llama3.1", True),
        ("registry.ollama.ai/library/llama3.1:8b", "llama3.1:8b", True),
        ("hf.co/acme/Model-GGUF", "hf.co/acme/model-gguf:latest", True),
        ("localhost:5000/acme/tiny", "localhost:5000/acme/tiny:latest", True),
        ("acme/tiny", "tiny", False),
    ],
)
def test_names_mean_the_same_model_with_or_without_what_goes_without_saying(one: str, other: str, same: bool) -> None:
    assert same_model(one, other) is same
    assert same_model(other, one) is same


@pytest.mark.proves("AF-078", "AF-083")
def test_configured_model_is_taken_if_it_is_there() -> None:
    assert select_model([SMALL, LARGE], "llama3.1") == LARGE
    assert find_model([SMALL, LARGE], "mistral") is None


@pytest.mark.proves("AF-078", "AF-083")
@pytest.mark.parametrize("configured", [None, "not-here:7b"])
def test_otherwise_the_smallest_that_chats_and_calls_tools_is_taken(configured: str | None) -> None:
    assert select_model([LARGE, TALKER, EMBEDDER, SMALL], configured) == SMALL


@pytest.mark.proves("AF-079")
def test_embedding_models_are_never_chosen() -> None:
    assert select_model([EMBEDDER], None) is None
    assert select_model([], "llama3.1") is None


def test_model_that_runs_elsewhere_is_taken_only_by_name() -> None:
    assert select_model([CLOUD, LARGE], None) == LARGE
    assert select_model([CLOUD], None) is None
    assert select_model([CLOUD, LARGE], "gpt-oss:20b-cloud") == CLOUD


def test_model_of_unknown_size_comes_last_and_the_choice_is_always_the_same() -> None:
    unknown = ModelCard(name="a")
    assert tool_callers([unknown, LARGE, SMALL]) == tool_callers([SMALL, unknown, LARGE]) == [SMALL, LARGE, unknown]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST.", "127.0.0.1", "127.9.9.9", "::1", "[::1]"])
def test_loopback_is_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "10.0.0.1", "localhost.evil.test", "127.0.0.1.test", "::2"])
def test_everything_else_is_not(host: str) -> None:
    assert not is_loopback(host)


def test_tokens_that_a_server_still_knew_never_make_a_call_cheaper_than_nothing() -> None:
    price = ModelPrice(input=4, output=8, cached_input=1)
    assert price.of(Usage(1_000_000, 0, cached_tokens=500_000)) == 2.5
    assert price.of(Usage(1_000, 0, cached_tokens=1_000_000)) == 1.004, "the server did not count what it knew"


@pytest.mark.proves("AF-086", "AF-079")
@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("qwen2.5-7b-instruct", 7.0),
        ("Qwen2.5-Coder-1.5B-Instruct-GGUF", 1.5),
        ("mixtral-8x7b", 56.0),
        ("gemma-3-270m-it", 0.27),
        ("qwen3-30b-a3b", 30.0),
        ("gpt-4.1", None),
        ("v2.5base", None),
    ],
)
def test_sizes_are_read_from_names(name: str, size: float | None) -> None:
    assert parameters_in_name(name) == (None if size is None else pytest.approx(size))


@pytest.mark.proves("AF-086")
def test_the_smallest_chat_model_is_the_first_where_no_size_is_known() -> None:
    unknown = [ModelCard(name="second"), ModelCard(name="first")]
    assert smallest_chat_model(unknown) == unknown[0]
    assert smallest_chat_model([*unknown, LARGE]) == LARGE
    assert smallest_chat_model([EMBEDDER]) is None
