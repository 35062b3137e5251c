"""What a node tells about its machine, from /proc and systemd."""

import os
import platform
import shutil
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

_REAL_FILE_SYSTEMS: Final = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "vfat", "overlay", "apfs"}
)
_MAX_DISKS: Final = 64


def os_info() -> dict[str, Any]:
    """Return what `agent.identify` says about the machine (FC-010)."""
    found: dict[str, Any] = {
        "platform": platform.system().lower(),
        "hostname": socket.gethostname(),
        "arch": platform.machine(),
        "release": platform.release(),
        "python": platform.python_version(),
    }
    if total := _memory().get("MemTotal"):
        found["memory_total"] = total
    return found


def system_info() -> dict[str, Any]:
    """Return how the machine is now."""
    memory = _memory()
    load: tuple[float, ...] = ()
    with suppress(OSError):
        load = os.getloadavg()
    return {
        **os_info(),
        "cpus": os.cpu_count(),
        "load": list(load),
        "memory_available": memory.get("MemAvailable"),
        "swap_total": memory.get("SwapTotal"),
        "swap_free": memory.get("SwapFree"),
        "uptime_s": _uptime(),
        "time": time.time(),
        "disks": _disks(),
    }


def processes(limit: int, match: str) -> dict[str, Any]:
    """Return the processes with the most memory."""
    found, page = list[dict[str, Any]](), os.sysconf("SC_PAGE_SIZE")
    for name in filter(str.isdigit, (each.name for each in Path("/proc").iterdir())):
        with suppress(OSError, IndexError, ValueError):
            folder = Path("/proc", name)
            line = folder.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            stat = folder.joinpath("stat").read_text(errors="replace").rpartition(")")[2].split()
            command = line or f"[{folder.joinpath('comm').read_text().strip()}]"
            if match in command:
                found.append(
                    {
                        "pid": int(name),
                        "uid": folder.stat().st_uid,
                        "state": stat[0],
                        "memory_bytes": int(stat[21]) * page,
                        "cpu_s": (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK"),
                        "command": command[:500],
                    }
                )
    found.sort(key=lambda each: -each["memory_bytes"])
    return {"processes": found[:limit], "total": len(found)}


def _memory() -> dict[str, int]:
    found = {}
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            name, _, amount = line.partition(":")
            found[name] = int(amount.split()[0]) * 1024
    return found


def _uptime() -> float | None:
    with suppress(OSError, ValueError, IndexError):
        return float(Path("/proc/uptime").read_text().split()[0])
    return None


def _disks() -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    with suppress(OSError):
        for line in Path("/proc/mounts").read_text(errors="replace").splitlines():
            device, place, kind, *_ = line.split(" ")
            if kind in _REAL_FILE_SYSTEMS and device not in found and len(found) < _MAX_DISKS:
                with suppress(OSError):
                    usage = shutil.disk_usage(place.encode().decode("unicode_escape"))
                    found[device] = {"mount": place, "type": kind, "total": usage.total, "free": usage.free}
    return list(found.values())
