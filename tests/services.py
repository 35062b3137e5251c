"""What a test needs from its machine."""

import os

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
