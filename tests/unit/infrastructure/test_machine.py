"""The machine is described from what the system says, also when it says nothing."""

from pathlib import Path

import pytest

from agent_fabric.infrastructure.machine import ThisMachine


def pretend(folder: Path, meminfo: str = "", **cgroup: str) -> ThisMachine:
    """Make a machine whose kernel says this."""
    (folder / "meminfo").write_text(meminfo)
    for name, text in cgroup.items():
        (folder / name.replace("_", ".")).write_text(text)
    return ThisMachine(folder, folder)


MEMINFO = "MemTotal:       8000000 kB\nMemFree: 1 kB\nMemAvailable:   5000000 kB\n"


@pytest.mark.parametrize(
    ("cgroup", "total", "free"),
    [
        ({}, 8_192_000_000, 5_120_000_000),
        ({"memory_max": "max\n"}, 8_192_000_000, 5_120_000_000),
        ({"memory_max": "2000000000\n", "memory_current": "500000000\n"}, 2_000_000_000, 1_500_000_000),
        ({"memory_max": "7000000000\n", "memory_current": "500000000\n"}, 7_000_000_000, 5_120_000_000),
    ],
)
def test_a_container_has_only_its_share_of_the_memory(
    cgroup: dict[str, str], total: int, free: int, tmp_path: Path
) -> None:
    facts = pretend(tmp_path, MEMINFO, **cgroup).facts()
    assert (facts.memory_bytes, facts.memory_free_bytes) == (total, free)


def test_a_system_that_tells_nothing_is_no_error(tmp_path: Path) -> None:
    facts = ThisMachine(tmp_path / "none", tmp_path / "none").facts()
    assert (facts.memory_bytes, facts.memory_free_bytes) == (None, None)
    assert facts.python.startswith("3.")
    assert set(facts.extras) == {"embedded", "search", "embeddings", "telemetry", "mcp", "browser", "documents"}


def test_passwords_of_proxies_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://eve:s3cret@proxy.example:3128")
    monkeypatch.setenv("http_proxy", "proxy.example:3128")
    proxies = ThisMachine().facts().proxies
    assert proxies["https"] == "http://eve:***@proxy.example:3128"
    assert proxies["http"] == "proxy.example:3128"


def test_a_folder_that_is_not_there_yet_is_judged_by_the_one_above(tmp_path: Path) -> None:
    machine = ThisMachine()
    assert machine.may_write(str(tmp_path / "a" / "b"))
    free = machine.free_bytes(str(tmp_path / "a" / "b"))
    assert free is not None
    assert free > 0
    (tmp_path / "file").write_text("")
    assert not machine.may_write(str(tmp_path / "file"))
