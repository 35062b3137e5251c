"""The page as a person uses it, in a real browser: ask, watch, agree, leave, come back."""

import json
import re
import signal
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from e2e.page.page_world import PageWorld, page_world, start, stop
from free_ports import free_port

pytestmark = pytest.mark.slow

COMPOSER, TRANSCRIPT, APPROVAL = "[data-test=composer]", "[data-test=transcript]", "[data-test=approval]"
SESSION = "[data-test=session]"


def ask(page: Page, text: str) -> None:
    """Type a message and send it, as a person would."""
    page.click(COMPOSER)
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def watched(page: Page) -> list[str]:
    """Return what goes wrong in a page, as far as a browser notices."""
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if said.type in {"error", "warning"} else None)
    return wrong


@pytest.mark.proves("FC-036", "FC-050", "FC-053", "FC-054", "FC-055", "C38", "CO-16")
def test_a_person_asks_watches_a_tool_agrees_and_finds_it_again(browser: Browser, world: PageWorld) -> None:
    page = world.open(browser)
    wrong = watched(page)
    assert "#login" not in page.url
    ask(page, "Which files are here?")
    expect(page.locator(TRANSCRIPT)).to_contain_text("It works.")
    page.locator("[data-test=tool]").first.click()
    expect(page.locator(".tool-body")).to_contain_text("Result")
    assert page.locator(".markdown table").count() == 1
    link = page.locator(".markdown a").first
    assert link.get_attribute("rel") == "noopener noreferrer nofollow"
    expect(page.locator(".host").first).to_have_text("docs.example.org")

    ask(page, "Please deploy it")
    card = page.locator(f"{APPROVAL}[data-status=pending]")
    expect(card).to_contain_text("make deploy")
    expect(card).to_contain_text("outward_effect")
    assert page.evaluate("document.activeElement.closest('[data-test=approval]')") is None, "nothing is preselected"
    other = world.open(browser)
    other.goto(page.url)
    expect(other.locator(f"{APPROVAL}[data-status=pending]")).to_be_visible()
    page.wait_for_timeout(600)
    card.locator("[data-test=approve]").click()
    expect(other.locator(f"{APPROVAL}[data-status=approve]")).to_be_visible()
    expect(page.locator(TRANSCRIPT)).to_contain_text("handled as you said")

    page.keyboard.press("Control+Shift+O")
    expect(page.locator("h1")).to_have_text("New chat")
    ask(page, "Remember the word marzipan")
    expect(page.locator(TRANSCRIPT)).to_contain_text("You said: Remember the word marzipan")
    assert page.locator(SESSION).count() == 2
    page.keyboard.press("Control+k")
    page.keyboard.type("marzi")
    expect(page.locator(SESSION)).to_have_count(1)
    page.fill("#search", "")
    entry = page.locator(SESSION, has_text="marzipan")
    entry.hover()
    entry.get_by_role("button", name=re.compile("Delete")).click()
    expect(page.locator(SESSION)).to_have_count(1)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(SESSION)).to_have_count(2)
    page.select_option("[data-test=model]", "fast")
    assert wrong == []
    page.context.close()
    other.context.close()


def test_an_answer_stands_below_what_a_person_has_denied(browser: Browser, world: PageWorld) -> None:
    page = world.open(browser)
    wrong = watched(page)
    ask(page, "Please deploy it")
    card = page.locator(f"{APPROVAL}[data-status=pending]")
    expect(card).to_contain_text("make deploy")
    page.wait_for_timeout(600)
    card.locator("[data-test=deny]").click()
    card.get_by_role("button", name="Deny").click()
    warning = page.locator("[data-test=not-done]")
    expect(warning).to_contain_text("This was not done.")
    answer = page.locator(".answer .markdown").last
    expect(answer).to_contain_text("handled as you said")
    expect(answer).to_contain_text(re.compile(r"denied by .*: make deploy"))
    text = answer.inner_text()
    assert text.index("make deploy") < text.index("handled as you said") < text.index("see above")
    assert warning.bounding_box()["y"] < answer.bounding_box()["y"]  # type: ignore[index] # both are shown
    page.reload()
    expect(page.locator("[data-test=not-done]")).to_be_visible()
    assert wrong == []
    page.context.close()


