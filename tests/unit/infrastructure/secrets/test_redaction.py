"""What never leaves through the log."""

import time
from pathlib import PurePath
from urllib.parse import quote, quote_plus

import pytest

from agent_fabric.config.defaults import default_settings
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.secret_references import secrets_named_in
from agent_fabric.domain.secrets.references import REDACTED
from agent_fabric.infrastructure.secrets.redaction import (
    MAX_CHARS,
    Redactor,
    names_secret,
)

pytestmark = pytest.mark.proves("AF-149")

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7\nq83vEjRW\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Authorization: Bearer abc.def", "Authorization: [redacted]"),
        ("authorization=Digest username=u, response=0f", "authorization=[redacted]"),
        ("curl -H 'Authorization: Bearer abc' http://h/x", "curl -H 'Authorization: [redacted]' http://h/x"),
        ("{'Authorization': 'Bearer abc', 'Host': 'h'}", "{'Authorization': [redacted], 'Host': 'h'}"),
        ("[(b'authorization', b'Bearer abc'), (b'a', b'b')]", "[(b'authorization', b[redacted]), (b'a', b'b')]"),
        ("sent Bearer abc.def-ghi to h", "sent Bearer [redacted] to h"),
        ("sent Basic dXNlcjpwYXNz to h", "sent Basic [redacted] to h"),
        ("Cookie: a=b; c=d", "Cookie: [redacted]"),
        ("key sk-proj-abc_DEF123456, then", "key [redacted], then"),
        ("clone with ghp_abcdefghij0123456789", "clone with [redacted]"),
        ("xoxb-1234-5678-abcdef", "[redacted]"),
        ("AKIAIOSFODNN7EXAMPLE", "[redacted]"),
        ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "jwt [redacted]"),
        ("postgres://me:p@ss@host/db", "postgres://[redacted]@host/db"),
        ("https://token@github.com/a/b", "https://[redacted]@github.com/a/b"),
        ("GET /x?token=abc&limit=2", "GET /x?token=[redacted]&limit=2"),
        ("GET /x?key=abc#top", "GET /x?key=[redacted]#top"),
        ("db_password = hunter2", "db_password = [redacted]"),
        ('{"password": "hun\\"ter2", "a": 1}', '{"password": [redacted], "a": 1}'),
        ('{\\"api_key\\": \\"abc\\"}', '{\\"api_key\\": [redacted]'),
        ("Settings(api_key='b123', n=1)", "Settings(api_key=[redacted], n=1)"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7", "AWS_SECRET_ACCESS_KEY=[redacted]"),
        (f"key:\n{PEM}\nend", "key:\n[redacted]\nend"),
        (PEM[:60], "[redacted]"),
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str, clean: str) -> None:
    assert Redactor().text(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        "prompt_tokens=120 max_tokens: 2048",
        "a basic understanding of tokens",
        "task-manager-2026 runs at http://127.0.0.1:8787/runs/1?limit=3",
        "POST /v1/chat/completions answered 404",
        "me@example.com",
        "00000000-0000-4000-8000-000000000001",
        "2026-11-15T05:00:00.000Z",
    ],
)
def test_what_operators_need_is_left_alone(text: str) -> None:
    assert Redactor().text(text) == text


@pytest.mark.parametrize(
    "shape",
    [
        "{}",
        "before {} after",
        "{}{}",
        "https://h/x?q={}",
        "error: '{}'",
    ],
)
@pytest.mark.parametrize("secret", ["hunter2", 'qu"ote\nand line', "ümläut + plus/slash", "  spaced  ", PEM])
def test_a_known_value_is_hidden_in_every_spelling(shape: str, secret: str) -> None:
    redactor = Redactor([secret])
    core = secret.strip()
    for spelling in (secret, core, quote(core, safe=""), quote_plus(core), repr(core)[1:-1]):
        clean = redactor.text(shape.replace("{}", spelling))
        assert REDACTED in clean
        assert spelling.strip() not in clean


def test_secrets_that_overlap_leave_nothing_of_each_other() -> None:
    redactor = Redactor(["abcdef", "defghi", "abc-suffix", "cret-and"])
    assert redactor.text("xabcdefghix abc-suffix sk-secret-and-more") == f"x{REDACTED}x {REDACTED} {REDACTED}"


