"""What every Limiter promises, wherever it counts."""

import asyncio

from agent_fabric.application.ports.limits import Limiter, Rate
from agent_fabric.testing.fakes import FrozenClock

THREE_A_MINUTE = Rate(3, 60)


class LimiterContract:
    """Subclasses give the fixtures `limiter` and `clock`, the time that it counts by."""

    async def test_as_many_as_the_rate_says_are_allowed_and_the_next_is_not(self, limiter: Limiter) -> None:
        standings = [await limiter.hit("ada read", THREE_A_MINUTE) for _ in range(4)]
        assert [each.allowed for each in standings] == [True, True, True, False]
        assert [each.remaining for each in standings] == [2, 1, 0, 0]

    async def test_it_says_how_long_to_wait_and_means_it(self, limiter: Limiter, clock: FrozenClock) -> None:
        for _ in range(4):
            standing = await limiter.hit("ada read", THREE_A_MINUTE)
            clock.time += 5
        assert standing.reset_s == 45
        clock.time += 39.9
        assert not (await limiter.hit("ada read", THREE_A_MINUTE)).allowed
        clock.time += 0.2
        assert (await limiter.hit("ada read", THREE_A_MINUTE)).allowed

    async def test_keys_do_not_know_of_each_other(self, limiter: Limiter) -> None:
        for _ in range(4):
            await limiter.hit("ada read", THREE_A_MINUTE)
        assert (await limiter.hit("ada runs", THREE_A_MINUTE)).remaining == 2
        assert (await limiter.hit("bob read", THREE_A_MINUTE)).remaining == 2

    async def test_looking_counts_nothing(self, limiter: Limiter) -> None:
        assert (await limiter.look("ada read", THREE_A_MINUTE)).remaining == 3
        for _ in range(3):
            await limiter.hit("ada read", THREE_A_MINUTE)
        for _ in range(3):
            assert not (await limiter.look("ada read", THREE_A_MINUTE)).allowed

    async def test_what_is_given_back_may_be_used_again(self, limiter: Limiter) -> None:
        for _ in range(3):
            await limiter.hit("ada login", THREE_A_MINUTE)
        await limiter.hit("ada login", THREE_A_MINUTE, cost=-1)
        assert (await limiter.hit("ada login", THREE_A_MINUTE)).allowed
        assert not (await limiter.hit("ada login", THREE_A_MINUTE)).allowed

    async def test_nobody_can_save_up_by_giving_back(self, limiter: Limiter) -> None:
        for _ in range(5):
            await limiter.hit("ada login", THREE_A_MINUTE, cost=-1)
        standings = [await limiter.hit("ada login", THREE_A_MINUTE) for _ in range(4)]
        assert [each.allowed for each in standings] == [True, True, True, False]

    async def test_of_many_at_once_as_many_are_allowed_as_the_rate_says(self, limiter: Limiter) -> None:
        standings = await asyncio.gather(*(limiter.hit("ada runs", THREE_A_MINUTE) for _ in range(100)))
        assert sum(each.allowed for each in standings) == 3

    async def test_any_name_can_be_counted(self, limiter: Limiter) -> None:
        for key in ("", "x" * 10_000, "ada'; DROP TABLE runs; --", "日本 🎉", "\x00", "half \ud800"):
            assert (await limiter.hit(key, THREE_A_MINUTE)).remaining == 2
            assert (await limiter.hit(key, THREE_A_MINUTE)).remaining == 1
