"""Text that is shown while it is written holds no more secrets than the log."""

import pytest

from agent_fabric.domain.live_text import LiveText
from agent_fabric.domain.secret_shapes import hide_shapes
from agent_fabric.domain.secrets import KnownSecrets

TOKEN = "ghp_" + "a1B2" * 9
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nq7Lw2Zr9Tf4Xb8Kc\n-----END RSA PRIVATE KEY-----"


def shown(text: str, size: int, known: KnownSecrets | None = None) -> list[str]:
    live = LiveText(known)
    return [*(live.add(text[at : at + size]) for at in range(0, len(text), size)), live.end()]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1_000])
@pytest.mark.parametrize(
    "text",
    [
        f"The token is {TOKEN}, and more.",
        f"One\n{KEY}\ntwo {TOKEN}",
        f"{KEY[:70]}",
        "see postgres://me:hunter2@db.corp/x now",
        f"tok\u200ben {TOKEN[:9]}\u200b{TOKEN[9:]}",
        "-----BEGIN CERTIFICATE-----\nMIIabc\n-----END CERTIFICATE-----\nafter",
        "",
    ],
)
def test_pieces_add_up_to_what_is_recorded(text: str, size: int) -> None:
    pieces = "".join(shown(text, size))
    assert pieces.replace("\u200b", "") == hide_shapes(text).replace("\u200b", "")


@pytest.mark.parametrize("size", [1, 4, 9, 1_000])
def test_configured_secrets_are_held_back_too_with_spaces_or_without(size: int) -> None:
    known = KnownSecrets(["correct horse battery", "hunter2hunter2"])
    text = "it is correct horse battery or correct horse or hunter2hunter2 and so on and on and on and on"
    assert "".join(shown(text, size, known)) == known.hide(text)


def test_words_are_shown_as_soon_as_they_are_complete() -> None:
    live = LiveText()
    assert [live.add("Hel"), live.add("lo "), live.add("you, the"), live.end()] == ["", "Hello ", "you, ", "the"]
