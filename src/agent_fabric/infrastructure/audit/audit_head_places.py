"""Places that get heads of the audit chain: files, the system log, webhooks."""

import asyncio
import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from agent_fabric.application.ports.alerts import AlertPost
from agent_fabric.application.ports.audit import HeadPlace
from agent_fabric.domain.dataclass import dataclass

_AUTHPRIV_NOTICE: Final = 10 * 8 + 5
"""Facility and severity of a line for the system log, as RFC 5424 counts them."""
_SYSLOG: Final = (Path("/dev/log"), Path("/var/run/syslog"))


@dataclass(frozen=True, slots=True)
class HeadLines:
    """HeadPlace that appends a line of JSON to a file."""

    path: Path

    @property
    def name(self) -> str:
        return str(self.path)

    async def send(self, message: Mapping[str, Any]) -> None:
        await asyncio.to_thread(self._append, f"{json.dumps(dict(message))}\n".encode())

    def _append(self, line: bytes) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(self.path, flags, 0o600)
        try:
            os.write(file, line)
            os.fsync(file)
        finally:
            os.close(file)


@dataclass(frozen=True, slots=True)
class Syslog:
    """HeadPlace that writes a line to the system log."""

    sockets: tuple[Path, ...] = _SYSLOG
    name: str = "syslog"

    async def send(self, message: Mapping[str, Any]) -> None:
        await asyncio.to_thread(self._write, f"<{_AUTHPRIV_NOTICE}>agent-fabric: {json.dumps(dict(message))}".encode())

    def _write(self, line: bytes) -> None:
        path = next((path for path in self.sockets if path.exists()), None)
        if path is None:
            raise FileNotFoundError(f"there is no system log at {' or '.join(map(str, self.sockets))}")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
            log.settimeout(1.0)
            log.connect(str(path))
            log.send(line)


@dataclass(frozen=True, slots=True)
class HeadWebhook:
    """HeadPlace behind an address."""

    name: str
    post: AlertPost

    async def send(self, message: Mapping[str, Any]) -> None:
        await self.post.post(self.name, message)


def head_place(name: str, webhook: AlertPost) -> HeadPlace:
    """Return the place of a name: `syslog`, an address or a file."""
    if name == "syslog":
        return Syslog()
    return HeadWebhook(name, webhook) if "://" in name else HeadLines(Path(name))
