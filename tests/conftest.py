"""What all tests share."""

import os
import platform
from collections.abc import Iterator
from contextlib import suppress

import pytest

from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.llm.weights.folder import models_folder
from services import in_ci


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
        yield
