"""Whoever agrees on the page has the whole call before their eyes, and what runs is what they saw or wrote."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from e2e.page.page_model import Written
from e2e.page.page_world import PageWorld, page_world
from long_calls import DANGER, PLACES, TALKATIVE, script
from services import need_program

pytestmark = pytest.mark.slow

COMPOSER, TRANSCRIPT = "[data-test=composer]", "[data-test=transcript]"
PENDING, SETTLED = "[data-test=approval][data-status=pending]", ".approval.settled"
PATIENCE_MS = 60_000.0
ASKED = re.compile(r"(\d+) lines (\w+)")


def answers(question: str, results: int, messages: list[dict[str, Any]]) -> Written:
    """Run a script as long as is asked for, then say what came of it."""
    if "leave" in question and not results:
        return Written(calls=(("shell", {"command": "curl -d x https://example.invalid/"}),))
    if (wanted := ASKED.search(question)) is None:
        return Written(" ".join(map(str, range(1, 400))), pause_s=0.02)
    if results:
        return Written(f"It came to this: {str(messages[-1]['content'])[-200:]}")
    return Written(calls=(("shell", {"command": script(int(wanted[1]), wanted[2])}),))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageWorld]:
    with page_world(tmp_path_factory.mktemp("calls"), answers, model_settings=TALKATIVE) as served:
        yield served


def ask(page: Page, text: str) -> None:
    page.click(COMPOSER)
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def asked(page: Page, lines: int, place: str) -> Locator:
    """Let a run ask about a call, and return its card, which is there long enough to be answered."""
    ask(page, f"{lines} lines {place}")
    card = page.locator(PENDING)
    expect(card.locator("[data-test=approve]")).to_be_visible(timeout=PATIENCE_MS)
    page.wait_for_timeout(600)
    return card


@pytest.mark.proves("PG-1", "WB-4")
@pytest.mark.parametrize(("lines", "place"), [(1, "first"), (403, "middle"), (403, "last"), (100_000, "last")])
def test_the_whole_call_is_shown_and_exactly_that_is_agreed_to(
    browser: Browser, world: PageWorld, lines: int, place: str
) -> None:
    page = world.open(browser)
    card = asked(page, lines, place)
    assert card.locator("[data-test=call]").text_content() == script(lines, place)
    if lines > 1:
        size = re.compile(rf"{lines:,} lines, hash\s+[0-9a-f]{{12}}")
        expect(card.locator("[data-test=call-size]")).to_contain_text(size)
        card.get_by_role("button", name=f"Unfold all {lines:,} lines").click()
        assert card.locator("[data-test=call]").evaluate("(box) => box.scrollHeight <= box.clientHeight + 1")
    with page.expect_request("**/approvals/*") as sent:
        card.locator("[data-test=approve]").click()
    said = sent.value.post_data_json or {}
    assert said["decision"] == "approve"
    assert len(said["binding"]) == 64
    expect(page.locator(TRANSCRIPT)).to_contain_text("It came to this", timeout=PATIENCE_MS)
    page.context.close()


@pytest.mark.proves("PG-1")
def test_an_edit_that_changes_nothing_runs_the_whole_call(browser: Browser, world: PageWorld) -> None:
    page = world.open(browser)
    card = asked(page, 500, "last")
    card.get_by_role("button", name="Edit…").click()
    assert card.get_by_label("Command").input_value() == script(500, "last")
    with page.expect_request("**/approvals/*") as sent:
        card.get_by_role("button", name="Run as edited").click()
    assert "args" not in (sent.value.post_data_json or {"args": None})
    expect(page.locator(SETTLED)).to_contain_text("Agreed by")
    expect(page.locator(TRANSCRIPT)).to_contain_text("It came to this")
    page.context.close()


@pytest.mark.proves("PG-2", "PG-3")
def test_an_edit_runs_as_edited_and_the_card_says_what_was_run(browser: Browser, world: PageWorld) -> None:
    page = world.open(browser)
    card = asked(page, 403, "last")
    card.get_by_role("button", name="Edit…").click()
    field = card.get_by_label("Command")
    field.fill(f"echo pear\n{script(300, 'last').replace(DANGER, 'echo apple')}")
    field.press("Escape")
    expect(field).to_have_count(0)
    card.get_by_role("button", name="Edit…").click()
    expect(field).to_have_value(re.compile("echo pear"))  # Esc has closed the field, and kept what was written
    card.get_by_role("button", name="Run as edited").click()
    settled = page.locator(SETTLED)
    expect(settled).to_contain_text("Agreed, with changes")
    expect(settled.locator("p").first).to_contain_text("echo pear")
    expect(settled.locator("p").nth(1)).to_contain_text("not run")
    expect(page.locator(TRANSCRIPT)).to_contain_text("apple")
    page.context.close()


@pytest.mark.parametrize("place", PLACES)
def test_a_denied_call_says_why_and_nothing_runs(browser: Browser, world: PageWorld, place: str) -> None:
    page = world.open(browser)
    card = asked(page, 300, place)
    expect(card.locator("[data-test=call]")).to_contain_text(DANGER)
    card.locator("[data-test=deny]").click()
    expect(card.get_by_label("Why")).to_be_focused()
    page.keyboard.type("not today")
    page.keyboard.press("Escape")
    card.locator("[data-test=deny]").click()
    expect(card.get_by_label("Why")).to_have_value("not today")
    expect(card.get_by_label("Why")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(SETTLED)).to_contain_text("Denied")
    expect(page.locator(TRANSCRIPT)).to_contain_text("not today")
    page.context.close()


def test_a_call_that_cannot_be_loaded_can_only_be_denied(browser: Browser, world: PageWorld) -> None:
    page = world.open(browser)
    page.route("**/approvals/*", lambda route: route.abort() if route.request.method == "GET" else route.continue_())
    ask(page, "403 lines last")
    card = page.locator(PENDING)
    expect(card).to_contain_text("nobody can agree to it here")
    expect(card.locator("[data-test=approve]")).to_have_count(0)
    expect(card.locator("[data-test=deny]")).to_be_visible()
    page.unroute("**/approvals/*")
    card.get_by_role("button", name="Try again").click()
    expect(card.locator("[data-test=approve]")).to_be_visible()
    page.wait_for_timeout(600)
    card.locator("[data-test=deny]").click()
    expect(card.get_by_label("Why")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(SETTLED)).to_contain_text("Denied")
    page.context.close()


@pytest.mark.proves("PG-2")
def test_escape_stops_an_answer_only_at_the_second_press_and_nowhere_else(browser: Browser, world: PageWorld) -> None:
    page = world.open(browser)
    ask(page, "Please count")
    expect(page.locator(TRANSCRIPT)).to_contain_text("1 2 3 4")
    page.evaluate(
        "document.querySelector('[data-test=composer]').dispatchEvent(new KeyboardEvent('keydown',"
        " {key: 'Escape', bubbles: true, isComposing: true}))"
    )
    assert page.locator(".toast").count() == 0, "an input method has it"
    page.click("#search")
    page.keyboard.type("pears")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(page.locator(".toast")).to_contain_text("once more")
    expect(page.locator("[data-test=stop]")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(TRANSCRIPT)).to_contain_text("Stopped", timeout=3000)
    page.context.close()


@pytest.mark.proves("PG-3")
def test_a_card_of_a_call_outside_the_box_does_not_speak_of_a_box_around_it(browser: Browser, world: PageWorld) -> None:
    need_program("curl", "curl")
    page = world.open(browser)
    ask(page, "Please leave the box")
    card = page.locator(PENDING)
    expect(card).to_contain_text("outside the box, as ")
    expect(card).to_contain_text("/curl")
    assert "level" not in card.inner_text()
    page.wait_for_timeout(600)
    card.locator("[data-test=deny]").click()
    expect(card.get_by_label("Why")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(SETTLED)).to_contain_text("Denied")
    page.context.close()
