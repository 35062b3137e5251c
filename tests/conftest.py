"""What all tests share."""

import platform

from services import in_ci


def pytest_report_header() -> str:
    """Say on which machine this ran, and what a missing service does there."""
    missing = "fails its tests" if in_ci() else "skips its tests"
    return f"machine: {platform.system()} {platform.machine()}; a missing service {missing}"
