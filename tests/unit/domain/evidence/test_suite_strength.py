"""How much tests check, before and after."""

import pytest

from agent_fabric.domain.evidence.suite_strength import TestStrength, lost_between, replaces_any, strength_of

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
        (
            "self.assertEqual(add(1, 2), 3)",
            "self.skipTest('x'); self.assertEqual(add(1, 2), 3)",
            "more tests are left out",
        ),
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


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        self.assertEqual(add(1, 2), 3)", "        return\n        self.assertEqual(add(1, 2), 3)"),
        ("        self.assertEqual(add(1, 2), 3)", "        if False:\n            self.assertEqual(add(1, 2), 3)"),
        ("        self.assertEqual(add(1, 2), 3)", "        while 0:\n            self.assertEqual(add(1, 2), 3)"),
        ("self.assertEqual(add(1, 2), 3)", "self.assertTrue(add(1, 2) == 3 or True)"),
        ("self.assertEqual(add(1, 2), 3)", "assert add(1, 2) == 3 or 1"),
        ("self.assertEqual(add(1, 2), 3)", "assert (add(1, 2) == 3, 'a pair is always true')"),
        ("self.assertEqual(add(1, 2), 3)", "assert add(1, 2) == add(1, 2)"),
        ("add(1, 2), 3)", "add(1, 2), add(1, 2))"),
        ("self.assertEqual(add(1, 2), 3)", "self.assertEqual(3, 3)"),
        (
            "        self.assertEqual(add(1, 2), 3)",
            "        try:\n            self.assertEqual(add(1, 2), 3)\n        except AssertionError: pass",
        ),
        (
            "        self.assertEqual(add(1, 2), 3)",
            "        try:\n            self.assertEqual(add(1, 2), 3)\n        except:\n            print('well')",
        ),
        (
            "        self.assertEqual(add(1, 2), 3)",
            "        with self.assertRaises(AssertionError):\n            self.assertEqual(add(1, 2), 3)",
        ),
        (
            "        self.assertEqual(add(1, 2), 3)",
            "        with self.assertRaises(Exception):\n            self.assertEqual(add(1, 2), 3)",
        ),
        (
            "        self.assertEqual(add(1, 2), 3)",
            "        with suppress(Exception):\n            self.assertEqual(add(1, 2), 3)",
        ),
        ("self.assertEqual(add(1, 2), 3)", "'self.assertEqual(add(1, 2), 3)'"),
    ],
)
def test_a_check_that_is_not_reached_or_always_holds_is_none(old: str, new: str) -> None:
    assert lost(CASE.replace(old, new)) == ("1 check of 2",)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("class Calc(unittest.TestCase)", "class Calc", "0 tests of 2"),
        ("class Calc(unittest.TestCase):", "class Calc(unittest.TestCase):\n    __test__ = False\n", "0 tests of 2"),
        (
            "        self.assertEqual(add(0, 0), 0)",
            "        self.assertEqual(add(0, 0), 0)\n\n\ndel Calc",
            "0 tests of 2",
        ),
        ("    def test_add(self)", "    @pytest.fixture\n    def test_add(self)", "1 test of 2"),
        ("    def test_zero", "    def test_add", "1 test of 2"),
        ("class Calc", "if add(1, 2) == 3:\n  class Calc", "0 tests of 2"),
    ],
)
def test_a_test_that_nobody_calls_is_none(old: str, new: str, told: str) -> None:
    assert told in lost(CASE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.assertEqual(add(1, 2), 3)", "with self.assertRaises(ValueError):\n            add('a', None)"),
        ("self.assertEqual(add(1, 2), 3)", "with self.assertRaises(Exception):\n            add('a', None)"),
        ("self.assertEqual(add(1, 2), 3)", "for n in (1, 2):\n            assert add(n, 0) == n"),
        ("self.assertEqual(add(1, 2), 3)", "if add(1, 2) != 3:\n            self.fail('no')"),
        ("self.assertEqual(add(1, 2), 3)", "match add(1, 2):\n            case x:\n                assert x == 3"),
        (
            "        self.assertEqual(add(1, 2), 3)",
            "        try:\n            add(1)\n        except TypeError: return\n        self.fail('no error')",
        ),
        (
            "        self.assertEqual(add(1, 2), 3)",
            "        try:\n            add(1)\n        except Exception as why:\n            assert 'b' in str(why)",
        ),
        ("self.assertEqual(add(1, 2), 3)", "add(1, 2).should.be(3)"),
        ("class Calc(unittest.TestCase)", "class TestCalc"),
        ("class Calc(unittest.TestCase)", "class Calc(SomeCase)"),
    ],
)
def test_a_check_in_other_words_is_one(old: str, new: str) -> None:
    assert lost(CASE.replace(old, new)) == ()


def test_what_is_no_python_is_counted_by_its_lines() -> None:
    assert strength_of("test_calc.py", "def test_add():\n    assert add(1, 2) == 3\n  print 'old'\n") == TestStrength(
        1, 1, 0
    )


@pytest.mark.parametrize(
    ("text", "replaces"),
    [
        ("import calc\n\ncalc.add = lambda a, b: a + b\n", True),
        ("import calc\n\ncalc.add = right\n", True),
        ("import pkg.calc\n\npkg.calc.add = right  # better\n", True),
        ("setattr(calc, 'add', right)\n", True),
        ("    monkeypatch.setattr('calc.add', right)\n", True),
        ("    with patch('calc.add', right):\n", True),
        ("    mock.patch.object(calc, 'add').start()\n", True),
        ("sys.modules['calc'] = fake\n", True),
        ("# calc.add = right\n", False),
        ("calc.DEBUG = True\n", False),
        ("calc.LIMIT = 3  # enough\n", False),
        ("calc.NAME = 'x'\n", False),
        ("other.add = right\n", False),
        ("result = calc.add == right\n", False),
        ("sys.path.insert(0, '.')\n", False),
    ],
)
def test_settings_may_replace_what_is_tested(text: str, replaces: bool) -> None:
    assert replaces_any(text, frozenset({"calc"})) is replaces
    assert not replaces_any(text, frozenset())
