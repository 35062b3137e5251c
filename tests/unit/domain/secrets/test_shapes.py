"""What looks like a secret is hidden; what only resembles one is not."""

import time

import pytest

from agent_fabric.domain.secrets.shapes import MAX_SCANNED, hide_shapes, placeholder_in, scannable_parts

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmU\n-----END OPENSSH PRIVATE KEY-----"
STRIPE = "sk_" + "live_" + "51Hq" * 8
GITHUB = "github_" + "pat_" + "11ABCDEFG0" * 2 + "ab_" + "Xy7Z" * 14 + "abc"
BODY = ("fXm3Q9sLpV7dKe2RzB8uYcT1wHnJ5oG6iA4vEx0bNkPqSrCtDyFgUhMjWlZa+I/O", "q7Lw2Zr9Tf4Xb8Kc1Vn6Mh3Gj5Pd0Sy+RsQeUi/A=")
"""Two lines of a key's body."""


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        (f"before\n{KEY}\nafter", "before\n[secret: private key]\nafter"),
        (KEY[:60], "[secret: private key]"),
        ("ghp_" + "a1B2" * 9, "[secret: token]"),
        ("key: sk-proj-" + "Ab3_" * 6 + ".", "key: [secret: token]."),
        ("AKIAIOSFODNN7EXAMPLE", "[secret: token]"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJlMTIz", "[secret: token]"),
        ("xoxb-1234567890-abcdef", "[secret: token]"),
        ("postgres://me:hunter2@db.corp/x", "postgres://[secret: password]@db.corp/x"),
        ("a33_0123456789ab_Zm9vYmFyYmF6", "[secret: token]"),
        (STRIPE, "[secret: token]"),
        (f"{STRIPE.replace('live', 'test')}, rk", "[secret: token], rk"),
        ("SG." + "aB3_" * 5 + "xy." + "Zy9-" * 10 + "abc", "[secret: token]"),
        (f"GITHUB_TOKEN={GITHUB}", "GITHUB_TOKEN=[secret: token]"),
        ("acme_api_" + "Ab3d" * 6, "[secret: token]"),
        ("dop_v1_" + "0a1b" * 16, "[secret: token]"),
        ("AGE-SECRET-KEY-1" + "QPZR" * 14 + "AA", "[secret: token]"),
    ],
)
def test_what_looks_like_a_secret_is_hidden_at_any_depth(text: str, hidden: str) -> None:
    assert hide_shapes(text) == hidden
    assert hide_shapes({"a": [text, 1], text: None}) == {"a": [hidden, 1], hidden: None}
    assert placeholder_in(hide_shapes(text))


@pytest.mark.parametrize(
    "text",
    [
        "risk-averse people like task-oriented-programming-and-more",
        "sk-learn-style-names-are-everywhere-here",
        "https://user@example.org/path",
        "https://$USER:$PASSWORD@example.org",
        "https://{user}:{password}@example.org",
        "redis://:****@cache",
        "http://[::1]:8080/a@b",
        "https://example.org:443/@me",
        "eyJhbGciOiJIUzI1NiJ9",
        "ghp_short",
        "-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----",
        "the AKIA prefix",
        "0123456789abcdef0123456789abcdef01234567",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08",
        "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
        '"integrity": "sha512-9z8Yq7Xw6Vv5Uu4Tt3Ss2Rr1Qq0Pp+Oo/Nn8Mm7Ll6Kk5Jj4Ii3Hh2Gg1Ff0Ee9Dd8Cc7Bb6Aa5Zz4Yy3Xx2==",',
        "flask==3.0.0 --hash=sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "h1:jwN3e0pR9b5n3m4VbqKcXyYt0uT2sQ1zZ8xW7vU6rI0=",
        f"-----BEGIN CERTIFICATE-----\n{BODY[0]}\n{BODY[1]}\n-----END CERTIFICATE-----",
        f"iVBORw0KGgoAAAANSUhEUgAAAAUA\n{BODY[0]}\n",
        f"data:image/png;base64,iVBORw0KGgo{BODY[0]}{BODY[0]}",
        f"ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ{BODY[0]} me@host",
        "def test_live_reload_works_when_files_change(): my_test_with_a_very_long_name_for_v1_api_calls()",
        "SG.io and sg.example.org.uk, MSG.SG.value.other",
        "https://api.example.org/some_v1_endpoint_name_that_is_long_enough_for_anybody",
        "\x1b[31mred\x1b[0m and zero\u200bwidth, \\u200b escaped",
    ],
)
def test_what_only_resembles_one_stays(text: str) -> None:
    value = {"text": text, "more": (text,)}
    assert hide_shapes(value) is value
    assert not placeholder_in(text)


