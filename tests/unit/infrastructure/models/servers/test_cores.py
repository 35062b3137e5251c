"""How many threads a model gets, on machines of every kind."""

import os
from pathlib import Path

import pytest

from agent_fabric.infrastructure.models.servers.embedded_child import usable_cores

OURS = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def machine(tmp_path: Path, *, threads_per_core: int = 1) -> Path:
    cpus = tmp_path / "cpu"
    for position, cpu in enumerate(OURS):
        topology = cpus / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True)
        first = position - position % threads_per_core
        (topology / "thread_siblings_list").write_text(
            ",".join(map(str, OURS[first : first + threads_per_core])) + "\n"
        )
    return cpus


def test_every_core_computes_when_nothing_limits_us(tmp_path: Path) -> None:
    assert usable_cores(machine(tmp_path), tmp_path / "cgroup", tmp_path / "membership") == len(OURS)


def test_two_threads_of_one_core_count_once(tmp_path: Path) -> None:
    cores = usable_cores(machine(tmp_path, threads_per_core=2), tmp_path / "cgroup", tmp_path / "membership")
    assert cores == (len(OURS) + 1) // 2


@pytest.mark.parametrize(
    ("membership", "file", "text"),
    [
        ("0::/box/inner\n", "box/inner/cpu.max", "150000 100000\n"),
        ("0::/box/inner\n", "box/cpu.max", "100000 100000\n"),
        ("0::/\n", "cpu.max", "50000 100000\n"),
        ("1:cpu,cpuacct:/box\n", "cpu/box/cpu.cfs_quota_us", "100000\n"),
    ],
)
def test_a_containers_share_of_the_machine_is_kept(tmp_path: Path, membership: str, file: str, text: str) -> None:
    cgroups = tmp_path / "cgroup"
    (cgroups / file).parent.mkdir(parents=True)
    (cgroups / file).write_text(text)
    if "quota" in file:
        (cgroups / file).with_name("cpu.cfs_period_us").write_text("100000\n")
    (tmp_path / "membership").write_text(membership)
    assert usable_cores(machine(tmp_path), cgroups, tmp_path / "membership") == 1


@pytest.mark.parametrize("text", ["max 100000\n", "", "nonsense", "100000 0\n"])
def test_no_limit_or_a_strange_one_limits_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "cgroup").mkdir()
    (tmp_path / "cgroup" / "cpu.max").write_text(text)
    assert usable_cores(machine(tmp_path), tmp_path / "cgroup", tmp_path / "membership") == len(OURS)


def test_a_machine_that_tells_nothing_of_its_cores_is_taken_as_it_is(tmp_path: Path) -> None:
    assert usable_cores(tmp_path, tmp_path, tmp_path / "membership") == len(OURS)
