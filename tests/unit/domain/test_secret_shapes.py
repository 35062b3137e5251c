"""What looks like a secret is hidden; what only resembles one is not."""

import pytest

from agent_fabric.domain.secret_shapes import hide_shapes, placeholder_in

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmU\n-----END OPENSSH PRIVATE KEY-----"


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
    ],
)
def test_what_only_resembles_one_stays(text: str) -> None:
    value = {"text": text, "more": (text,)}
    assert hide_shapes(value) is value
    assert not placeholder_in(text)
