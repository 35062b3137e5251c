"""Whoever doubts a sentence clicks on it; whoever regrets a message takes its files back."""

import pytest
from playwright.sync_api import Browser, expect

from e2e.page.page_world import PageWorld
from e2e.page.test_page import TRANSCRIPT, ask, watched
from e2e.page.test_screens import violations

pytestmark = pytest.mark.slow


@pytest.mark.proves("CO-23", "CO-24", "CO-25")
def test_a_sentence_leads_to_its_event_and_files_are_taken_back_to_a_message(
    browser: Browser, world: PageWorld
) -> None:
    page = world.open(browser)
    wrong = watched(page)
    ask(page, "Write the report")
    expect(page.locator(".unproven")).to_have_text("It was sent to 815 people.")
    assert "".join(page.locator(".traced").all_inner_texts()) == "The report counts 4711 apples."
    page.locator(".doubt").click()
    expect(page.locator(".toast")).to_contain_text("815")

    page.locator(".traced").first.click()
    event = page.locator("[data-test=event]")
    expect(event).to_contain_text("4711 apples")
    expect(event).to_contain_text("tool_result")
    link = page.locator(".source").first
    assert link.get_attribute("href") == f"/r/{page.locator('.turn').get_attribute('data-run')}#{link.inner_text()}"
    event.locator("summary").click()
    expect(page.locator("[data-test=context]")).to_contain_text("write_file")
    expect(page.locator("[data-test=context]")).not_to_contain_text("It was sent to 815")
    page.locator(".timeline button").first.click()
    expect(event).to_contain_text("run_created")
    link.click()
    expect(event).to_contain_text("tool_result")
    page.get_by_role("button", name="Close", exact=True).click()
    expect(page.locator("[data-test=record]")).to_have_text("verified")
    assert violations(page) == []

    (written,) = world.folder.rglob("report.txt")
    page.get_by_role("button", name="Take files back to before this…").click()
    panel = page.locator("[data-test=take-back]")
    expect(panel).to_contain_text("Take 1 file back to here?")
    expect(panel).to_contain_text("Nothing was sent or pushed since")
    panel.locator("summary").first.click()
    panel.locator("details details summary").click()
    expect(panel.locator(".diff .add").first).to_be_visible()
    assert violations(page) == []
    panel.locator("[data-test=undo]").click()
    expect(page.locator(".toast")).to_contain_text("1 file taken back")
    assert not written.exists()

    page.get_by_role("button", name="Ask differently").click()
    expect(page.locator("[data-test=composer]")).to_have_value("Write the report")
    expect(page.locator(TRANSCRIPT)).to_contain_text("Nothing was said yet")
    assert wrong == []
    page.context.close()
