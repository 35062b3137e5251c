import json
from pathlib import Path

from agent_fabric.config.loader import read_config
from agent_fabric.config.show import ShownSetting, show_config, show_origins
from config_reference import render_reference

REFERENCE = Path(__file__).parents[3] / "docs/reference/configuration.md"

WITH_SECRETS = {
    "models": {"fast": {"api_key": "env:A_KEY", "headers": {"Authorization": "Bearer sk-91", "X-Team": "blue"}}},
    "specialists": {
        "engineering": {
            "mcp_servers": [
                {"name": "a", "command": ["x"], "env": {"API_TOKEN": "t-91", "LANG": "C"}},
                {"name": "b", "transport": "http", "url": "https://a/mcp?k=s-91", "headers": {"X-Api-Key": "k-91"}},
            ]
        }
    },
}


def test_the_shown_configuration_can_be_loaded_again() -> None:
    loaded = read_config({}, overrides={"models": {"fast": {"ca_file": "/etc/own.pem"}}})
    shown = json.loads(json.dumps(show_config(loaded.config)))
    assert read_config({}, overrides=shown).config == loaded.config


def test_what_looks_like_a_secret_is_hidden_and_nothing_else() -> None:
    shown = show_config(read_config({}, overrides=WITH_SECRETS).config)
    assert shown["models"]["fast"]["headers"] == {"Authorization": "***", "X-Team": "blue"}
    assert shown["models"]["fast"]["api_key"] == "env:A_KEY"
    first, second = shown["specialists"]["engineering"]["mcp_servers"]
    assert first["env"] == {"API_TOKEN": "***", "LANG": "C"}
    assert second["headers"] == {"X-Api-Key": "***"}
    assert second["url"] == "https://a/mcp?***"


def test_a_secret_is_hidden_beside_its_origin_too() -> None:
    rows = show_origins(read_config({}, overrides=WITH_SECRETS))
    assert ShownSetting("models.fast.headers.Authorization", "***", "flag") in rows
    assert not any(secret in str(rows) for secret in ("sk-91", "t-91", "s-91", "k-91"))


def test_every_setting_is_shown_with_its_origin() -> None:
    loaded = read_config({"FABRIC_BUDGET__MAX_STEPS": "7"})
    rows = show_origins(loaded)
    assert ShownSetting("budget.max_steps", 7, "env FABRIC_BUDGET__MAX_STEPS") in rows
    assert ShownSetting("models.fast.backend", "auto", "default") in rows
    assert [row.path for row in rows] == list(loaded.origins)


def test_an_entry_that_happens_to_be_called_headers_is_shown_like_any_other() -> None:
    settings = {"models": {"headers": {"base_url": "http://a", "model": "m", "headers": {"Cookie": "c"}}}}
    shown = show_config(read_config({}, overrides=settings).config)
    assert shown["models"]["headers"]["headers"] == {"Cookie": "***"}
    assert shown["models"]["headers"]["model"] == "m"


def test_the_reference_page_is_current() -> None:
    assert REFERENCE.read_text(encoding="utf-8") == render_reference(), (
        "run: python tests/config_reference.py > docs/reference/configuration.md"
    )


def test_the_reference_page_explains_every_setting() -> None:
    page = render_reference()
    assert "| None |" not in page
    assert "| `max_steps` | whole number (at least 1, at most 1000) | `40` | Model answers in one run. |" in page
