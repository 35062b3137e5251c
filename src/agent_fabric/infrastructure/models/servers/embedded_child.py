"""The program that runs llama.cpp: `python -m agent_fabric.infrastructure.models.servers.embedded_child`.

It reads its settings, one JSON object, from stdin, where no other user can see them. It ends by itself when it is idle,
when its announcement is gone, and on SIGTERM. It imports little: its start is waited for.
"""

import importlib
import json
import math
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_fabric.infrastructure.models.servers.server_files import ServerFiles
from agent_fabric.infrastructure.models.servers.serving import serve_until_idle

EXIT_EXTRA_MISSING = 71
EXIT_NOT_LOADED = 72
_MAX_PROMPT_CACHE_MIB = 1024
"""llama.cpp itself would keep up to 8 GB of conversations that it may or may not see again."""
_TOKENS_AT_ONCE = 64
"""How many tokens of a prompt are read before it is told how far that is; more are hardly faster on a processor."""


def main() -> int:
    """Load the model, say where it can be asked, and wait for the end."""
    settings: dict[str, Any] = json.load(sys.stdin)
    files = ServerFiles(Path(settings["folder"]), settings["key"])
    try:
        xllamacpp: Any = importlib.import_module("xllamacpp")  # here, since the importing process may lack it
    except ImportError as problem:
        print(f"xllamacpp cannot be imported: {problem}", file=sys.stderr)  # noqa: T201 - to the log
        return EXIT_EXTRA_MISSING
    try:
        server = xllamacpp.Server(_params(xllamacpp, settings))
    except (RuntimeError, ValueError, MemoryError) as problem:
        print(f"The model cannot be loaded: {problem}", file=sys.stderr)  # noqa: T201 - to the log
        return EXIT_NOT_LOADED
    port = int(server.listening_address.rsplit(":", 1)[1])
    serve_until_idle(files, port, settings)
    return 0


def _params(xllamacpp: Any, settings: dict[str, Any]) -> Any:
    threads = settings["threads"] or usable_cores()
    params = xllamacpp.CommonParams()
    params.model.path = settings["model"]
    params.model_alias = {settings["name"]}
    if settings.get("adapter"):
        params.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(settings["adapter"], 1.0)]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [settings["api_key"]]
    params.n_parallel = settings["slots"]
    params.n_ctx = settings["context_window"] * settings["slots"]
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.n_batch = params.n_ubatch = _TOKENS_AT_ONCE
    params.cache_ram_mib = _prompt_cache_mib()
    if settings.get("prompt_cache"):
        params.slot_save_path = f"{settings['prompt_cache']}/"
    params.endpoint_slots = True
    params.use_jinja = True
    params.ui = False
    params.offline = True
    return params


def _prompt_cache_mib() -> int:
    with suppress(OSError, ValueError, AttributeError):
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
        return max(64, min(_MAX_PROMPT_CACHE_MIB, free // 8))
    return _MAX_PROMPT_CACHE_MIB


_CPUS = Path("/sys/devices/system/cpu")
_CGROUPS = Path("/sys/fs/cgroup")


def usable_cores(cpus: Path = _CPUS, cgroups: Path = _CGROUPS, membership: Path = Path("/proc/self/cgroup")) -> int:
    """Return how many physical cores this process may use at once.

    Two threads on one core are no faster than one here: both wait for the same memory. More threads than a container's
    share of the machine are much slower: a thread that is out of turn makes all others wait.
    """
    allowed = _allowed_cpus()
    cores = {_core_of(cpu, cpus) for cpu in allowed}
    share = _container_share(cgroups, membership)
    return max(1, min(len(cores), len(cores) if share is None else math.floor(share)))


def _allowed_cpus() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _core_of(cpu: int, cpus: Path) -> str:
    """Return what all threads of one core have in common."""
    try:
        return (cpus / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text().strip() or f"cpu{cpu}"
    except OSError:
        return f"cpu{cpu}"


def _container_share(cgroups: Path, membership: Path) -> float | None:
    """Return how many CPUs' worth of time the container gets; None: no limit that we can see."""
    shares = [share for folder in _groups(cgroups, membership) if (share := _share(folder)) is not None]
    return min(shares, default=None)


def _groups(cgroups: Path, membership: Path) -> set[Path]:
    found = {cgroups, cgroups / "cpu"}
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" or "cpu" in controllers.split(","):
            base = cgroups if number == "0" else cgroups / "cpu"
            own = base / path.strip("/")
            found |= {own, *(parent for parent in own.parents if parent.is_relative_to(base))}
    return found


def _share(folder: Path) -> float | None:
    try:
        quota, _, period = (folder / "cpu.max").read_text().strip().partition(" ")
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        pass
    try:
        quota_us = int((folder / "cpu.cfs_quota_us").read_text())
        return quota_us / int((folder / "cpu.cfs_period_us").read_text()) if quota_us > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None


if __name__ == "__main__":
    code = main()
    if code == 0:
        os._exit(0)  # llama.cpp has threads that do not end by themselves, and nothing to lose
    sys.exit(code)  # in good order: llama.cpp writes its log late, and that says why
