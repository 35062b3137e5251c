"""Channels in a real browser, with a stand-in for Telegram: a stranger is paired, written to, and parted again."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from agent_fabric.testing.telegram_standin import TOKEN, Fault, TelegramStandIn
from e2e.page.page_world import PageWorld, page_world
from e2e.page.test_page import watched
from e2e.page.test_screens import fits, violations

pytestmark = pytest.mark.slow

ANN = 7
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Aside:
    """A stand-in that runs on a thread of its own."""

    telegram: TelegramStandIn
    loop: asyncio.AbstractEventLoop

    def write(self, sender: int, text: str) -> None:
        """Let somebody write to the bot."""
        self.loop.call_soon_threadsafe(self.telegram.write, sender, text)

    def fail(self, method: str, fault: Fault) -> None:
        """Let the next call of a method go wrong."""
        self.loop.call_soon_threadsafe(self.telegram.fail, method, fault)

    def texts(self, chat: int) -> list[str]:
        """Return what the bot has written."""
        return self.telegram.texts(chat)


@contextmanager
def telegram_aside() -> Iterator[Aside]:
    """Run a stand-in on a thread of its own: the browser's driver has the one of the test."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    telegram = TelegramStandIn()
    asyncio.run_coroutine_threadsafe(telegram.__aenter__(), loop).result(PATIENCE_S)
    try:
        yield Aside(telegram, loop)
    finally:
        asyncio.run_coroutine_threadsafe(telegram.__aexit__(None, None, None), loop).result(PATIENCE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
        loop.close()


@pytest.fixture(scope="module")
def telegram() -> Iterator[Aside]:
    with telegram_aside() as standing_in:
        yield standing_in


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, telegram: Aside) -> Iterator[PageWorld]:
    folder: Path = tmp_path_factory.mktemp("house")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TELEGRAM_TOKEN", TOKEN)
        channels = {"telegram": {"token": "env:TELEGRAM_TOKEN", "api_base": telegram.telegram.api_base}}
        with page_world(folder, configured={"channels": channels}) as served:
            served.fabric("users", "add", "ann", "--role", "operator", "--no-password")
            yield served


def open_channels(page: Page) -> Locator:
    page.click("[data-test=open-drawer]")
    page.locator(".drawer-nav").get_by_role("button", name="Channels").click()
    return page.locator("[data-test=drawer]")


def until(found: Callable[[], str | None]) -> str:
    """Wait for something that the stand-in will have seen."""
    end = time.monotonic() + PATIENCE_S
    while not (seen := found()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return seen


@pytest.mark.proves("C17")
def test_a_stranger_is_paired_tested_and_parted(browser: Browser, house: PageWorld, telegram: Aside) -> None:
    page = house.open(browser)
    wrong = watched(page)
    drawer = open_channels(page)
    expect(drawer).to_contain_text("Nobody is paired.")
    telegram.write(ANN, "hello")
    told = until(lambda: next((each for each in telegram.texts(ANN) if "Your code is" in each), None))
    expect(page.locator("[data-test=channels] .status", has_text="connected")).to_be_visible()
    page.click("[data-test=pair]")
    page.get_by_label("Code").fill("WRONGONE")
    page.get_by_label("Is the user").select_option("ann")
    page.get_by_role("button", name="Pair", exact=True).click()
    expect(page.locator("[data-test=dialog] [role=alert]")).to_be_visible()
    page.get_by_label("Code").fill(told.split("Your code is ")[1][:8])
    page.get_by_role("button", name="Pair", exact=True).click()
    expect(page.locator("[data-test=people] li", has_text="ann")).to_contain_text("telegram")
    telegram.fail("sendMessage", Fault.CUT_AFTER)
    page.get_by_role("button", name="Test message").click()
    doubtful = page.locator("[data-test=deliveries] li", has_text="in doubt").first
    expect(doubtful).to_contain_text("may have arrived", timeout=PATIENCE_S * 1000)
    assert violations(page) == []
    doubtful.get_by_role("button", name="Send again…").click()
    doubtful.get_by_role("button", name="Send again", exact=True).click()
    expect(page.locator("[data-test=deliveries] li", has_text="in doubt")).to_have_count(0, timeout=PATIENCE_S * 1000)
    page.get_by_role("button", name="Unpair…").click()
    page.get_by_role("button", name="Unpair", exact=True).click()
    expect(drawer).to_contain_text("Nobody is paired.")
    assert [each for each in wrong if "status of 4" not in each] == []
    page.context.close()


def test_it_fits_a_phone_and_shows_others_less(browser: Browser, house: PageWorld) -> None:
    page = house.open(browser, narrow=True, dark=True)
    open_channels(page)
    expect(page.locator("[data-test=channels] li")).to_have_count(1)
    assert violations(page) == []
    assert fits(page)
    page.context.close()
    page = house.open_as(browser, "vera", "viewer")
    drawer = open_channels(page)
    expect(drawer).to_contain_text("is for admins")
    expect(page.locator("[data-test=pair]")).to_have_count(0)
    page.get_by_role("textbox", name="Quiet hours").fill("never")
    page.get_by_role("button", name="Save").click()
    expect(drawer.get_by_role("alert")).to_be_visible()
    page.get_by_role("textbox", name="Quiet hours").fill("22:00-07:00")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".toast")).to_contain_text("Saved.")
    assert violations(page) == []
    page.context.close()
