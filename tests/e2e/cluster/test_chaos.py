"""The promise of a cluster, in bad weather: nothing is lost, nothing is done twice, nothing runs in two places."""

import asyncio
import random
from pathlib import Path

import pytest

from e2e.cluster.chaos import blow
from effort import effort, report

EVENTS = effort(10, 500)


@pytest.mark.slow
@pytest.mark.proves("SC-6", "SC-7", "SC-8", "SC-12")
def test_no_weather_loses_or_repeats_anything(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    told = asyncio.run(blow(tmp_path, events=EVENTS, seed=seed))
    print(told.text())
    assert told.wrong == []
    assert told.accidents == []
    report("kills, freezes and cuts in a cluster", sum(told.events.values()))
    report("runs that went through them", told.findings.runs)
