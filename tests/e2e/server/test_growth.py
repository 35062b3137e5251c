"""A server that does runs for hours costs the same for the last as for the first."""

import statistics

import pytest

from bench_growth import MAX_GROWTH_MB, MAX_SEARCH_MS, measure
from effort import report

pytestmark = [pytest.mark.proves("SP-11"), pytest.mark.soak]

RUNS = 50_000
EVERY = 1_000
CLIENTS = 16
MAX_CPU_RATIO = 1.2
"""What a run among the last costs, beside one among the first."""


def test_memory_and_costs_stay_flat_over_many_runs_and_searches_stay_quick() -> None:
    grown = measure(runs=RUNS, clients=CLIENTS, every=EVERY, tabs=0)
    report("runs of one server, with their searches", RUNS + len(grown.searches_ms))
    costs = [row.cpu_ms for row in grown.rows]
    tenth = len(costs) // 10
    first, last = statistics.median(costs[:tenth]), statistics.median(costs[-tenth:])
    assert grown.growth_mb <= MAX_GROWTH_MB
    assert last <= MAX_CPU_RATIO * first
    assert max(grown.searches_ms) <= MAX_SEARCH_MS
