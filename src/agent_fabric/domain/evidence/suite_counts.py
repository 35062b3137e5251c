"""How many tests a test runner says that it has executed.

Exit status 0 alone does not say that a test was executed: a runner that finds none may end well, and a file of tests
that no runner calls does. So the runner's own words are read.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from agent_fabric.domain.tools.findings import TestCount

_MAX_CHARS: Final = 200_000
"""Of an output, from its end: summaries stand there."""
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def count_told_in(output: str) -> TestCount | None:
    """Return what the runners whose words stand in an output have executed, together; None: no runner speaks."""
    text = _COLOURS.sub("", output[-_MAX_CHARS:])
    told = [count for read in _READERS if (count := read(text)) is not None]
    return sum(told[1:], told[0]) if told else None


class LeftOut(NamedTuple):
    """Tests that a runner of Python knows of and has not executed."""

    skipped: int = 0
    """Also those that are expected to fail."""
    deselected: int = 0
    """Left out because of an option, wherever that stands."""


NONE_LEFT_OUT: Final = LeftOut()


def left_out_in(output: str) -> LeftOut:
    """Return what a runner says that it has left out."""
    text = _COLOURS.sub("", output[-_MAX_CHARS:])
    skipped = deselected = 0
    for found in _PYTEST.finditer(text):
        told = {word: int(number) for number, word in _pairs(found[1])}
        skipped += told.get("skipped", 0) + told.get("xfailed", 0)
        deselected += told.get("deselected", 0)
    for found in _UNITTEST.finditer(text):
        notes = dict(re.findall(r"(\w[\w ]*)=(\d+)", found[2] or ""))
        skipped += sum(int(notes.get(each, 0)) for each in ("skipped", "expected failures"))
    return LeftOut(skipped, deselected)


_PYTEST_FILE: Final = re.compile(r"^(\S+\.py) ([.sxXFE]+)\s*(?:\[ *\d+%\])?$", re.MULTILINE)
_PYTEST_TEST: Final = re.compile(r"^(\S+\.py)::\S.*? (?:PASSED|FAILED|SKIPPED|XFAIL|XPASS|ERROR)\b", re.MULTILINE)
_UNITTEST_TEST: Final = re.compile(
    r"^test\w* \((\w+(?:\.\w+)*?)(?:\.[A-Z]\w*)(?:\.\w+)?\)(?:\n.*)? \.\.\. ", re.MULTILINE
)


def files_named_in(output: str) -> tuple[str, ...]:
    """Return the files of which a runner of Python says that it has executed their tests; none: not all are named."""
    text = _COLOURS.sub("", output[-_MAX_CHARS:])
    files: dict[str, int] = {}
    for path, signs in _PYTEST_FILE.findall(text):
        files[path] = files.get(path, 0) + len(signs)
    for path in _PYTEST_TEST.findall(text):
        files[path] = files.get(path, 0) + 1
    for module in _UNITTEST_TEST.findall(text):
        path = f"{module.replace('.', '/')}.py"
        files[path] = files.get(path, 0) + 1
    told, left = count_told_in(text), left_out_in(text)
    complete = told is not None and sum(files.values()) == told.ran + left.skipped
    return tuple(files) if complete else ()


def _count(passed: int, failed: int) -> TestCount:
    return TestCount(ran=passed + failed, passed=passed, failed=failed)


def _sum_counts(counts: Iterator[TestCount]) -> TestCount | None:
    total: TestCount | None = None
    for each in counts:
        total = each if total is None else total + each
    return total


# ── one reader for each runner ────────────────────────────────────────────────────────────────────────────────────────

_WORD = r"(?:failed|passed|skipped|deselected|xfailed|xpassed|warnings?|errors?|rerun|subtests passed)"
_PYTEST: Final = re.compile(rf"^=*\s?((?:\d+ {_WORD}(?:, )?)+) in [\d.]+s", re.MULTILINE)
_PYTEST_NONE: Final = re.compile(r"^=*\s?no tests ran in [\d.]+s|^=*\s?no tests collected", re.MULTILINE)


def _pytest(text: str) -> TestCount | None:
    def counts() -> Iterator[TestCount]:
        for found in _PYTEST.finditer(text):
            told = {word.rstrip("s") if word.startswith("error") else word: int(n) for n, word in _pairs(found[1])}
            good = told.get("passed", 0) + told.get("xpassed", 0)  # one that may fail shows nothing
            yield _count(good, told.get("failed", 0) + told.get("error", 0))

    return _sum_counts(counts()) or (_count(0, 0) if _PYTEST_NONE.search(text) else None)


def _pairs(summary: str) -> Iterator[tuple[str, str]]:
    for part in summary.split(", "):
        number, _, word = part.strip().partition(" ")
        yield number, word


_UNITTEST: Final = re.compile(
    r"^Ran (\d+) tests? in [\d.]+s\s+(?:OK|NO TESTS RAN|FAILED)?(?: ?\(([^)]*)\))?", re.MULTILINE
)


def _unittest(text: str) -> TestCount | None:
    def counts() -> Iterator[TestCount]:
        for found in _UNITTEST.finditer(text):
            notes = dict(re.findall(r"(\w[\w ]*)=(\d+)", found[2] or ""))
            failed = sum(int(notes.get(each, 0)) for each in ("failures", "errors", "unexpected successes"))
            ran = max(0, int(found[1]) - sum(int(notes.get(each, 0)) for each in ("skipped", "expected failures")))
            yield _count(max(0, ran - failed), min(ran, failed))

    return _sum_counts(counts())


_GO: Final = re.compile(r"^(ok|FAIL|\?)\s+(?:\t)?[\w./~-]+(?:\s+[\d.]+s|\s+\(cached\))?(.*)$", re.MULTILINE)
_GO_TEST: Final = re.compile(r"^[ \t]*--- (PASS|FAIL): ", re.MULTILINE)


def _go(text: str) -> TestCount | None:
    packages = [found for found in _GO.finditer(text) if "\t" in found[0] or "[no test" in found[0]]
    if not packages:
        return None
    tests = [found[1] for found in _GO_TEST.finditer(text)]
    executed = [found for found in packages if found[1] != "?" and "[no test" not in found[0]]
    if tests:
        return _count(tests.count("PASS"), tests.count("FAIL"))
    # Without -v a package of tests has one line, and at least one test.
    return _count(sum(found[1] == "ok" for found in executed), sum(found[1] == "FAIL" for found in executed))


_NODE_PASS: Final = re.compile(r"^(?:#|ℹ) pass (\d+)$", re.MULTILINE)
_NODE_FAIL: Final = re.compile(r"^(?:#|ℹ) fail (\d+)$", re.MULTILINE)
_JEST: Final = re.compile(r"^[ \t]*Tests:?\s+((?:\d+ \w+(?:, | \| )?)+)", re.MULTILINE)
_GRADLE: Final = r"^(?P<ran>\d+) tests? completed(?:, (?P<failed>\d+) failed)?"
_GRADLE_TASK: Final = re.compile(
    r"^> Task :(?:[\w:-]*:)?\w*[tT]est(?: (FAILED|UP-TO-DATE|NO-SOURCE|FROM-CACHE))?$", re.MULTILINE
)
_PHPUNIT_OK: Final = re.compile(r"^OK \((\d+) tests?, \d+ assertions?\)", re.MULTILINE)
_PHPUNIT: Final = re.compile(r"^Tests: (\d+), Assertions: \d+(.*)$", re.MULTILINE)
_PHPUNIT_NONE: Final = re.compile(r"^No tests executed!", re.MULTILINE)
_MOCHA_PASS: Final = re.compile(r"^[ \t]*(\d+) passing \(", re.MULTILINE)
_MOCHA_FAIL: Final = re.compile(r"^[ \t]*(\d+) failing$", re.MULTILINE)
_BUN_PASS: Final = re.compile(r"^[ \t]*(\d+) pass$", re.MULTILINE)
_BUN_FAIL: Final = re.compile(r"^[ \t]*(\d+) fail$", re.MULTILINE)


def _summary(pattern: str, *, none: str = "") -> Callable[[str], TestCount | None]:
    """Return a reader for runners that tell all numbers in one line; `none` is what they say if there are no tests."""
    line = re.compile(pattern, re.MULTILINE)

    def counts(found: re.Match[str]) -> TestCount:
        told = {name: int(number or 0) for name, number in found.groupdict().items()}
        failed = told.get("failed", 0) + told.get("errors", 0)
        passed = told["passed"] if "passed" in told else told["ran"] - failed - told.get("skipped", 0)
        return _count(passed, failed)

    def read(text: str) -> TestCount | None:
        return _sum_counts(map(counts, line.finditer(text))) or (_count(0, 0) if none and none in text else None)

    return read


def _two(passed: re.Pattern[str], failed: re.Pattern[str]) -> Callable[[str], TestCount | None]:
    """Return a reader for runners that tell the two numbers on lines of their own."""

    def read(text: str) -> TestCount | None:
        good, bad = passed.findall(text), failed.findall(text)
        return _count(sum(map(int, good)), sum(map(int, bad))) if good or bad else None

    return read


def _jest(text: str) -> TestCount | None:
    def counts() -> Iterator[TestCount]:
        for found in _JEST.finditer(text):
            told = {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", found[1])}
            if {"passed", "failed", "skipped", "total", "todo"} & told.keys():
                yield _count(told.get("passed", 0), told.get("failed", 0))

    return _sum_counts(counts())


def _gradle(text: str) -> TestCount | None:
    if (told := _summary(_GRADLE)(text)) is not None:
        return told
    tasks = [found[1] for found in _GRADLE_TASK.finditer(text)]
    if not tasks:
        return None
    # It counts only failures; a task of tests with sources has at least one.
    return _count(sum(task is None for task in tasks), tasks.count("FAILED"))


def _phpunit(text: str) -> TestCount | None:
    if found := _PHPUNIT_OK.search(text):
        return _count(int(found[1]), 0)
    if found := _PHPUNIT.search(text):
        notes = {name: int(number) for name, number in re.findall(r"(\w+): (\d+)", found[2])}
        failed = notes.get("Failures", 0) + notes.get("Errors", 0)
        return _count(int(found[1]) - failed - notes.get("Skipped", 0), failed)
    return _count(0, 0) if _PHPUNIT_NONE.search(text) else None


_READERS: Final[tuple[Callable[[str], TestCount | None], ...]] = (
    *(_pytest, _unittest, _go, _jest, _gradle, _phpunit),
    *(_two(_NODE_PASS, _NODE_FAIL), _two(_MOCHA_PASS, _MOCHA_FAIL), _two(_BUN_PASS, _BUN_FAIL)),
    _summary(r"^test result: \w+\. (?P<passed>\d+) passed; (?P<failed>\d+) failed;"),  # cargo
    _summary(  # Maven
        r"^(?:\[\w+\] )?Tests run: (?P<ran>\d+), Failures: (?P<failed>\d+), Errors: (?P<errors>\d+), "
        r"Skipped: (?P<skipped>\d+)\s*$"
    ),
    _summary(  # CTest
        r"^\d+% tests passed, (?P<failed>\d+) tests? failed out of (?P<ran>\d+)", none="No tests were found!!!"
    ),
    _summary(r"^(?P<ran>\d+) examples?, (?P<failed>\d+) failures?(?:, (?P<skipped>\d+) pending)?"),  # RSpec
    _summary(r"Failed:\s+(?P<failed>\d+), Passed:\s+(?P<passed>\d+), Skipped:\s+\d+, Total:\s+\d+"),  # dotnet
    _summary(r"^(?:ok|FAILED) \| (?P<passed>\d+) passed(?: \([^)]*\))? \| (?P<failed>\d+) failed"),  # Deno
)
