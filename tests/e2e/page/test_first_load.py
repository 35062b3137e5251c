"""The message box comes with the page: what is typed before any program has come is neither lost nor sent twice."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from e2e.page.page_world import PageWorld, new_context
from e2e.page.test_page import COMPOSER, TRANSCRIPT, ask, watched

pytestmark = pytest.mark.slow
PROGRAM = "**/main.js"
SEND = "[data-test=send]"


@contextmanager
def held_page(world: PageWorld, browser: Browser, path: str = "/") -> Iterator[tuple[Page, list[Route]]]:
    """Open the page in a browser that has logged in before; its program waits until the route is continued."""
    first = world.open(browser)
    state = first.context.storage_state()
    first.context.close()
    context = new_context(browser, storage_state=state)
    page = context.new_page()
    held: list[Route] = []
    page.route(PROGRAM, lambda route: held.append(route))  # noqa: PLW0108 - the driver marks what it calls
    page.goto(world.url + path, wait_until="commit")
    page.wait_for_selector(f"{COMPOSER}:focus")
    while not held:
        page.wait_for_timeout(20)
    yield page, held
    context.close()


def test_what_is_typed_before_the_program_runs_stays(browser: Browser, world: PageWorld) -> None:
    with held_page(world, browser) as (page, held):
        wrong = watched(page)
        page.keyboard.type("hello early")
        expect(page.locator(SEND)).to_have_count(0)
        held[0].continue_()
        expect(page.locator(SEND)).to_be_enabled()
        page.keyboard.type(" bird")
        expect(page.locator(COMPOSER)).to_have_value("hello early bird")
        page.unroute(PROGRAM)
        page.reload()
        expect(page.locator(COMPOSER)).to_have_value("hello early bird")
        assert wrong == []


def test_enter_before_the_program_runs_sends_once_it_does(browser: Browser, world: PageWorld) -> None:
    with held_page(world, browser) as (page, held):
        page.keyboard.type("do not wait")
        page.keyboard.press("Enter")
        held[0].continue_()
        expect(page.locator(TRANSCRIPT)).to_contain_text("You said: do not wait")
        expect(page.locator(COMPOSER)).to_have_value("")
        expect(page.locator(".question")).to_have_count(1)


def test_what_is_typed_early_belongs_to_the_session_of_the_address(browser: Browser, world: PageWorld) -> None:
    page = world.open(browser)
    ask(page, "remember me")
    expect(page.locator(TRANSCRIPT)).to_contain_text("You said: remember me")
    path = page.evaluate("location.pathname")
    page.context.close()
    with held_page(world, browser, path) as (again, held):
        again.keyboard.type("and again")
        held[0].continue_()
        expect(again.locator(TRANSCRIPT)).to_contain_text("You said: remember me")
        expect(again.locator(COMPOSER)).to_have_value("and again")
        again.keyboard.press("Enter")
        expect(again.locator(TRANSCRIPT)).to_contain_text("You said: and again")
        expect(again.locator(".question")).to_have_count(2)


def test_whoever_has_to_log_in_is_not_shown_a_box(browser: Browser, world: PageWorld) -> None:
    context = new_context(browser)
    page = context.new_page()
    page.route(PROGRAM, lambda route: None)
    page.goto(world.url, wait_until="commit")
    expect(page.get_by_text("Loading…")).to_be_visible()
    expect(page.locator(COMPOSER)).to_have_count(0)
    context.close()


def test_a_tap_beside_the_sessions_closes_them(browser: Browser, world: PageWorld) -> None:
    page = world.open(browser, narrow=True)
    page.get_by_role("button", name="Sessions", exact=True).click()
    expect(page.get_by_role("button", name="Close sessions")).to_be_visible()
    page.mouse.click(350, 400)
    expect(page.get_by_role("button", name="Close sessions")).to_be_hidden()
    page.context.close()
