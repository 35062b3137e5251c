"""What Ollama says about its models, in all the ways in which its versions say it."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_fabric.domain.errors import ModelAnswerUnusable
from agent_fabric.domain.models.found_models import ModelCard
from agent_fabric.domain.models.messages import ToolDialect
from agent_fabric.infrastructure.models.ollama.model_wire import (
    DEFAULT_WINDOW,
    ListedModel,
    PullFailed,
    PullStep,
    card_of,
    read_pull,
    read_running,
    read_show,
    read_tags,
    read_version,
)
from agent_fabric.infrastructure.models.ollama.server import PullNotices
from standins.ollama_wire import StandInModel


def card(model: StandInModel, *, shown: Mapping[str, Any] | None = None, loaded: int | None = None) -> ModelCard:
    (listed,) = read_tags(json.dumps({"models": [model.listed()]}).encode())
    return card_of(listed, model.shown() if shown is None else shown, loaded)


@pytest.mark.proves("AF-078", "AF-079")
def test_card_tells_size_window_digest_and_abilities() -> None:
    model = StandInModel(name="qwen2.5:7b", parameter_size="7.6B", context_length=32_768)
    found = card(model)
    assert found == ModelCard(
        name="qwen2.5:7b",
        digest=model.digest,
        parameters_b=7.6,
        chats=True,
        calls_tools=True,
        dialect=ToolDialect.NATIVE,
        context_window=32_768,
        served_window=DEFAULT_WINDOW,
        compact=False,
    )


def test_model_without_tools_is_asked_in_the_schema_dialect() -> None:
    found = card(StandInModel(name="gemma3:4b", capabilities=("completion", "vision")))
    assert (found.chats, found.calls_tools, found.dialect) == (True, False, ToolDialect.SCHEMA)


@pytest.mark.proves("AF-079")
def test_model_that_only_embeds_does_not_chat() -> None:
    found = card(StandInModel(name="nomic-embed-text:latest", family="nomic-bert", capabilities=("embedding",)))
    assert (found.chats, found.calls_tools) == (False, False)


@pytest.mark.proves("AF-079")
@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("nomic-embed-text:latest", "nomic-bert"),
        ("mxbai-embed-large:latest", "bert"),
        ("all-minilm:33m", "bert"),
        ("bge-m3:latest", "bert"),
        ("snowflake-arctic-embed:m", "bert"),
        ("embeddinggemma:300m", "gemma3"),
        ("qwen3-embedding:0.6b", "qwen3"),
        ("acme/bge-large", "unknown"),
    ],
)
def test_old_server_that_tells_no_capabilities_does_not_make_an_embedder_chat(name: str, family: str) -> None:
    found = card(StandInModel(name=name, family=family, capabilities=None))
    assert (found.chats, found.calls_tools) == (False, False)


def test_old_server_gives_itself_away_by_the_template() -> None:
    model = StandInModel(name="own:latest", capabilities=None)
    assert card(model).calls_tools
    without = {**model.shown(), "template": "{{ .Prompt }}"}
    assert not card(model, shown=without).calls_tools
    assert card(model, shown=without).chats


@pytest.mark.parametrize(
    ("name", "able"),
    [
        ("qwen2.5:7b", True),
        ("llama3.1:8b", True),
        ("llama3:8b", False),
        ("tinyllama:latest", False),
        ("me/qwen3:4b", True),
    ],
)
def test_server_that_shows_nothing_is_judged_by_the_name(name: str, able: bool) -> None:
    found = card(StandInModel(name=name), shown={})
    assert (found.chats, found.calls_tools) == (True, able)
    assert found.served_window == DEFAULT_WINDOW


def test_window_is_the_modelfiles_else_the_loaded_ones_else_the_default_and_never_more_than_made_for() -> None:
    plain = StandInModel(context_length=32_768)
    assert card(plain).served_window == 4_096
    assert card(plain, loaded=16_384).served_window == 16_384
    assert card(replace(plain, num_ctx=8_192), loaded=16_384).served_window == 8_192
    assert card(replace(plain, num_ctx=99_999)).served_window == 32_768
    assert card(replace(plain, context_length=2_048)).served_window == 2_048


def test_small_models_get_short_prompts_and_cloud_models_are_known_as_such() -> None:
    assert card(StandInModel(parameter_size="494.03M")).compact
    assert card(StandInModel(name="gpt-oss:20b-cloud", remote_host="https://ollama.com:443")).remote


def test_size_is_counted_when_it_is_not_named() -> None:
    model = StandInModel(parameter_size="")
    info = {"general.parameter_count": 1_543_714_304}
    assert card(model, shown={"model_info": info}).parameters_b == pytest.approx(1.5437, abs=1e-3)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("details", "model_info", "parameters", "template", "capabilities", "remote_host")


@given(st.dictionaries(st.sampled_from(FIELDS), json_values), st.text(max_size=20))
def test_whatever_a_server_shows_there_is_a_card(shown: dict[str, Any], name: str) -> None:
    found = card_of(ListedModel(name, "", {}, False), shown, None)
    assert found.name == name
    assert found.served_window is not None
    assert found.calls_tools <= found.chats


@given(json_values)
def test_whatever_a_server_lists_is_a_list_or_refused(value: object) -> None:
    for data in (json.dumps(value).encode(), json.dumps({"models": value}).encode()):
        for read in (read_tags, read_running, read_show):
            try:
                read(data)
            except ModelAnswerUnusable:
                continue


def test_empty_lists_of_old_and_new_servers_are_understood() -> None:
    assert read_tags(b'{"models": null}') == read_tags(b'{"models": []}') == []


def test_version_tells_ollama_from_others() -> None:
    assert read_version(b'{"version": "0.13.0"}') == "0.13.0"
    for other in (b"", b"hello", b"[]", b"{}", b'{"version": 3}'):
        assert read_version(other) is None


def test_progress_of_a_pull_is_read_and_its_failure_raised() -> None:
    assert read_pull(b'{"status":"pulling abc","total":200,"completed":50}') == PullStep("pulling abc", 200, 50)
    assert read_pull(b"  ") is None
    with pytest.raises(PullFailed, match="file does not exist"):
        read_pull(b'{"error": "pull model manifest: file does not exist"}')
    with pytest.raises(ModelAnswerUnusable):
        read_pull(b"<html>")


def test_notices_about_a_pull_are_few_and_tell_percent_and_megabytes() -> None:
    told: list[str] = []
    now = [0.0]
    notices = PullNotices("m", told.append, now=lambda: now[0])
    for percent in range(101):
        now[0] += 0.01
        notices.show(PullStep("pulling abc", 900_000_000, percent * 9_000_000))
    notices.show(PullStep("verifying sha256 digest", 0, 0))
    assert told[0] == "Pulling m: 0 %, 0 of 900 MB"
    assert told[-2:] == ["Pulling m: 100 %, 900 of 900 MB", "Pulling m: verifying sha256 digest"]
    assert 5 <= len(told) <= 9
