"""What a test needs from its machine."""

import os
import shutil

import pytest


def in_ci() -> bool:
    """Whether every service is expected to be there."""
    return os.environ.get("CI", "").lower() in {"1", "true"}


def need(condition: object, reason: str) -> None:
    """Skip the test, or its module, unless the condition holds. In CI, fail it: there a gap must be seen."""
    if condition:
        return
    if in_ci():
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason, allow_module_level=True)


def need_program(name: str, package: str) -> str:
    """Return the path of a program that the test needs; without it the test is skipped, or failed in CI."""
    path = shutil.which(name)
    need(path is not None, f"needs {name}; on Debian and Ubuntu: apt install {package}")
    assert path is not None
    return path
