"""What the result of a tool shows: pages as they were read, tests that were executed, and what a success proves."""

from enum import StrEnum

from agent_fabric.domain.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One page as it was fetched: what a citation is held against."""

    url: str
    """The address that was asked for."""
    final_url: str
    """The address that answered, after redirects."""
    title: str
    content_type: str
    fetched_at: float
    """Seconds since 1970."""
    sha256: str
    """Of the bytes as they came; the run's folder keeps them under this name."""
    text: str
    """What a person would read on the page: quotes must be found here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestCount:
    """What a runner says about its tests."""

    __test__ = False  # no class of tests, whatever its name says

    ran: int
    """Executed; those that were skipped do not count."""
    passed: int
    failed: int

    def __add__(self, other: "TestCount") -> "TestCount":
        """Return both together."""
        return TestCount(ran=self.ran + other.ran, passed=self.passed + other.passed, failed=self.failed + other.failed)


class ProofKind(StrEnum):
    """What was shown; the first is the strongest."""

    TESTS = "tests"
    """Tests were executed, and all passed."""
    BUILD = "build"
    """It was built, compiled or checked."""
    PROGRAM = "program"
    """It runs, and no more."""
    MACHINE = "machine"
    """After the last change on machines, the state of each of them was read."""
    READING = "reading"
    """What it cites stands in the pages that were fetched."""
    NONE = "none"