def test_a_value_too_short_to_be_a_secret_hides_nothing() -> None:
    assert Redactor(["", " ", "no", "abc"]).text("no abc here") == "no abc here"


def test_values_are_cleaned_at_any_depth() -> None:
    clean = Redactor(["hunter2", "31337"]).value(
        {
            "password": "anything",
            "nested": {"api_key": {"a": 1}, "list": [1, ("hunter2", {"x": b"hunter2"})]},
            "headers": [(b"x-api-key", b"abc"), (b"host", b"h")],
            "hunter2": "as a key",
            "number": 31337,
            "token": None,
            "prompt_tokens": 12,
            "path": PurePath("/tmp/hunter2"),
            "problem": ValueError("it was hunter2"),
        }
    )
    assert clean == {
        "password": REDACTED,
        "nested": {"api_key": REDACTED, "list": [1, [REDACTED, {"x": REDACTED}]]},
        "headers": [["x-api-key", REDACTED], ["host", "h"]],
        REDACTED: "as a key",
        "number": REDACTED,
        "token": None,
        "prompt_tokens": 12,
        "path": f"PurePosixPath('/tmp/{REDACTED}')",
        "problem": f"it was {REDACTED}",
    }


def test_what_cannot_be_shown_or_has_no_end_is_still_plain_data() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    endless: list[object] = []
    endless.append(endless)
    clean = Redactor().value({"broken": Broken(), "endless": endless, "wide": list(range(500)), "nan": float("nan")})
    assert clean["broken"] == "<Broken that cannot be shown: RuntimeError>"
    assert "…" in str(clean["endless"])
    assert clean["wide"][-1] == "… 400 more"
    assert clean["nan"] == "nan"


def test_a_very_long_text_is_cut_without_halving_a_secret() -> None:
    secret = "hunter2" * 40
    redactor = Redactor([secret])
    for before in (MAX_CHARS - 100, 16_000 - 100):
        clean = redactor.text("x" * before + secret + "y" * 100_000)
        assert len(clean) <= MAX_CHARS + 1
        assert "hunter2" not in clean
    hidden_first = redactor.text(f"{PEM[:60]}{'k' * 15_000}-----END RSA PRIVATE KEY-----{'z' * 500}{secret}")
    assert "hunter2" not in hidden_first


@pytest.mark.parametrize(
    "piece",
    [
        "token ",
        "token\\",
        "://",
        "://a",
        "eyJ",
        "sk-",
        PEM[:31],
        "\\",
        "basic ",
        "authorization ",
        'password="\\',
        "a@",
    ],
)
def test_no_text_takes_long(piece: str) -> None:
    redactor, text = Redactor(["hunter2"]), piece * 100_000
    started = time.process_time()
    redactor.text(text)
    assert time.process_time() - started < 2


@pytest.mark.parametrize("name", ["password", "DB_PASSWORD", "X-Api-Key", "accessToken", "client_secret", "Set-Cookie"])
def test_some_names_tell_that_their_value_is_a_secret(name: str) -> None:
    assert names_secret(name)


@pytest.mark.parametrize("name", ["prompt_tokens", "model_key", "run_id", "secrets_found", "key"])
def test_other_names_do_not(name: str) -> None:
    assert not names_secret(name)


def test_secrets_are_found_wherever_the_configuration_names_them() -> None:
    settings = default_settings()
    settings["models"]["cloud"] = {
        "base_url": "https://api.example.com/v1",
        "model": "big",
        "api_key": "env:CLOUD_KEY",
        "headers": {"X-Team": "blue", "X-Auth": "env:TEAM_KEY"},
    }
    settings["specialists"]["engineering"]["mcp_servers"] = [
        {"name": "docs", "command": ["docs"], "env": {"DOCS_TOKEN": "env:DOCS"}}
    ]
    config = FabricConfig.model_validate(settings)
    environ = {"CLOUD_KEY": "one", "TEAM_KEY": "two", "DOCS": "three", "OTHER": "four", "EMPTY": ""}
    assert secrets_named_in(config.model_dump(), environ) == {"one", "two", "three"}
    assert secrets_named_in(config.model_dump(), {}) == set()
