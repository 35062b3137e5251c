"""How much tests check, before and after."""

import pytest

from agent_fabric.domain.test_strength import TestStrength, lost_between, strength_of

CASE = """\
import unittest
from calc import add


class Calc(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(1, 2), 3)

    def test_zero(self):
        self.assertEqual(add(0, 0), 0)
"""


def lost(after: str, path: str = "test_calc.py", before: str = CASE) -> tuple[str, ...]:
    return lost_between([strength_of(path, before)], [strength_of(path, after)])


def test_tests_and_checks_are_counted() -> None:
    assert strength_of("test_calc.py", CASE) == TestStrength(tests=2, checks=2, left_out=0)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("self.assertEqual(add(1, 2), 3)", "pass", "1 check of 2"),
        ("self.assertEqual(add(1, 2), 3)", "self.assertTrue(True)", "1 check of 2"),
        ("self.assertEqual(add(1, 2), 3)", "assert True", "1 check of 2"),
        ("self.assertEqual(add(1, 2), 3)", "pass  # self.assertEqual(add(1, 2), 3)", "1 check of 2"),
        ("        self.assertEqual(add(1, 2), 3)", "        # self.assertEqual(add(1, 2), 3)", "1 check of 2"),
        ("def test_add", "def add", "1 test of 2"),
        ("    def test_add", "    @unittest.skip('later')\n    def test_add", "more tests are left out"),
        ("    def test_add", "    @unittest.expectedFailure\n    def test_add", "more tests are left out"),
        ("self.assertEqual(add(1, 2), 3)", "self.skipTest('x'); self.assertEqual(1, 2)", "more tests are left out"),
    ],
)
def test_less_than_before_is_told(old: str, new: str, told: str) -> None:
    assert lost(CASE.replace(old, new)) == (told,)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("add", "plus"),
        ("self.assertEqual(add(1, 2), 3)", "assert add(1, 2) == 3"),
        ("add(1, 2), 3)", "add(1, 2), 3, 'skip nothing')"),
        ("    def test_zero", "    def test_skipped_lines(self):\n        assert add(1, 1) == 2\n\n    def test_zero"),
    ],
)
def test_as_much_as_before_is_no_loss(old: str, new: str) -> None:
    assert lost(CASE.replace(old, new).replace("def test_plus", "def test_add")) == ()


def test_tests_that_move_to_another_file_are_not_lost() -> None:
    gone, moved = strength_of("test_calc.py", ""), strength_of("tests/test_calc.py", CASE)
    assert lost_between([strength_of("test_calc.py", CASE), TestStrength()], [gone, moved]) == ()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("conftest.py", "collect_ignore = ['test_calc.py']"),
        ("tests/conftest.py", "def pytest_collection_modifyitems(items):\n    items.clear()"),
        ("pytest.ini", "[pytest]\naddopts = -k zero"),
    ],
)
def test_settings_that_leave_tests_out_are_told(path: str, text: str) -> None:
    assert lost(text, path, before="") == ("more tests are left out",)


def test_a_fixture_leaves_nothing_out() -> None:
    assert lost("import pytest\n\n\n@pytest.fixture\ndef one():\n    return 1\n", "conftest.py", before="") == ()


@pytest.mark.parametrize(
    ("path", "text", "strength"),
    [
        ("calc_test.go", 'func TestAdd(t *testing.T) {\n\tif x {\n\t\tt.Errorf("no")\n\t}\n}\n', TestStrength(1, 1)),
        ("calc.test.js", "test('adds', () => {\n  expect(add(1, 2)).toBe(3);\n});\n", TestStrength(1, 1)),
        ("calc.test.js", "it.skip('adds', () => {\n  expect(true).toBe(true);\n});\n", TestStrength(0, 0, 1)),
    ],
)
def test_other_languages(path: str, text: str, strength: TestStrength) -> None:
    assert strength_of(path, text) == strength
