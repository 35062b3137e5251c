"""What a probe found out is there for the next process, and nothing that is wrong with the file does harm."""

import json
from pathlib import Path

import pytest

from agent_fabric.domain.models.found_models import ModelCard
from agent_fabric.domain.models.messages import ToolDialect
from agent_fabric.infrastructure.models.cards import CardFile, cards_file

URL = "http://127.0.0.1:8000/v1"
FOUND = ModelCard(
    name="m",
    dialect=ToolDialect.SCHEMA,
    calls_tools=False,
    served_window=8192,
    prompt_tokens_per_s=48.0,
    tokens_per_s=8.5,
)


def test_a_card_is_found_again_by_name_and_server(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "cards.json"
    CardFile(file).remember(FOUND, URL)
    cards = CardFile(file)
    assert cards.improve(ModelCard(name="m"), URL) == FOUND
    assert cards.improve(ModelCard(name="m"), "http://127.0.0.1:9000/v1") == ModelCard(name="m")
    assert cards.improve(ModelCard(name="other"), URL) == ModelCard(name="other")


@pytest.mark.proves("C01")
def test_the_same_weights_are_known_under_any_name(tmp_path: Path) -> None:
    cards = CardFile(tmp_path / "cards.json")
    cards.remember(ModelCard(name="one", digest="d1", dialect=ToolDialect.TEXT), URL)
    assert cards.improve(ModelCard(name="two", digest="d1"), "http://x/v1").dialect is ToolDialect.TEXT
    assert cards.improve(ModelCard(name="one", digest="d2"), URL).dialect is ToolDialect.NATIVE


def test_what_another_process_found_out_is_seen_at_once(tmp_path: Path) -> None:
    file = tmp_path / "cards.json"
    here, elsewhere = CardFile(file), CardFile(file)
    assert here.improve(ModelCard(name="m"), URL) == ModelCard(name="m")
    elsewhere.remember(FOUND, URL)
    assert here.improve(ModelCard(name="m"), URL) == FOUND
    here.remember(ModelCard(name="n"), URL)
    assert set(json.loads(file.read_bytes())) == {f"{URL} m", f"{URL} n"}
    file.unlink()
    assert here.improve(ModelCard(name="m"), URL) == ModelCard(name="m")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '"x"',
        f'{{"{URL} m": 1}}',
        f'{{"{URL} m": {{"dialect": "sung", "calls_tools": true}}}}',
        f'{{"{URL} m": {{}}}}',
    ],
)
def test_a_file_that_makes_no_sense_tells_nothing_and_is_written_anew(text: str, tmp_path: Path) -> None:
    file = tmp_path / "cards.json"
    file.write_text(text)
    cards = CardFile(file)
    assert cards.improve(ModelCard(name="m"), URL) == ModelCard(name="m")
    cards.remember(FOUND, URL)
    assert CardFile(file).improve(ModelCard(name="m"), URL) == FOUND


def test_numbers_that_make_no_sense_are_not_known(tmp_path: Path) -> None:
    file = tmp_path / "cards.json"
    known = {
        "dialect": "schema",
        "calls_tools": True,
        "served_window": "many",
        "tokens_per_s": -1,
        "context_window": True,
    }
    file.write_text(json.dumps({f"{URL} m": known}))
    assert CardFile(file).improve(ModelCard(name="m"), URL) == ModelCard(name="m", dialect=ToolDialect.SCHEMA)


def test_what_the_server_says_today_counts_more_than_an_old_card(tmp_path: Path) -> None:
    cards = CardFile(tmp_path / "cards.json")
    cards.remember(FOUND, URL)
    assert cards.improve(ModelCard(name="m", served_window=4096), URL).served_window == 4096


def test_cards_lie_in_the_users_cache() -> None:
    assert cards_file({"XDG_CACHE_HOME": "/c"}) == Path("/c/agent-fabric/model-cards.json")