@pytest.mark.parametrize(
    "between",
    [
        "\x1b[0m",
        "\x1b[01;31m\x1b[K",
        "\x1b]8;;http://x\x07",
        "\u200b",
        "\u2060\ufeff",
        "\u00ad",
        "\x00",
        "\\u200b",
        "\\u001b[0m",
    ],
)
@pytest.mark.parametrize("token", [STRIPE, GITHUB, "ghp_" + "a1B2" * 9, "postgres://me:hunter2@db.corp/x"])
def test_a_secret_in_pieces_is_one_all_the_same(token: str, between: str) -> None:
    for at in (3, 9, len(token) // 2):
        hidden = hide_shapes({"out": f"before {token[:at]}{between}{token[at:]} after"})["out"]
        assert placeholder_in(hidden)
        assert hidden.startswith("before ")
        assert hidden.endswith(" after")
        assert token[at:] not in hidden


def test_lines_of_a_private_key_are_hidden_without_its_first_one() -> None:
    alone = "[secret: private key]"
    for text in (BODY[0], f"  12\t{BODY[0]}\n", f"{BODY[0]}\n{BODY[1]}\n", f"3: {BODY[0]}\n4: {BODY[1]}"):
        assert hide_shapes(text) == alone, text
    end = "-----END RSA PRIVATE KEY-----"
    assert hide_shapes(f"$ tail key.pem\n{BODY[1]}\n{end}\n$ ") == f"$ tail key.pem\n{alone}\n$ "
    assert hide_shapes("found MIIEpAIBAAKCAQEA" + "x7Y" * 16) == f"found {alone}"
    assert hide_shapes("MC4CAQAwBQYDK2VwBCIEI" + "Nq3" * 14) == alone


def test_lines_of_a_private_key_are_hidden_where_each_is_a_text_of_its_own() -> None:
    lines = ["host: a", "-----BEGIN EC PRIVATE KEY-----", BODY[0], BODY[1], "-----END EC PRIVATE KEY-----", "AbCd1234"]
    hidden = ["host: a", *["[secret: private key]"] * 4, "AbCd1234"]
    assert hide_shapes(lines) == hidden
    found = [{"line": number, "text": text} for number, text in enumerate(lines)]
    assert [each["text"] for each in hide_shapes({"matches": found})["matches"]] == hidden


@pytest.mark.parametrize(
    "unit", ["sk-", "-eyJ", "ab_live_", "\\", "\x1b]", "MII", "-----END A PRIVATE KEY-----\n", " 1\n"]
)
def test_no_text_takes_long(unit: str) -> None:
    text = unit * (300_000 // len(unit)) + " PRIVATE KEY"
    started = time.process_time()
    hide_shapes(text)
    assert time.process_time() - started < 5


PROSE = "The build was run again, and what it said is in the log of that day.\n"


@pytest.mark.parametrize(
    "secret",
    [
        f"see {STRIPE} there",
        KEY,
        f"{KEY[:60]}\n" + "a line of it that is not base64 at all\n" * 2_000 + "-----END OPENSSH PRIVATE KEY-----",
        f"ghp_{'a1B2' * 4}\x1b[0m{'c3D4' * 5}",
        f"{BODY[0]}\n{BODY[0]}\n{BODY[1]}\n-----END OPENSSH PRIVATE KEY-----",
        "postgres://me:hunter2@db.corp/x",
    ],
    ids=["token", "key", "long-key", "in-pieces", "end-of-a-key", "password"],
)
@pytest.mark.parametrize("before", range(15_000, 17_000, 97))
def test_no_part_of_a_long_text_has_half_a_secret(secret: str, before: int) -> None:
    text = f"{(PROSE * 300)[:before]} and {secret} and then {PROSE * 400}"
    parts = list(scannable_parts(text))
    assert "".join(parts) == text
    assert "".join(map(hide_shapes, parts)).replace("\x1b[0m", "") == hide_shapes(text)


def test_parts_of_a_long_text_are_short() -> None:
    for sentence in (
        PROSE,
        "Die Größe der Prüfsumme wäre über alle Maßen schön. ",
        "Это было сделано снова. ",
        "日本語です。",
    ):
        parts = list(scannable_parts(sentence * (200_000 // len(sentence))))
        assert max(map(len, parts)) < MAX_SCANNED + 1_000


def test_a_text_without_sentences_is_one_part() -> None:
    assert list(map(len, scannable_parts("x" * 100_000))) == [100_000]
