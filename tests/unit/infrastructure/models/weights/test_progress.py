"""What a person sees while weights arrive."""

from agent_fabric.infrastructure.models.weights.mirrors import Progress


class Watch:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_texts_have_percent_megabytes_speed_and_mirror() -> None:
    shown: list[str] = []
    watch = Watch()
    progress = Progress(shown.append, about="m from the hub", total=200_000_000, now=watch)
    progress.report(0)
    watch.now += 2
    progress.report(50_000_000)
    assert shown == ["m from the hub: 0 %, 0 of 200 MB", "m from the hub: 25 %, 50 of 200 MB, 25.0 MB/s"]


def test_there_are_at_most_five_texts_in_a_second() -> None:
    shown: list[str] = []
    watch = Watch()
    progress = Progress(shown.append, about="m", total=1000, now=watch)
    for count in range(1000):
        watch.now += 0.001
        progress.report(count)
    assert 1 <= len(shown) <= 5


def test_the_speed_is_that_of_the_last_seconds_and_never_negative() -> None:
    shown: list[str] = []
    watch = Watch()
    progress = Progress(shown.append, about="m", total=1_000_000_000, now=watch)
    for second in range(20):
        progress.report(second * 10_000_000)
        watch.now += 1
    for second in range(20):
        progress.report(190_000_000 + second * 1_000_000)
        watch.now += 1
    assert shown[-1].endswith(", 1.0 MB/s")
    progress.report(0)
    assert shown[-1].endswith("0 of 1000 MB")
