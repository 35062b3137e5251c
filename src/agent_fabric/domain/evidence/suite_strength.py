"""How much the tests of a folder check, counted in their text: enough to see that they check less than before."""

import re
from collections import Counter
from collections.abc import Iterable

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.evidence.python_suites import read_checks, read_tests
from agent_fabric.domain.evidence.suite_files import is_test_file
from agent_fabric.domain.plural import count_of

_COMMENT = re.compile(r"(?:^|(?<=\s))(?:#(?!\[)|//).*$|^\s*\*.*$")
_TEST = re.compile(
    r"^\s*(?:async\s+)?(?:def\s+test|func\s+(?:Test|Fuzz)|(?:it|test)(?:\.each\([^)]*\))?\s*\(|@Test\b|#\[(?:\w+::)?test)"
)
_CHECK = re.compile(
    r"\b(?:assert|expect|should|require|raises|verify|fail|check|EXPECT_|ASSERT_|t\.(?:Error|Fatal|Fail))",
    re.IGNORECASE,
)
_IDLE_CHECK = re.compile(
    r"^\s*(?:assert\s+(?:True|1|not\s+False)\b\s*(?:,.*)?$|(?:self\.)?assert(?:True|Equals?)\(\s*(?:True|1\s*,\s*1|True\s*,\s*True)"
    r"|expect\(\s*(true|1)\s*\)\.\w+\(\s*(?:true|1)?\s*\)|assert!\(true\))"
)
_LEFT_OUT = re.compile(
    r"@(?:\w+\.)*skip|\bmark\.skip|\.skip\(|\bskipTest\b|\bt\.Skip|xfail|expectedFailure|\bx(?:it|test|describe)\b|\b(?:it|test|describe)\.(?:only|todo)\b|@(?:Ignore|Disabled)\b"
    r"|#\[ignore|collect_ignore|pytest_(?:collection|runtest|ignore|pycollect)|deselect|--ignore|testPathIgnore|\baddopts\b.*\s-m\b"
    r"|norecursedirs|python_files|-k\b|\bload_tests\b|\bSkipTest\b|importorskip|__test__\s*="
)


@dataclass(frozen=True, slots=True)
class TestStrength:
    """What tests check."""

    __test__ = False  # no class of tests, whatever its name says

    tests: int = 0
    checks: int = 0
    left_out: int = 0
    """Marks because of which tests are not executed, or may fail."""

    def __add__(self, other: "TestStrength") -> "TestStrength":
        """Return both together."""
        return TestStrength(self.tests + other.tests, self.checks + other.checks, self.left_out + other.left_out)


def strength_of(path: str, text: str) -> TestStrength:
    """Count what a file of tests, or of their settings, checks."""
    lines = [_COMMENT.sub("", line) for line in text.splitlines()]
    left_out = sum(_LEFT_OUT.search(line) is not None for line in lines)
    if not is_test_file(path):
        return TestStrength(left_out=left_out)
    if path.endswith(".py") and (found := read_tests(text)) is not None:
        return TestStrength(found.tests, found.checks, left_out)
    checks = sum(_CHECK.search(line) is not None and not _IDLE_CHECK.match(line) for line in lines)
    return TestStrength(sum(_TEST.match(line) is not None for line in lines), checks, left_out)


def has_other_checks(path: str, before: str, after: str) -> bool:
    """Tell whether checks that a file of tests had are gone, or expect something else."""

    def checks(text: str) -> Counter[str]:
        found = read_checks(text) if path.endswith(".py") else None
        lines = [_COMMENT.sub("", line).strip() for line in text.splitlines()] if found is None else found
        return Counter("".join(line.split()) for line in lines if found is not None or _CHECK.search(line))

    return bool(checks(before) - checks(after))


def replaces_any(text: str, modules: frozenset[str], *, patching: bool = True) -> bool:
    """Tell whether something is put in the place of a function of one of these modules.

    With `patching`, also for a while: a test may well do that to what is around the function that it tests.
    """
    named = "|".join(map(re.escape, sorted(modules)))
    replacing = rf"^\s*(?:\w+\.)*(?:{named})(?:\.\w+)+\s*=\s*(?:lambda\b|\w+\s*(?:#.*)?$)"
    if patching:
        replacing += (
            rf"|\bsetattr\(\s*[\"']?(?:{named})\b|\bsys\.modules\[[\"'](?:{named})\b"
            rf"|\bpatch(?:\.object|\.multiple)?\(\s*[\"']?(?:{named})\b"
        )
    constant = re.compile(r"=\s*(?:True|False|None|\d+)\s*(?:#.*)?$")
    lines = (_COMMENT.sub("", line) for line in text.splitlines())
    return bool(named) and any(re.search(replacing, line) and not constant.search(line) for line in lines)


def lost_between(before: Iterable[TestStrength], after: Iterable[TestStrength]) -> tuple[str, ...]:
    """Say in words what tests check less than before; nothing: they do not."""
    was, is_ = sum(before, TestStrength()), sum(after, TestStrength())
    lost = []
    if is_.tests < was.tests:
        lost.append(f"{count_of(is_.tests, 'test')} of {was.tests}")
    if is_.checks < was.checks:
        lost.append(f"{count_of(is_.checks, 'check')} of {was.checks}")
    if is_.left_out > was.left_out:
        lost.append("more tests are left out")
    return tuple(lost)
