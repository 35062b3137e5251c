"""The fleet in a real browser, with a real machine: invited, seen, asked, agreed to, rolled out."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from e2e.page.page_world import PageWorld, page_world
from e2e.page.test_page import APPROVAL, TRANSCRIPT, ask, watched
from e2e.page.test_screens import fits, violations
from integration.fleet.machines import ASKING

pytestmark = pytest.mark.slow

JOINS_MS = 30_000
PROGRAM = (sys.executable, "-m", "agent_fabric.interfaces.node.main")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageWorld]:
    folder: Path = tmp_path_factory.mktemp("hub")
    with page_world(folder) as served:
        yield served


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Processes that a test starts, ended with the module."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for each in started:
        each.terminate()
        each.wait(15)


def open_fleet(page: Page) -> Locator:
    page.click("[data-test=open-drawer]")
    page.locator(".drawer-nav").get_by_role("button", name="Fleet").click()
    drawer = page.locator("[data-test=drawer]")
    expect(drawer).to_contain_text("Machines")
    return drawer


def shared_with(folder: Path) -> Path:
    """Return the folder of a machine that files are copied to and from."""
    shared = folder.parent / f"{folder.name}-shared"
    shared.mkdir(exist_ok=True)
    return shared


def copies_files(page: Page, shared: Path) -> None:
    """Send a file to the machine, and fetch it again."""
    form = page.locator("[data-test=send-file]")
    form.locator("[type=file]").set_input_files({"name": "hello.txt", "mimeType": "text/plain", "buffer": b"hello"})
    form.get_by_label("Path there").fill(f"{shared}/")
    form.get_by_role("button", name="Send", exact=True).click()
    agree(page, page.locator(f"[data-test=transfer] {APPROVAL}[data-status=pending]"))
    expect(page.locator("[data-test=transfer]")).to_contain_text("on the machine", timeout=JOINS_MS)
    assert (shared / "hello.txt").read_text() == "hello"
    page.get_by_role("button", name="Another file").click()
    page.get_by_label("Fetch a file from it").fill(str(shared / "hello.txt"))
    with page.expect_download() as download:
        page.get_by_role("button", name="Fetch", exact=True).click()
    assert download.value.path().read_bytes() == b"hello"
    expect(page.locator("[data-test=transfer]")).to_contain_text("Fetched")


def join(line: str, folder: Path) -> "subprocess.Popen[bytes]":
    """Do on a machine what the line says, with the program of this tree instead of the one that it fetches."""
    words = shlex.split(line)
    arguments = words[words.index("join") :]
    subprocess.run([*PROGRAM, *arguments, "--dir", str(folder)], check=True, capture_output=True, timeout=60)
    more = f'pty_support = true\nfile_transfer = true\nroots = ["{shared_with(folder)}"]\n'
    (folder / "node.toml").write_text(f"{ASKING}{more}")
    with (folder / "log").open("ab") as log:
        return subprocess.Popen([*PROGRAM, "run", "--dir", str(folder)], stdout=log, stderr=log)


def agree(page: Page, card: Locator) -> None:
    expect(card).to_be_visible(timeout=JOINS_MS)
    page.wait_for_timeout(600)
    card.locator("[data-test=approve]").click()


@pytest.mark.proves("FC-055", "FC-056")
def test_a_machine_is_invited_asked_and_rolled_out_to(
    browser: Browser, hub: PageWorld, machine: list["subprocess.Popen[bytes]"], tmp_path: Path
) -> None:
    page = hub.open(browser)
    wrong = watched(page)
    drawer = open_fleet(page)
    expect(drawer).to_contain_text("No machine has joined.")
    page.click("[data-test=invite]")
    page.get_by_role("textbox", name="Name").fill("web-1")
    page.get_by_role("textbox", name="Labels").fill("role=web")
    page.get_by_role("button", name="Invite", exact=True).click()
    line = page.locator("[data-test=invite-line]").inner_text()
    page.keyboard.press("Escape")
    expect(drawer).to_contain_text("Open invitations")
    machine.append(join(line, tmp_path))
    row = page.locator("[data-test=node]", has_text="web-1")
    expect(row.locator(".status", has_text="online")).to_be_visible(timeout=JOINS_MS)
    expect(row).to_contain_text("role=web")
    row.locator(".row-button").click()

    page.fill("[data-test=node-command]", "uptime")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("[data-test=command-outcome]")).to_contain_text("exit code 0")
    made = tmp_path / "made"
    page.fill("[data-test=node-command]", f"touch {made}")
    page.get_by_role("button", name="Only check").click()
    expect(page.locator("[data-test=command-outcome] .status.ask")).to_be_visible()
    page.get_by_role("button", name="Run", exact=True).click()
    card = page.locator(f"[data-test=command-outcome] {APPROVAL}[data-status=pending]")
    expect(card).to_contain_text("on web-1")
    expect(card).to_contain_text("machine web-1 and what")
    expect(card.locator("[data-test=machine-facts]")).to_contain_text("its own file")
    assert not made.exists()
    agree(page, card)
    expect(page.locator("[data-test=done]")).to_contain_text("success", timeout=JOINS_MS)
    expect(page.locator("[data-test=done] li", has_text="touch")).to_contain_text("success", timeout=JOINS_MS)
    assert made.exists()

    page.click("[data-test=open-shell]")
    agree(page, page.locator(f"{APPROVAL}[data-status=pending]"))
    page.fill("[data-test=shell-line]", "echo sh$((40+2))ell")
    page.press("[data-test=shell-line]", "Enter")
    expect(page.locator("[data-test=screen]")).to_contain_text("sh42ell", timeout=JOINS_MS)
    page.get_by_role("button", name="End the shell").click()
    expect(page.get_by_role("button", name="Another one")).to_be_visible(timeout=JOINS_MS)

    copies_files(page, shared_with(tmp_path))

    page.get_by_role("button", name="What may happen there").click()
    expect(page.locator("[data-test=in-force]")).to_contain_text("everything else asks")
    page.get_by_label(re.compile("Blocked commands")).fill("reboot")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("[data-test=in-force] li", has_text="reboot")).to_contain_text("the hub")
    page.get_by_label("What would become of a command?").fill("reboot")
    page.get_by_role("button", name="Check", exact=True).click()
    expect(page.locator("[data-test=trial]")).to_contain_text("block")
    expect(page.locator("[data-test=trial] li", has_text="decides").first).to_be_visible()

    page.get_by_role("button", name="Back to web-1").click()
    page.get_by_role("button", name="All machines").click()
    page.click("[data-test=new-plan]")
    form = page.locator("[data-test=plan-form]")
    form.get_by_role("textbox", name="Machines").fill("role=db")
    expect(page.locator("[data-test=selected]")).to_contain_text("No machine fits.")
    form.get_by_role("textbox", name="Machines").fill("role=web")
    expect(page.locator("[data-test=selected]")).to_contain_text("1 machine: web-1")
    form.get_by_role("textbox", name="Command").fill(f"touch {tmp_path / 'planned'}")
    form.get_by_role("button", name="Freeze").click()
    expect(page.locator("[data-test=plan-status]")).to_have_text("waiting")
    page.get_by_role("button", name="Apply").click()
    agree(page, page.locator(f".drawer {APPROVAL}[data-status=pending]"))
    expect(page.locator("[data-test=plan-status]")).to_have_text("completed", timeout=JOINS_MS)
    expect(page.locator("[data-test=waves]")).to_contain_text("success")
    assert (tmp_path / "planned").exists()

    page.locator("[data-test=waves] .chip").click()
    page.get_by_role("button", name="Ask the sysadmin").click()
    expect(page.locator("[data-test=machine]")).to_have_value("web-1")
    ask(page, "Why is it slow?")
    expect(page.locator(TRANSCRIPT)).to_contain_text("You said: Why is it slow?")  # nothing is added to it
    page.get_by_role("button", name="Timeline", exact=True).last.click()
    expect(page.locator("[data-test=run-machine]")).to_have_text("machine web-1")
    page.get_by_role("button", name="Settings", exact=True).first.click()
    expect(page.locator(".drawer-body")).to_contain_text("What may happen on each machine")
    page.locator(".drawer-body").get_by_role("button", name=re.compile("web-1")).click()
    expect(page.locator("[data-test=in-force]")).to_be_visible()
    assert wrong == []
    page.context.close()


@pytest.mark.parametrize(("narrow", "dark"), [(False, True), (True, False)])
def test_its_screens_are_accessible_and_fit(browser: Browser, hub: PageWorld, narrow: bool, dark: bool) -> None:
    page = hub.open(browser, narrow=narrow, dark=dark)
    drawer = open_fleet(page)
    look = {"fleet": violations(page)}
    assert fits(page)
    drawer.locator(".row-button", has_text="completed").first.click()
    expect(page.locator("[data-test=waves]")).to_be_visible()
    look["plan"] = violations(page)
    assert fits(page)
    page.locator("[data-test=waves] .chip").click()
    expect(page.locator("[data-test=done] li").first).to_be_visible()
    page.locator("[data-test=done] .row-button").first.click()
    look["machine"] = violations(page)
    assert fits(page)
    page.get_by_role("button", name="What may happen there").click()
    expect(page.locator("[data-test=policy-form]")).to_be_visible()
    look["policy"] = violations(page)
    assert fits(page)
    assert {name: found for name, found in look.items() if found} == {}
    page.context.close()


def test_whoever_may_only_look_finds_no_buttons(browser: Browser, hub: PageWorld) -> None:
    page = hub.open_as(browser, "vera", "viewer")
    drawer = open_fleet(page)
    expect(drawer).to_contain_text("Plans")
    expect(drawer.get_by_role("button", name=re.compile("^(Invite|New plan)"))).to_have_count(0)
    page.locator("[data-test=node] .row-button").first.click()
    expect(drawer).to_contain_text("About it")
    offered = drawer.locator(".drawer-body").get_by_role("button", name=re.compile("^(Run|Revoke|Name and|Ask the)"))
    expect(offered).to_have_count(0)
    page.context.close()
