"""Whether a difference is noise: exact figures, and plain words."""

import random

import pytest

from agent_fabric.domain.evals.comparison import Conclusion, compare, sign_flip_p_value
from agent_fabric.domain.evals.intervals import Tally

RIGHT, WRONG = Tally(1, 1), Tally(0, 1)


def pairs(up: int, down: int, same: int = 0) -> list[tuple[Tally, Tally]]:
    return [(WRONG, RIGHT)] * up + [(RIGHT, WRONG)] * down + [(RIGHT, RIGHT)] * same


@pytest.mark.parametrize(
    ("up", "down", "p_value"), [(0, 0, 1.0), (3, 1, 0.625), (5, 0, 0.0625), (6, 0, 0.03125), (9, 1, 0.021484375)]
)
def test_with_one_try_of_each_case_it_is_mcnemars_exact_test(up: int, down: int, p_value: float) -> None:
    assert sign_flip_p_value(pairs(up, down, same=4)) == pytest.approx(p_value)
    assert sign_flip_p_value(pairs(down, up)) == pytest.approx(p_value)


def test_chance_alone_is_rarely_called_a_difference() -> None:
    chance = random.Random(3)
    wrong = 0
    for _ in range(400):
        drawn = [
            (
                Tally(sum(chance.random() < 0.6 for _ in range(3)), 3),
                Tally(sum(chance.random() < 0.6 for _ in range(3)), 3),
            )
            for _ in range(12)
        ]
        wrong += sign_flip_p_value(drawn) <= 0.05
    assert wrong / 400 <= 0.07


def test_many_uneven_cases_take_no_time() -> None:
    chance = random.Random(5)
    many = [(Tally(chance.randrange(n + 1), n), Tally(chance.randrange(8), 7)) for n in range(1, 90) for _ in range(10)]
    assert 0 < sign_flip_p_value(many) <= 1
    assert sign_flip_p_value(many) == sign_flip_p_value(many)


@pytest.mark.parametrize(
    ("up", "down", "same", "conclusion"),
    [
        (8, 0, 4, Conclusion.BETTER),
        (0, 8, 4, Conclusion.WORSE),
        (3, 1, 8, Conclusion.NOISE),
        (0, 0, 8, Conclusion.SAME),
        (0, 0, 0, Conclusion.NOTHING),
    ],
)
def test_the_judgement_is_a_plain_word(up: int, down: int, same: int, conclusion: Conclusion) -> None:
    series = pairs(up, down, same)
    before = {f"c{n}": pair[0] for n, pair in enumerate(series)}
    after = {f"c{n}": pair[1] for n, pair in enumerate(series)}
    found = compare(before, after, names=("old", "new"))
    assert (found.conclusion, found.ups, found.downs) == (conclusion, up, down)


def test_cases_that_changed_or_that_only_one_has_are_left_out_and_named() -> None:
    before = {"a": RIGHT, "b": RIGHT, "c": RIGHT, "e": Tally(0, 0)}
    after = {"a": WRONG, "b": WRONG, "d": RIGHT, "e": RIGHT}
    found = compare(before, after, names=("old", "new"), altered=frozenset({"b"}))
    assert found.cases == 1
    assert [change.case_id for change in found.changes] == ["a"]
    assert found.altered == ("b",)
    assert sorted(found.unmatched) == ["c", "d", "e"]
