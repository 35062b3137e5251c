"""What waits is seen: messages behind a turn, turns behind a model, calls behind a person."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from e2e.page.page_world import PageWorld, page_world
from e2e.page.test_page import APPROVAL, TRANSCRIPT, ask, watched
from e2e.page.test_screens import violations

pytestmark = pytest.mark.slow
QUEUED = "[data-test=queued]"


@pytest.mark.proves("CO-13")
def test_what_is_queued_is_edited_and_withdrawn(browser: Browser, world: PageWorld) -> None:
    page = world.open(browser)
    wrong = watched(page)
    ask(page, "Please count a lot")
    expect(page.locator(TRANSCRIPT)).to_contain_text("1 2 3 4")
    ask(page, "a thing to say")
    ask(page, "a thing to forget")
    expect(page.locator(QUEUED)).to_have_count(2)
    expect(page.locator(QUEUED).first).to_contain_text("it is the next")
    expect(page.locator(QUEUED).last).to_contain_text("1 message ahead")
    assert violations(page) == []
    other = world.open(browser)
    other.goto(page.url)
    expect(other.locator(QUEUED)).to_have_count(2)
    page.locator(QUEUED).last.get_by_role("button", name="Withdraw").click()
    expect(page.locator(QUEUED)).to_have_count(1)
    expect(other.locator(QUEUED)).to_have_count(1)
    other.locator(QUEUED).get_by_role("button", name="Edit").click()
    other.locator(f"{QUEUED} textarea").fill("a better thing")
    other.keyboard.press("Enter")
    expect(other.locator(QUEUED)).to_contain_text("a better thing")
    for _ in range(2):
        page.keyboard.press("Escape")
    expect(page.locator(TRANSCRIPT)).to_contain_text("You said: a better thing")
    assert "forget" not in page.inner_text(TRANSCRIPT)
    expect(page.locator(QUEUED)).to_have_count(0)
    assert wrong == []
    page.context.close()
    other.context.close()


@pytest.mark.proves("CO-15", "C44", "FC-054")
def test_a_turn_behind_others_says_for_which_model_it_waits(browser: Browser, tmp_path: Path) -> None:
    with page_world(tmp_path / "line", slots=1) as world:
        page = world.open(browser)
        for nth in range(3):
            page.keyboard.press("Control+Shift+O")
            expect(page.locator("h1")).to_have_text("New chat")
            ask(page, f"Please count a lot {nth}")
            expect(page.locator("[data-test=activity]")).to_be_visible()
        expect(page.locator("[data-test=activity]")).to_contain_text("waiting for paper, 2 ahead")
        expect(page.locator("[data-test=model-state]")).to_have_text("2 ahead")
        assert violations(page) == []
        for nth in (0, 1):
            page.locator("[data-test=session]", has_text=f"a lot {nth}").locator("a").click()
            expect(page.locator(TRANSCRIPT)).to_contain_text(f"a lot {nth}")
            for _ in range(2):
                page.keyboard.press("Escape")
            expect(page.locator(TRANSCRIPT)).to_contain_text("Stopped")
        page.locator("[data-test=session]", has_text="a lot 2").locator("a").click()
        expect(page.locator(TRANSCRIPT)).to_contain_text("1 2 3 4")
        page.context.close()


@pytest.mark.proves("CO-24", "FC-036")
def test_a_card_says_how_far_a_call_reaches_and_how_often_it_was_agreed_to(browser: Browser, world: PageWorld) -> None:
    page = world.open(browser)
    for expected in ("never under the rule", "1 time under the rule"):
        ask(page, "Please deploy it")
        card = page.locator(f"{APPROVAL}[data-status=pending]")
        expect(card).to_contain_text(expected)
        expect(card).to_contain_text("what was sent cannot be taken back")
        page.wait_for_timeout(600)
        card.locator("[data-test=approve]").click()
        expect(page.locator(f"{APPROVAL}[data-status=pending]")).to_have_count(0)
        expect(page.locator("[data-test=stop]")).to_have_count(0)
    page.context.close()
