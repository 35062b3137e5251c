"""Pulling the plug on a workflow, again and again, costs nothing but time."""

import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from e2e.workflow_kill_loop import STEPS, loop

KILLS = int(os.environ.get("FABRIC_TEST_WORKFLOW_KILLS", "70"))


@pytest.mark.slow
@pytest.mark.proves("A33-059", "A33-060")
def test_kills_at_any_moment_repeat_and_lose_no_step_of_a_workflow(tmp_path: Path) -> None:
    assert STEPS == 40
    seed = random.randrange(2**32)
    print(f"seeds {seed} and {seed + 1}")
    folders = [tmp_path / "one", tmp_path / "two"]
    with ThreadPoolExecutor() as pool:
        findings = list(pool.map(lambda folder, seed: loop(folder, KILLS // 2, seed), folders, (seed, seed + 1)))
    for found in findings:
        print(found.text())
        assert found.problems == []
    assert sum(found.kills for found in findings) >= KILLS // 2 * 2
    assert sum(found.asked for found in findings), "no step was ever in doubt"
    assert sum(found.ran_again for found in findings), "no idempotent step was ever under way"
    assert sum(found.retries for found in findings)
    assert any(found.resume_s for found in findings), "no run was ever resumed"
