"""Waves: the canary first, then growing shares."""

import pytest

from agent_fabric.domain.fleet.plans import wave_sizes


@pytest.mark.proves("FL-24")
@pytest.mark.parametrize(
    ("count", "canary", "waves", "sizes"),
    [
        (30, 1, ["10%", "50%", "100%"], [1, 2, 12, 15]),
        (1, 1, ["10%", "50%", "100%"], [1]),
        (3, 0, ["100%"], [3]),
        (2, 5, ["10%", "100%"], [2]),
        (0, 1, ["100%"], []),
    ],
)
def test_every_machine_is_in_one_wave(count: int, canary: int, waves: list[str], sizes: list[int]) -> None:
    assert wave_sizes(count, canary, waves) == sizes
    assert sum(sizes) == count


@pytest.mark.parametrize("waves", [["50%"], ["50%", "10%", "100%"], ["x"], [], ["0%", "100%"], ["101%"]])
def test_waves_that_do_not_grow_to_all_are_refused(waves: list[str]) -> None:
    with pytest.raises(ValueError, match=r"."):
        wave_sizes(10, 1, waves)