@pytest.mark.proves("FC-051", "FC-052")
def test_a_generation_stays_in_its_session_and_leaves_a_dot_elsewhere(browser: Browser, world: PageWorld) -> None:
    page = world.open(browser)
    ask(page, "Please count slowly")
    expect(page.locator(TRANSCRIPT)).to_contain_text("1 2 3 4")
    page.reload()
    expect(page.locator(TRANSCRIPT)).to_contain_text("1 2 3 4 5 6", timeout=5000)
    page.keyboard.press("Control+Shift+O")
    ask(page, "Another matter")
    expect(page.locator(TRANSCRIPT)).to_contain_text("You said: Another matter")
    assert "1 2 3" not in page.inner_text(TRANSCRIPT)
    expect(page.locator("[data-test=unread]")).to_be_visible(timeout=20_000)
    page.locator(SESSION, has_text="count").locator("a").click()
    expect(page.locator(TRANSCRIPT)).to_contain_text("398 399")
    expect(page.locator("[data-test=unread]")).to_have_count(0)
    page.context.close()


@pytest.mark.proves("CO-20")
def test_whoever_reads_further_up_stays_there_while_an_answer_grows(browser: Browser, world: PageWorld) -> None:
    page = world.open(browser)
    ask(page, "Please count a lot")
    expect(page.locator(TRANSCRIPT)).to_contain_text("1 2 3 4")
    box = page.locator(".transcript")
    until_end = "(box) => box.scrollHeight - box.scrollTop - box.clientHeight"
    expect(page.locator(TRANSCRIPT)).to_contain_text(" 1200 ", timeout=30_000)
    assert box.evaluate(until_end) <= 64, "it scrolls along"
    box.hover()
    page.mouse.wheel(0, -400)
    expect(page.get_by_role("button", name="New below")).to_be_visible()
    place = box.evaluate("(box) => box.scrollTop")
    page.wait_for_timeout(500)
    assert box.evaluate("(box) => box.scrollTop") == place
    page.get_by_role("button", name="New below").click()
    page.wait_for_timeout(300)
    assert box.evaluate(until_end) <= 64
    for _ in range(2):
        page.keyboard.press("Escape")
    expect(page.locator(TRANSCRIPT)).to_contain_text("Stopped")
    page.context.close()


def test_a_second_escape_stops_an_answer_and_what_was_said_is_kept(browser: Browser, world: PageWorld) -> None:
    page = world.open(browser)
    ask(page, "Please count slowly again")
    expect(page.locator(TRANSCRIPT)).to_contain_text("1 2 3 4")
    page.keyboard.press("Escape")
    expect(page.locator(".toast")).to_contain_text("Press Esc once more")
    page.keyboard.press("Escape")
    expect(page.locator(TRANSCRIPT)).to_contain_text("Stopped", timeout=3000)
    expect(page.locator(TRANSCRIPT)).to_contain_text("1 2 3 4")
    page.context.close()


@pytest.mark.proves("CO-17")
def test_a_page_outlives_a_killed_server_and_sends_nothing_twice(browser: Browser, tmp_path: Path) -> None:
    port = free_port()
    with page_world(tmp_path / "killed", port=port) as world:
        page = world.open(browser)
        ask(page, "Please count slowly")
        expect(page.locator(TRANSCRIPT)).to_contain_text("1 2 3 4")
        stop(world, signal.SIGKILL)
        expect(page.locator("[data-test=offline]")).to_be_visible()
        ask(page, "Are you back?")
        expect(page.locator(TRANSCRIPT)).to_contain_text("Not sent yet")
        page.fill(COMPOSER, "a draft that nobody has sent")
        start(world, port=port)
        expect(page.locator("[data-test=offline]")).to_have_count(0, timeout=20_000)
        expect(page.locator(TRANSCRIPT)).to_contain_text("398 399", timeout=30_000)
        expect(page.locator(TRANSCRIPT)).to_contain_text("You said: Are you back?", timeout=30_000)
        page.reload()
        expect(page.locator(COMPOSER)).to_have_value("a draft that nobody has sent")
        expect(page.locator(".question", has_text="Are you back?")).to_have_count(1)
        assert json.dumps(world.model.asked).count('"content": "Are you back?"') >= 1
        page.context.close()
