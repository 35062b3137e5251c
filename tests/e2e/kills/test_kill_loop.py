"""The promise of the whole product, on real processes: nothing finished is repeated, nothing is lost."""

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from e2e.kill_loop import loop
from effort import effort, report

KILLS = effort(8, 500)


@pytest.mark.slow
@pytest.mark.proves("AF-131", "AF-134", "A33-059")
def test_kills_at_any_moment_repeat_and_lose_nothing(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor() as pool:
        seed = random.randrange(2**32)
        print(f"seeds {seed} and {seed + 1}")
        findings = list(pool.map(lambda folder, seed: loop(folder, KILLS // 2, seed), folders, (seed, seed + 1)))
    for found in findings:
        print(found.text())
        assert found.repeated == []
        assert found.lost == []
    killed = sum(found.kills for found in findings)
    report("processes of runs killed", killed)
    assert killed >= KILLS // 2 * 2
    resumed = sorted(seconds for found in findings for seconds in found.resume_s)
    assert resumed, "no run was ever resumed"
