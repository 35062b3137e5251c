"""Memory in a real browser: a file is dropped, searched, a fact is reviewed by key, explained and forgotten."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from e2e.page.page_world import PageWorld, page_world
from e2e.page.test_page import TRANSCRIPT, ask, watched
from e2e.page.test_screens import fits, violations

pytestmark = pytest.mark.slow

READS_MS = 60_000
HANDBOOK = """# Handbook

## Money

Expenses are refunded on the tenth of each month, if the receipt was handed in before the first.

## Pool

The pool is open from nine in the morning until eight in the evening.
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageWorld]:
    folder: Path = tmp_path_factory.mktemp("library")
    with page_world(folder) as served:
        yield served


def open_memory(page: Page, part: str) -> Locator:
    page.click("[data-test=open-drawer]")
    page.locator(".drawer-nav").get_by_role("button", name="Memory").click()
    page.locator(".tabs").get_by_role("button", name=part).click()
    return page.locator("[data-test=drawer]")


def propose(library: PageWorld, *facts: str) -> None:
    """Let facts wait for a review, as those of a file do that nobody vouches for."""
    for fact in facts:
        library.fabric("memory", "add", "--fact", fact)
    library.fabric("memory", "export", "-o", "facts.md")
    for line in library.fabric("memory", "list", "--json").split('"id": "')[1:]:
        library.fabric("memory", "forget", line.split('"', 1)[0], "--erase")
    library.fabric("memory", "import", "facts.md")


@pytest.mark.proves("ME-14")
def test_a_file_is_dropped_found_and_erased(browser: Browser, library: PageWorld, tmp_path: Path) -> None:
    page = library.open(browser)
    wrong = watched(page)
    drawer = open_memory(page, "Documents")
    expect(drawer).to_contain_text("No documents.")
    (tmp_path / "handbook.md").write_text(HANDBOOK)
    (tmp_path / "empty.md").write_text("")
    page.locator("[data-test=drop] input[type=file]").set_input_files([tmp_path / "handbook.md", tmp_path / "empty.md"])
    expect(page.locator("[data-test=document]", has_text="Handbook").locator(".status")).to_be_visible()
    expect(page.locator("[data-test=sent] .warning")).to_contain_text("empty", timeout=READS_MS)
    page.get_by_role("searchbox", name="Search memory").fill("When are expenses refunded?")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.locator("[data-test=found]")).to_contain_text("tenth of each month", timeout=READS_MS)
    page.get_by_role("searchbox", name="Search memory").fill("zebra crossing in Ulan Bator")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.locator("[data-test=found]")).to_contain_text("Memory has nothing about this.")
    ask(page, "When are expenses refunded?")
    beside = page.locator(f"{TRANSCRIPT} [data-test=passages]")
    expect(beside).to_contain_text("From memory", timeout=READS_MS)
    beside.locator("summary").click()
    expect(beside).to_contain_text("tenth of each month")
    assert violations(page) == []
    beside.get_by_role("button", name="Handbook").first.click()
    expect(drawer).to_contain_text("The pool is open from nine")
    page.get_by_role("button", name="Erase…").click()
    page.get_by_role("button", name="Erase", exact=True).click()
    expect(page.locator("[data-test=left]")).to_contain_text("1 answer")
    page.get_by_role("button", name="All documents").click()
    expect(page.locator("[data-test=document]", has_text="Handbook")).to_have_count(0)
    assert [each for each in wrong if "status of 422" not in each] == []  # the empty file
    page.context.close()


@pytest.mark.proves("ME-13", "ME-14")
def test_facts_are_reviewed_by_key_explained_and_forgotten(browser: Browser, library: PageWorld) -> None:
    propose(library, "The pool opens at 9", "The gate code changes every Monday")
    page = library.open(browser)
    drawer = open_memory(page, "Review")
    cards = page.locator("[data-test=review] [data-id]")
    expect(cards).to_have_count(2)
    assert violations(page) == []
    page.locator("[data-test=review] [data-id]", has_text="pool").focus()
    page.keyboard.press("a")
    expect(cards).to_have_count(1)
    page.keyboard.press("r")
    expect(drawer).to_contain_text("Nothing waits for a review.")
    page.locator(".tabs").get_by_role("button", name="Facts").click()
    page.locator("[data-test=fact] .row-button", has_text="pool").click()
    expect(page.locator("[data-test=why-fact]")).to_contain_text("Agreed by")
    page.get_by_role("button", name="Pin", exact=True).click()
    expect(page.locator(".status", has_text="pinned")).to_be_visible()
    page.get_by_role("button", name="Forget…").click()
    page.get_by_role("button", name="Forget", exact=True).click()
    expect(page.locator("[data-test=left]")).to_contain_text("No answer rests on it.")
    page.context.close()


@pytest.mark.parametrize(("narrow", "dark"), [(True, False), (False, True)])
def test_its_screens_are_accessible_and_fit(browser: Browser, library: PageWorld, narrow: bool, dark: bool) -> None:
    library.fabric("memory", "add", "--fact", f"The lamp is {'narrow' if narrow else 'wide'}")
    page = library.open(browser, narrow=narrow, dark=dark)
    open_memory(page, "Documents")
    look = {"documents": violations(page)}
    assert fits(page)
    page.locator(".tabs").get_by_role("button", name="Facts").click()
    page.locator("[data-test=fact] .row-button").first.click()
    expect(page.locator("[data-test=why-fact]")).to_be_visible()
    look["fact"] = violations(page)
    assert fits(page)
    page.get_by_role("button", name="Change…").click()
    expect(page.locator("[data-test=dialog] textarea")).to_be_focused()
    look["dialog"] = violations(page)
    assert {name: found for name, found in look.items() if found} == {}
    page.context.close()


def test_whoever_may_only_look_finds_no_buttons(browser: Browser, library: PageWorld) -> None:
    page = library.open_as(browser, "vera", "viewer")
    drawer = open_memory(page, "Documents")
    expect(page.locator("[data-test=drop]")).to_have_count(0)
    page.locator(".tabs").get_by_role("button", name="Facts").click()
    expect(drawer).to_contain_text("Nothing is remembered.")
    expect(drawer.get_by_role("button", name=re.compile("^New fact"))).to_have_count(0)
    page.context.close()
