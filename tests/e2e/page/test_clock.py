"""The clock in a real browser: a schedule is made, seen to fire, asked about, paused; what failed is tried again."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from e2e.page.page_world import PageWorld, page_world
from e2e.page.test_page import watched
from e2e.page.test_screens import WORKFLOW, fits, violations

pytestmark = pytest.mark.slow

FIRES_MS = 15_000
WATCHING = """name: watch
version: 1.0.0
description: Counts what comes in.
triggers: {on_change: "inbox/*.txt"}
inputs:
  paths: {type: array, default: []}
steps:
  - {id: count, action: transform, inputs: {files: "{{ inputs.paths }}"}}
"""


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageWorld]:
    folder: Path = tmp_path_factory.mktemp("clock")
    (folder / "workflow-definitions").mkdir()
    (folder / "workflow-definitions/greet.yaml").write_text(WORKFLOW)
    (folder / "workflow-definitions/watch.yaml").write_text(WATCHING)
    with page_world(folder) as served:
        yield served


def open_clock(page: Page) -> None:
    page.click("[data-test=clock]")
    expect(page.locator("[data-test=drawer]")).to_contain_text("Schedules")


def add_schedule(page: Page, name: str) -> None:
    """Fill in the dialog and save."""
    page.click("[data-test=new-schedule]")
    page.get_by_role("textbox", name="Name").fill(name)
    page.get_by_role("combobox", name="How", exact=True).select_option("every")
    page.get_by_role("spinbutton", name="Every").fill("2")
    page.get_by_role("combobox", name="Unit", exact=True).select_option("s")
    page.get_by_role("combobox", name="It starts", exact=True).select_option("workflow")
    page.get_by_role("combobox", name="Workflow", exact=True).select_option("greet")
    page.get_by_label(re.compile("^who")).fill("Ada")
    expect(page.locator("[data-test=preview] li")).to_have_count(5)
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.locator("[data-test=dialog]")).to_have_count(0)


@pytest.mark.proves("FC-045", "FC-054")
def test_a_schedule_is_made_fires_says_why_and_is_paused(browser: Browser, clock: PageWorld) -> None:
    page = clock.open(browser)
    wrong = watched(page)
    open_clock(page)
    expect(page.locator("[data-test=drawer]")).to_contain_text("Nothing is scheduled.")
    page.click("[data-test=new-schedule]")
    expect(page.locator("[data-test=preview] li")).to_have_count(5)
    page.get_by_role("combobox", name="Time zone", exact=True).select_option("Asia/Tokyo")
    expect(page.locator("[data-test=preview] li").first).to_contain_text("GMT+9")
    expect(page.locator("[data-test=preview] li").first).to_contain_text("03:00")
    page.keyboard.press("Escape")
    expect(page.locator("[data-test=dialog]")).to_have_count(0)
    expect(page.locator("[data-test=drawer]")).to_be_visible()
    add_schedule(page, "greeting")
    fired = page.locator(".rows li", has_text="fired").first
    expect(fired.locator(".status.completed", has_text="completed")).to_be_visible(timeout=FIRES_MS)
    fired.get_by_role("button", name=re.compile("^Why")).click()
    expect(page.locator("[data-test=why]")).to_contain_text("fired")
    expect(page.locator("[data-test=why]").get_by_role("button", name=re.compile("^run "))).to_be_visible()
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.locator(".drawer-body")).to_contain_text("paused by")
    page.get_by_role("button", name="Run now").click()
    page.get_by_role("button", name="Show the run").click()
    expect(page.locator("[data-test=verified]")).to_contain_text("verified")
    open_clock(page)
    line = page.locator("[data-test=schedule]", has_text="greeting")
    expect(line).to_contain_text("by hand")
    line.locator(".row-button").click()
    page.get_by_role("button", name="Change…").click()
    expect(page.get_by_label(re.compile("^who"))).to_have_value("Ada")
    page.get_by_role("combobox", name="How", exact=True).select_option("cron")
    page.get_by_label(re.compile("Cron expression")).fill("61 * * * *")
    expect(page.locator("[data-test=preview] .warning")).to_be_visible()
    page.get_by_role("button", name="Save").click()
    expect(page.locator("[data-test=dialog] [role=alert]")).to_be_visible()
    page.get_by_label(re.compile("Cron expression")).fill("0 4 * * *")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".drawer-body")).to_contain_text("0 4 * * *")
    page.get_by_role("button", name="Remove…").click()
    page.get_by_role("button", name="Remove", exact=True).click()
    expect(page.locator(".drawer-body")).to_contain_text("Nothing is scheduled.")
    assert [each for each in wrong if "status of 4" not in each] == []
    page.context.close()


def test_a_sensor_is_asked_and_a_dead_letter_is_tried_again(browser: Browser, clock: PageWorld) -> None:
    page = clock.open(browser)
    open_clock(page)
    page.get_by_role("button", name=re.compile("workflow:watch:on_change")).click()
    page.get_by_role("button", name="Look now").click()
    expect(page.locator(".toast")).to_contain_text("Nothing was started")
    page.get_by_role("button", name="All of the clock").click()
    add_schedule(page, "letters")
    file = clock.folder / "workflow-definitions/greet.yaml"
    file.rename(file.with_suffix(".gone"))
    try:
        page.get_by_role("button", name="All of the clock").click()
        letter = page.locator("[data-test=letter]").first
        expect(letter).to_be_visible(timeout=FIRES_MS)
    finally:
        file.with_suffix(".gone").rename(file)
    clock.fabric("schedules", "pause", "letters")
    page.wait_for_timeout(3500)  # what came meanwhile is listed, too
    letter.get_by_role("button", name="Show").click()
    expect(letter.locator("pre")).to_contain_text("letters")
    letter.get_by_role("button", name="Retry").click()
    expect(page.locator(".toast")).to_contain_text("Carried out")
    clock.fabric("schedules", "remove", "letters")
    page.context.close()


def test_whoever_may_only_look_finds_no_buttons(browser: Browser, clock: PageWorld) -> None:
    clock.fabric("schedules", "add", "seen", "--cron", "0 3 * * *", "--workflow", "greet", "-i", "who=Ada")
    page = clock.open_as(browser, "vera", "viewer")
    open_clock(page)
    expect(page.locator("[data-test=drawer]").get_by_role("button", name=re.compile("^New"))).to_have_count(0)
    expect(page.locator("[data-test=drawer]")).not_to_contain_text("Dead letters")
    clock.fabric("schedules", "remove", "seen")
    page.context.close()


@pytest.mark.parametrize(("narrow", "dark"), [(False, False), (True, True)])
def test_its_dialog_and_its_details_are_accessible_and_fit(
    browser: Browser, clock: PageWorld, narrow: bool, dark: bool
) -> None:
    name = f"look-{narrow}".lower()
    clock.fabric("schedules", "add", name, "--cron", "0 3 * * *", "--workflow", "greet", "-i", "who=Ada")
    page = clock.open(browser, narrow=narrow, dark=dark)
    open_clock(page)
    page.locator("[data-test=schedule] .row-button", has_text=name).click()
    expect(page.locator("[data-test=planned] li")).to_have_count(5)
    assert violations(page) == []
    assert fits(page)
    page.get_by_role("button", name="Change…").click()
    expect(page.locator("[data-test=preview] li")).to_have_count(5)
    page.locator("[data-test=dialog] summary").click()
    assert violations(page) == []
    assert page.evaluate(
        "[...document.querySelectorAll('dialog, .dialog-body')]"
        ".every((each) => each.scrollWidth <= each.clientWidth + 1)"
    )
    clock.fabric("schedules", "remove", name)
    page.context.close()
