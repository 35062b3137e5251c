"""Test runners are taken at their word about how many tests they have executed."""

import pytest

from agent_fabric.domain.evidence.suite_counts import LeftOut, count_told_in, left_out_in
from agent_fabric.domain.tools.findings import TestCount

SAID = {
    "pytest -q": ("..   [100%]\n2 passed in 0.01s\n", (2, 2, 0)),
    "pytest": ("====== 1 failed, 2 passed, 3 skipped, 1 warning in 0.08s ======\n", (3, 2, 1)),
    "pytest with an error": ("=== 1 passed, 2 errors in 1.08s ===\n", (3, 1, 2)),
    "pytest in colours": ("\x1b[32m\x1b[1m4 passed\x1b[0m\x1b[32m in 0.01s\x1b[0m\n", (4, 4, 0)),
    "pytest for more than a minute": ("=== 7 passed in 75.32s (0:01:15) ===\n", (7, 7, 0)),
    "pytest, nothing chosen": ("2 deselected in 0.09s\n", (0, 0, 0)),
    "pytest, nothing found": ("=== no tests ran in 0.00s ===\n", (0, 0, 0)),
    "pytest, all skipped": ("3 skipped in 0.01s\n", (0, 0, 0)),
    "pytest, expected to fail": ("1 passed, 2 xfailed, 1 xpassed in 0.01s\n", (2, 2, 0)),
    "unittest, expected to fail": ("Ran 2 tests in 0.001s\n\nOK (expected failures=2)\n", (0, 0, 0)),
    "unittest": ("...\n-----\nRan 3 tests in 0.001s\n\nOK\n", (3, 3, 0)),
    "unittest, failing": ("Ran 3 tests in 0.001s\n\nFAILED (failures=1, skipped=1)\n", (2, 1, 1)),
    "unittest, nothing found": ("-----\nRan 0 tests in 0.000s\n\nOK\n", (0, 0, 0)),
    "unittest of Python 3.12, nothing found": ("Ran 0 tests in 0.000s\n\nNO TESTS RAN\n", (0, 0, 0)),
    "go test": ("ok  \texample.org/a\t0.003s\nok  \texample.org/b\t(cached)\n", (2, 2, 0)),
    "go test -v": (
        "=== RUN   TestA\n--- PASS: TestA (0.00s)\n--- FAIL: TestB (0.00s)\nFAIL\texample.org/a\t0.1s\n",
        (2, 1, 1),
    ),
    "go test without files": ("?   \texample.org/a\t[no test files]\n", (0, 0, 0)),
    "go test -run nothing": ("ok  \texample.org/a\t0.002s [no tests to run]\n", (0, 0, 0)),
    "cargo": (
        "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n"
        "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n",
        (3, 3, 0),
    ),
    "cargo without tests": ("test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured;\n", (0, 0, 0)),
    "node, TAP": ("1..2\n# tests 2\n# suites 0\n# pass 2\n# fail 0\n", (2, 2, 0)),
    "node, for people": ("ℹ tests 2\nℹ pass 1\nℹ fail 1\n", (2, 1, 1)),
    "jest": ("Test Suites: 1 failed, 1 total\nTests:       1 failed, 3 passed, 4 total\n", (4, 3, 1)),
    "vitest": (" Test Files  1 passed (1)\n      Tests  3 passed (3)\n", (3, 3, 0)),
    "vitest, failing": ("      Tests  1 failed | 2 passed (3)\n", (3, 2, 1)),
    "maven": (
        "[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.03 s - in A\n"
        "[INFO] Results:\n[INFO] Tests run: 5, Failures: 1, Errors: 0, Skipped: 1\n",
        (4, 3, 1),
    ),
    "gradle": ("> Task :compileJava\n> Task :test\nBUILD SUCCESSFUL in 2s\n", (1, 1, 0)),
    "gradle, failing": ("> Task :app:test FAILED\n5 tests completed, 1 failed\n", (5, 4, 1)),
    "gradle without tests": ("> Task :test NO-SOURCE\nBUILD SUCCESSFUL in 2s\n", (0, 0, 0)),
    "gradle, nothing executed": ("> Task :test UP-TO-DATE\nBUILD SUCCESSFUL in 2s\n", (0, 0, 0)),
    "ctest": ("100% tests passed, 0 tests failed out of 3\n", (3, 3, 0)),
    "ctest without tests": ("No tests were found!!!\n", (0, 0, 0)),
    "rspec": ("3 examples, 1 failure, 1 pending\n", (2, 1, 1)),
    "phpunit": ("OK (3 tests, 5 assertions)\n", (3, 3, 0)),
    "phpunit, failing": ("Tests: 3, Assertions: 5, Failures: 1, Skipped: 1.\n", (2, 1, 1)),
    "phpunit without tests": ("No tests executed!\n", (0, 0, 0)),
    "mocha": ("  3 passing (12ms)\n  1 failing\n", (4, 3, 1)),
    "dotnet": ("Passed!  - Failed:     0, Passed:     3, Skipped:     0, Total:     3, Duration: 9 ms\n", (3, 3, 0)),
    "deno": ("ok | 3 passed | 0 failed (12ms)\n", (3, 3, 0)),
    "bun": (" 3 pass\n 0 fail\n 3 expect() calls\n", (3, 3, 0)),
    "two runners": ("2 passed in 0.01s\nRan 3 tests in 0.001s\n\nOK\n", (5, 5, 0)),
}


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("3 passed, 2 skipped, 1 xfailed, 4 deselected, 1 warning in 0.01s\n", LeftOut(skipped=3, deselected=4)),
        ("===== 1 passed, 1 deselected in 0.01s =====\n", LeftOut(deselected=1)),
        ("Ran 5 tests in 0.001s\n\nOK (skipped=2, expected failures=1)\n", LeftOut(skipped=3)),
        ("Ran 5 tests in 0.001s\n\nOK\n", LeftOut()),
        ("3 deselected\n", LeftOut()),
    ],
)
def test_a_runner_tells_how_many_it_has_left_out(text: str, left_out: LeftOut) -> None:
    assert left_out_in(text) == left_out


@pytest.mark.parametrize("runner", SAID)
def test_a_runner_tells_how_many_tests_it_has_executed(runner: str) -> None:
    text, (ran, passed, failed) = SAID[runner]
    assert count_told_in(f"some output before\n{text}") == TestCount(ran=ran, passed=passed, failed=failed)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "all tests passed",
        "OK",
        "3 passed",
        "I ran 3 tests and all passed in no time",
        "ok  done",
        "Tests: see below",
        "FAIL to read",
        "10 failing things were found",
    ],
)
def test_other_words_are_no_runners(text: str) -> None:
    assert count_told_in(text) is None
