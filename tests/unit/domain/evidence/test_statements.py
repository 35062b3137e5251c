"""Numbers and quotes of a summary that stand in nothing the run has seen."""

import pytest

from agent_fabric.domain.evidence.statements import MAX_MARKED, find_unsupported

SEEN = ('{"stdout": "total: 1,250 rows\\nmean 3.75\\n", "exit_code": 0}', "Count the rows in data.csv of 2026-11-17")


@pytest.mark.parametrize(
    ("summary", "marked"),
    [
        ("I wrote 269 bytes and modified it 21 times.", ("269", "21")),
        ("There are 1250 rows, mean 3.75.", ()),
        ("There are 1,250 rows.", ()),
        ("It has 3 parts and took 2 steps.", ()),
        ("See line 17 of 2026-11-17.", ()),
        ("Version v2.31 of x86-64.", ()),
        ("The mean is 3.76 of 12 values.", ("3.76", "12")),
    ],
)
def test_numbers(summary: str, marked: tuple[str, ...]) -> None:
    assert find_unsupported(summary, SEEN, (12,) if "line" in summary else ()) == marked


def test_what_was_counted_may_be_said() -> None:
    assert find_unsupported("Changed 14 files.", SEEN) == ("14",)
    assert find_unsupported("Changed 14 files.", SEEN, (14,)) == ()


@pytest.mark.parametrize(
    ("summary", "marked"),
    [
        ('It printed "total: 1,250 rows".', ()),
        ('It printed "TOTAL:  1,250 rows."', ()),
        ("It printed “mean 3.75”.", ()),
        ('It printed "all is perfectly well".', ("all is perfectly well",)),
        ("It ran `make deploy`.", ("make deploy",)),
        ("It ran `data.csv`.", ()),
        ('A short "yes" is nothing.', ()),
    ],
)
def test_quotes(summary: str, marked: tuple[str, ...]) -> None:
    assert find_unsupported(summary, SEEN) == marked


def test_only_so_many_are_marked() -> None:
    assert len(find_unsupported(" ".join(str(n) for n in range(100, 200)), ())) == MAX_MARKED


def test_a_huge_summary_is_read_quickly() -> None:
    assert find_unsupported("9" * 100_000 + ' "' * 50_000, SEEN) != ()
