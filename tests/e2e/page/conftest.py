"""One browser for all tests of the page."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from e2e.page.page_world import PageWorld, launched, page_world

expect.set_options(timeout=30_000)  # a busy machine takes longer than the five seconds that are usual


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with launched() as found:
        yield found


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageWorld]:
    folder: Path = tmp_path_factory.mktemp("page")
    with page_world(folder) as served:
        yield served
