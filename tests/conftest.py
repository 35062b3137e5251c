"""What all tests share."""

import gc
import os
import platform
import shutil
import signal
import sys
import zoneinfo
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.models.weights.folder import models_folder
from effort import SOAK, examples
from new_stores import copied_stores
from services import in_ci

if os.environ.get("FABRIC_TEST_STORE") == "postgres":
    from on_postgres import (  # noqa: F401 - a hook and fixtures
        pytest_collection_modifyitems,
        store_cluster,
        store_database,
        store_in_postgres,
        store_url,
    )

# A busy machine is no failure: tests that promise a time measure it themselves.
for profile in ("commit", "soak"):
    settings.register_profile(
        profile, max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
settings.load_profile("soak" if SOAK else "commit")


def pytest_configure() -> None:
    """Heed signals that we were started to ignore, as jobs in the background are: what tests start would inherit it.

    Zones are those of the package, as in the product: those of a machine differ, in names and in age.
    """
    zoneinfo.reset_tzpath(to=())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def pytest_collection_finish() -> None:
    """Look for garbage seldom, and not in what stays to the end: all modules and tests. It took a fifth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def pytest_report_header() -> str:
    """Say on which machine this ran, and what a missing service does there."""
    missing = "fails its tests" if in_ci() else "skips its tests"
    return f"machine: {platform.system()} {platform.machine()}; a missing service {missing}"


@pytest.fixture(scope="session", autouse=True)
def data_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Make keys in a folder of the tests' own, never in the home of whoever runs them. Models stay where they are."""
    with pytest.MonkeyPatch.context() as patch:
        with suppress(ConfigError):
            patch.setenv("FABRIC_MODELS_DIR", str(models_folder(os.environ)))
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data-home")))
        if Path(shutil.which("python3") or "").parent.name == "shims":
            # A version manager's script looks for the interpreter anew each time: 150 ms of processor time.
            patch.setenv("PATH", str(Path(sys.executable).resolve().parent), prepend=os.pathsep)
        yield


@pytest.fixture(scope="module", autouse=True)
def copied_new_stores(request: pytest.FixtureRequest) -> Iterator[None]:
    """Make new stores as copies of an empty one, but where stores are what is tested."""
    if SOAK or "persistence" in request.path.parts:
        yield
    else:
        with copied_stores():
            yield


@pytest.fixture(autouse=True)
def stores_in_memory() -> Iterator[None]:
    """Close the stores that a test has opened in memory."""
    yield
    if "memory_storage" in sys.modules:
        sys.modules["memory_storage"].close_stores()
