"""People who reload and switch all the time see what was written, and nothing else."""

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from e2e.page.page_model import Written
from e2e.page.page_world import PageWorld, page_world
from e2e.page.test_page import SESSION, TRANSCRIPT, ask, watched
from effort import effort, report

pytestmark = pytest.mark.slow

LETTERS = ("a", "b", "c")
LOOKS = 4
"""Looks at what is shown after each reload."""


def text_of(letter: str, count: int) -> str:
    return " ".join(f"{letter}{number}" for number in range(1, count + 1))


def answers(question: str, _: int, __: list[dict[str, Any]]) -> Written:
    """Write words that begin with the letter that was asked for."""
    letter, count = question.split()[-2:]
    return Written(text_of(letter, int(count)), pause_s=0.03)


@pytest.fixture(scope="module")
def restless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageWorld]:
    folder: Path = tmp_path_factory.mktemp("restless")
    with page_world(folder, answers) as served:
        yield served


def shown(page: Page) -> str:
    """Return the newest answer as far as it is shown."""
    return str(
        page.evaluate("[...document.querySelectorAll('.answer .markdown')].at(-1)?.textContent.trim() ?? ''"),
    )


@pytest.mark.proves("CO-7")
def test_what_is_shown_after_a_reload_is_the_beginning_of_the_answer(browser: Browser, restless: PageWorld) -> None:
    count, dice = effort(6, 100), random.Random(5)
    page = restless.open(browser)
    wrong = watched(page)
    final, looks, asked = "", 0, 0
    for _ in range(count):
        if page.locator("[data-test=stop]").count() == 0:
            asked += 1
            final = text_of("a", 900 + asked)
            ask(page, f"write a {900 + asked}")
            page.locator("[data-test=stop]").wait_for()
        page.wait_for_timeout(dice.randrange(400))
        page.reload(wait_until="commit")
        page.locator(".answer .markdown").first.wait_for(state="attached")
        for _ in range(LOOKS):
            text = shown(page)
            assert final.startswith(text), f"{text[-60:]!r} is not how {final[:20]!r} goes on"
            looks += bool(text)
            page.wait_for_timeout(dice.randrange(60))
    expect(page.locator("[data-test=stop]")).to_have_count(0, timeout=60_000)
    expect(page.locator(".answer .markdown").last).to_have_text(final)
    assert looks >= count
    assert [each for each in wrong if "ERR_" not in each and "WebSocket" not in each] == []
    page.context.close()
    report("reloads in the middle of an answer", count)


@pytest.mark.proves("CO-14", "FC-051")
def test_no_session_shows_a_character_of_another(browser: Browser, restless: PageWorld) -> None:
    count, dice = effort(15, 200), random.Random(6)
    page = restless.open(browser)
    wrong = watched(page)
    words = effort(500, 4_000)
    for letter in LETTERS:
        page.keyboard.press("Control+Shift+O")
        expect(page.locator("h1")).to_have_text("New chat")
        ask(page, f"stream {letter} {words}")
        expect(page.locator(TRANSCRIPT)).to_contain_text(f"{letter}1 ")
    seen = dict.fromkeys(LETTERS, 0)
    for _ in range(count):
        letter = dice.choice(LETTERS)
        page.locator(SESSION, has_text=f"stream {letter} ").locator("a").click()
        page.wait_for_timeout(dice.randrange(80))
        text = page.inner_text(TRANSCRIPT)
        others = "".join(each for each in LETTERS if each != letter)
        assert not re.search(rf"\b[{others}]\d", text), f"{letter}: {text[-200:]}"
        seen[letter] += bool(re.search(rf"\b{letter}\d", text))
    assert all(seen.values()), seen
    for letter in LETTERS:
        page.locator(SESSION, has_text=f"stream {letter} ").locator("a").click()
        expect(page.locator(".answer .markdown").last).to_have_text(text_of(letter, words), timeout=90_000)
    assert wrong == []
    page.context.close()
    report("switches between three sessions that stream", count)
