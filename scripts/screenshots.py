"""Writes a picture of every screen of the page into a folder: `make screenshots`.

The pictures in the README and the guide are made here, with `--docs`: of the real page, with a scripted model.
"""

import argparse
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from playwright.sync_api import Browser, Page  # noqa: E402 - the path comes first

from e2e.page.page_model import Written  # noqa: E402
from e2e.page.page_world import PageWorld, launched, page_world  # noqa: E402

DRAWERS = (
    *("Runs", "Approvals", "Clock", "Fleet", "Memory", "Channels", "Workflows", "Agents", "Models", "Policy", "Audit"),
    *("People", "Settings"),
)
WORKFLOW = """name: release
version: 1.2.0
description: Tests, builds and announces a release.
inputs:
  version: {type: string, required: true, description: Such as 1.4.0}
  announce: {type: boolean, description: Whether to write the announcement}
steps:
  - {id: test, action: run-command, command: "true"}
  - {id: build, action: run-command, command: "true", depends_on: [test]}
  - {id: notes, action: transform, inputs: {text: "{{ inputs.version }}"}, depends_on: [test]}
  - {id: publish, action: approve, inputs: {message: "Publish it?"}, depends_on: [build, notes]}
"""
SCHEDULES = (
    ("nightly-triage", "--cron", "0 3 * * *", "--timezone", "Europe/Berlin", "--do", "Sort the new issues by area."),
    ("disk-watch", "--every", "2m", "--do", "Look whether a disk is almost full."),
    ("release-train", "--cron", "0 9 * * mon", "--workflow", "release", "-i", "version=1.5.0"),
)
HELLO = "print([n for n in range(2, 30) if all(n % d for d in range(2, n))])\n"
ANSWER = """`primes.py` is there and prints the first ten primes.

| step | result |
|---|---|
| written | `primes.py`, 1 line |
| run | exit code 0 |

```python
print([n for n in range(2, 30) if all(n % d for d in range(2, n))])
```

It tries every divisor, which is fine up to a few thousand. For more, a sieve is faster:
see [the sieve of Eratosthenes](https://en.wikipedia.org/wiki/Sieve_of_Eratosthenes).
"""


def answers(question: str, results: int, _: list[dict[str, object]]) -> Written:
    """Play a small project."""
    if "primes" in question:
        if not results:
            return Written("I write it first.", calls=(("write_file", {"path": "primes.py", "content": HELLO}),))
        if results == 1:
            return Written(calls=(("shell", {"command": "python3 primes.py"}),))
        return Written(ANSWER)
    if "publish" in question.lower():
        if not results:
            return Written(
                "The tests pass, so I publish it.", calls=(("shell", {"command": "make deploy VERSION=1.4.0"}),)
            )
        return Written("Version 1.4.0 is published.")
    return Written(
        "The disk is full because of old container images: 41 GB of 50. `podman image prune` would free 38 GB."
    )


def ask(page: Page, text: str) -> None:
    """Send a message."""
    page.fill("[data-test=composer]", text)
    page.keyboard.press("Enter")


def walk(world: PageWorld, browser: Browser, folder: Path, *, narrow: bool, dark: bool) -> None:
    """Take a picture of every screen."""
    page = world.open(browser, narrow=narrow, dark=dark, device_scale_factor=2)
    look = f"{'narrow' if narrow else 'wide'}-{'dark' if dark else 'light'}"

    def shoot(name: str) -> None:
        page.wait_for_timeout(250)
        page.screenshot(path=folder / f"{look}-{name}.png")

    shoot("1-welcome")
    ask(page, "Write primes.py that prints the first ten primes, and run it.")
    page.get_by_text("a sieve is faster").wait_for()
    shoot("2-conversation")
    ask(page, "Publish version 1.4.0")
    page.locator("[data-test=approval][data-status=pending]").wait_for()
    shoot("3-approval")
    page.wait_for_timeout(600)
    page.locator("[data-test=approve]").first.click()
    page.get_by_text("is published").wait_for()
    if narrow:
        page.get_by_role("button", name="Sessions", exact=True).click()
        shoot("4-sessions")
        page.keyboard.press("Escape")
    page.click("[data-test=open-drawer]")
    for number, name in enumerate(DRAWERS, 5):
        page.locator(".drawer-nav").first.get_by_role("button", name=re.compile(f"^{name}")).click()
        page.locator(".drawer-body .spinner").first.wait_for(state="detached")
        shoot(f"{number}-{name.lower()}")
        if name == "Runs":
            page.locator(".row-button").first.click()
            page.locator(".timeline button").nth(4).click()
            shoot(f"{number}-one-run")
        if name == "Clock":
            page.locator("[data-test=schedule] .row-button").first.click()
            page.locator("[data-test=planned] li").first.wait_for()
            shoot(f"{number}-one-schedule")
            page.get_by_role("button", name="Change…").click()
            page.locator("[data-test=preview] li").first.wait_for()
            shoot(f"{number}-schedule-dialog")
            page.keyboard.press("Escape")
        if name == "Workflows":
            page.get_by_role("button", name=re.compile("release")).click()
            page.locator(".graph").wait_for()
            shoot(f"{number}-one-workflow")
    page.context.close()


def main() -> None:
    """Write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "screenshots")
    parser.add_argument("--docs", action="store_true", help="also write those that the documents show")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        home = Path(work) / "shop"
        (home / "workflow-definitions").mkdir(parents=True)
        (home / "workflow-definitions/release.yaml").write_text(WORKFLOW)
        with launched() as browser, page_world(home, answers) as world:
            for schedule in SCHEDULES:
                world.fabric("schedules", "add", *schedule)
            page = world.open(browser)
            ask(page, "Why is the disk of web-3 full?")
            page.get_by_text("container images").wait_for()
            page.context.close()
            for narrow, dark in ((False, False), (False, True), (True, False), (True, True)):
                walk(world, browser, options.folder, narrow=narrow, dark=dark)
    if options.docs:
        target = ROOT / "docs/images"
        target.mkdir(exist_ok=True)
        for shown, name in {
            "wide-light-3-approval": "page-approval",
            "wide-dark-2-conversation": "page-dark",
            "wide-light-5-one-run": "page-run",
            "narrow-light-2-conversation": "page-phone",
        }.items():
            (target / f"{name}.png").write_bytes((options.folder / f"{shown}.png").read_bytes())
    print(f"{len(list(options.folder.glob('*.png')))} pictures in {options.folder}")


if __name__ == "__main__":
    main()
