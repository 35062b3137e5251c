"""Text that is shown while it is written holds no more secrets than the log."""

import pytest

from agent_fabric.domain.models.live_text import LiveText
from agent_fabric.domain.secrets.references import KnownSecrets
from agent_fabric.domain.secrets.shapes import hide_shapes

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


class Counted(KnownSecrets):
    """Counts the characters that are looked at."""

    looked_at = 0

    def hide(self, value: str) -> str:  # type: ignore[override]  # texts only, as here
        self.looked_at += len(value)
        return super().hide(value)


@pytest.mark.parametrize("known", [["hunter2hunter2"], ["correct horse battery"]], ids=["a-word", "with-gaps"])
@pytest.mark.parametrize("text", ["x" * 60_000, f"{KEY[:70]}\n" + "a line of it\n" * 5_000, "words and more " * 4_000])
def test_a_long_text_is_looked_at_a_few_times_however_many_pieces_it_has(known: list[str], text: str) -> None:
    secrets = Counted(known)
    pieces = shown(text, 5, secrets)
    assert "".join(pieces) == hide_shapes(text)
    assert secrets.looked_at < 16 * len(text)
