"""Every screen, wide and narrow, light and dark: nothing that axe-core finds, nothing that leaves the window."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from e2e.page.page_world import PageWorld, page_world
from e2e.page.test_page import APPROVAL, COMPOSER, TRANSCRIPT, ask, watched
from integration.page.page_tools import node_modules

pytestmark = pytest.mark.slow

DRAWERS = (
    *("runs", "approvals", "clock", "fleet", "memory", "channels", "workflows", "agents", "models", "policy", "audit"),
    *("people", "settings"),
)
DRAWER = "[data-test=drawer]"
WORKFLOW = """name: greet
version: 1.0.0
description: Greets somebody, then counts.
inputs:
  who: {type: string, required: true, description: Whom to greet}
  loud: {type: boolean}
steps:
  - {id: hello, action: transform, inputs: {text: "{{ inputs.who }}"}}
  - {id: count, action: transform, inputs: {n: 1}, depends_on: [hello]}
"""


EVERYTHING: Mapping[str, object] = {
    "type": "tag",
    "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
}
COLOURS: Mapping[str, object] = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
"""What depends on whether the page is light or dark: only its colours do."""


def violations(page: Page, wanted: Mapping[str, object] = EVERYTHING, *, within: str = "html") -> list[str]:
    """Return what axe-core has to say about a page, or a part of it, as it is now."""
    # Not as a script element: the page forbids those. The driver of the browser may evaluate what it likes.
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE())
    asked = [within, dict(wanted)]
    found = page.evaluate("([within, wanted]) => axe.run(document.querySelector(within), {runOnly: wanted})", asked)
    return [
        f"{each['id']}: {each['help']} {[node['html'][:160] for node in each['nodes'][:3]]}"
        for each in found["violations"]
    ]


def AXE() -> str:  # noqa: N802 - a constant that is read when it is needed
    return (node_modules() / "axe-core/axe.min.js").read_text()


def fits(page: Page) -> bool:
    """Tell whether nothing has to be scrolled sideways."""
    return bool(
        page.evaluate(
            "[...document.querySelectorAll('html, .frame, .middle, .header, .transcript, .composer, .drawer-body')]"
            ".every((each) => each.scrollWidth <= each.clientWidth + 1"
            " && each.getBoundingClientRect().right <= window.innerWidth + 1)"
        )
    )


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageWorld]:
    folder: Path = tmp_path_factory.mktemp("scenes")
    (folder / "workflow-definitions").mkdir()
    (folder / "workflow-definitions/greet.yaml").write_text(WORKFLOW)
    with page_world(folder) as served:
        yield served


@pytest.mark.proves("CO-21")
@pytest.mark.parametrize("narrow", [False, True])
def test_every_screen_is_accessible_and_fits(browser: Browser, scenes: PageWorld, narrow: bool) -> None:
    page = scenes.open(browser, narrow=narrow, dark=narrow)
    wrong = watched(page)
    usual: Literal["light", "dark"] = "dark" if narrow else "light"
    other: Literal["light", "dark"] = "light" if narrow else "dark"
    seen: dict[str, list[str]] = {}

    def look(name: str, within: str = "html") -> None:
        page.wait_for_timeout(150)
        assert fits(page), name
        seen[name] = violations(page, within=within)
        page.emulate_media(color_scheme=other)
        seen[f"{name}, {other}"] = violations(page, COLOURS, within=within)
        page.emulate_media(color_scheme=usual)

    look("welcome")
    ask(page, "Which files are here?")
    expect(page.locator(TRANSCRIPT)).to_contain_text("It works.")
    page.locator("[data-test=tool]").first.click()
    look("conversation")
    ask(page, "Please deploy it")
    card = page.locator(f"{APPROVAL}[data-status=pending]").first
    expect(card).to_be_visible()
    look("approval")
    page.wait_for_timeout(500)
    card.locator("[data-test=deny]").click()
    card.get_by_role("button", name="Deny", exact=True).click()
    expect(page.locator(TRANSCRIPT)).to_contain_text("handled as you said")
    if narrow:
        page.get_by_role("button", name="Sessions", exact=True).click()
        look("sessions")
        page.keyboard.press("Escape")
    page.click("[data-test=open-drawer]")
    for name in DRAWERS:
        page.locator(".drawer-nav").first.get_by_role("button", name=re.compile(f"^{name}", re.IGNORECASE)).click()
        expect(page.locator(".drawer-body .spinner")).to_have_count(0)
        look(name, "html" if name == DRAWERS[0] else DRAWER)  # behind all drawers is the same page
        if name == "runs":
            page.locator(".row-button").first.click()
            expect(page.locator(".timeline li").first).to_be_visible()
            page.locator(".timeline button").nth(3).click()
            look("one run", DRAWER)
        if name == "workflows":
            page.get_by_role("button", name=re.compile("greet")).click()
            expect(page.locator(".graph")).to_be_visible()
            look("one workflow", DRAWER)
    page.keyboard.press("Escape")
    page.locator(TRANSCRIPT).click()
    page.keyboard.press("?")
    expect(page.locator(DRAWER)).to_contain_text("New chat")
    look("keys")
    assert {name: found for name, found in seen.items() if found} == {}
    assert wrong == []
    page.context.close()


@pytest.mark.proves("CO-21")
def test_nothing_is_lost_at_four_times_the_size(browser: Browser, scenes: PageWorld) -> None:
    page = scenes.open(browser, narrow=True)
    page.set_viewport_size({"width": 320, "height": 256})  # 1280 pixels, enlarged by 400 %
    ask(page, "Which files are here?")
    expect(page.locator(TRANSCRIPT)).to_contain_text("It works.")
    assert fits(page)
    page.get_by_role("button", name="Sessions", exact=True).click()
    assert fits(page)
    page.keyboard.press("Escape")
    for name in ("open-drawer", "shield", "clock"):
        page.click(f"[data-test={name}]")
        expect(page.locator(".drawer-body .spinner")).to_have_count(0)
        assert fits(page), name
        page.keyboard.press("Escape")
    page.context.close()


def test_a_workflow_is_run_from_its_form_and_its_timeline_opens(browser: Browser, scenes: PageWorld) -> None:
    page = scenes.open(browser)
    page.click("[data-test=open-drawer]")
    page.locator(".drawer-nav").first.get_by_role("button", name="Workflows").click()
    page.get_by_role("button", name=re.compile("greet")).click()
    page.get_by_label("who").fill("Ada")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".status.completed").first).to_be_visible()
    expect(page.locator("[data-test=verified]")).to_contain_text("verified")
    page.context.close()


@pytest.mark.proves("CO-20")
def test_enter_sends_and_not_while_a_word_is_being_composed(browser: Browser, scenes: PageWorld) -> None:
    page = scenes.open(browser)
    page.click(COMPOSER)
    page.keyboard.type("one")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("two")
    expect(page.locator(COMPOSER)).to_have_value("one\ntwo")
    page.evaluate(
        "document.querySelector('[data-test=composer]').dispatchEvent(new KeyboardEvent('keydown',"
        " {key: 'Enter', bubbles: true, isComposing: true}))"
    )
    expect(page.locator(COMPOSER)).to_have_value("one\ntwo")
    page.keyboard.press("Enter")
    expect(page.locator(".question p").first).to_have_text("one\ntwo")
    page.goto(f"{scenes.url}/?q=fill%20me")
    expect(page.locator(COMPOSER)).to_have_value("fill me")
    page.context.close()
