"""The files of one server: lock, announcement, lease and log.

    KEY.lock    held while the server lives; says which process it is
    KEY.json    what it listens on, with its key; there only while it is ready
    KEY.lease   held, shared, by every process that uses it; its time is that of the last use
    KEY.log     its output; KEY.log.old that of the one before

Lock and lease are never removed: a process that has opened them would then hold a lock that no other sees.
Imported by the child process: the standard library only.
"""

import json
import os
from contextlib import suppress
from dataclasses import asdict, field
from pathlib import Path
from typing import Any, NamedTuple

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.infrastructure.atomic_files import write_atomically

MAX_LOG_BYTES = 1024 * 1024
KEPT_LOG_BYTES = 128 * 1024
"""What is kept of a log that grew too large: its end."""
MANAGED = "managed-"
"""How the keys of servers begin that belong to one process and are shared with no one."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a server that is ready can be asked, as it announces itself."""

    pid: int
    port: int
    api_key: str = field(repr=False)
    """Every request needs it; no other user of the machine knows it."""
    slots: int
    """How many requests it works on at once."""
    context_window: int
    """What one conversation really gets, as the server says."""
    idle_s: float | None
    """When it ends by itself; None: when its owner does."""

    @property
    def origin(self) -> str:
        """The address of llama.cpp's own routes, such as `/slots` and `/props`."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        """The OpenAI-compatible address."""
        return f"{self.origin}/v1"


class Holder(NamedTuple):
    """Which process a lock speaks of."""

    pid: int
    name: str
    model: str


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """Paths of the files of one server, and what they say."""

    folder: Path
    key: str

    @property
    def lock(self) -> Path:
        return self.folder / f"{self.key}.lock"

    @property
    def state(self) -> Path:
        return self.folder / f"{self.key}.json"

    @property
    def lease(self) -> Path:
        return self.folder / f"{self.key}.lease"

    @property
    def log(self) -> Path:
        return self.folder / f"{self.key}.log"

    def listening(self) -> Endpoint | None:
        """Return what the server said when it was ready; None: not ready, or nonsense."""
        found = _read(self.state)
        try:
            return Endpoint(
                int(found["pid"]),
                int(found["port"]),
                str(found["api_key"]),
                int(found["slots"]),
                int(found["context_window"]),
                None if found["idle_s"] is None else float(found["idle_s"]),
            )
        except (KeyError, TypeError, ValueError):
            return None

    def stamp(self) -> tuple[int, int] | None:
        """Return what tells one announcement from another, without reading it; None: there is none."""
        try:
            about = self.state.stat()
        except OSError:
            return None
        return about.st_ino, about.st_mtime_ns

    def holder(self) -> Holder | None:
        """Return which process the lock speaks of; only true while the lock is held."""
        found = _read(self.lock)
        try:
            return Holder(int(found["pid"]), str(found["name"]), str(found["model"]))
        except (KeyError, TypeError, ValueError):
            return None

    def announce(self, endpoint: Endpoint) -> None:
        """Write the announcement atomically, readable by its owner only."""
        write_atomically(self.state, json.dumps(asdict(endpoint)).encode(), durable=False)

    def withdraw(self) -> None:
        """Remove the announcement."""
        self.state.unlink(missing_ok=True)

    def log_tail(self, lines: int = 8) -> list[str]:
        """Return the last lines that the server wrote."""
        with suppress(OSError):
            return _end_of(self.log, 32 * 1024).decode("utf-8", "replace").splitlines()[-lines:]
        return []

    def open_log(self) -> int:
        """Return a descriptor of a new log; the one before is kept beside it."""
        with suppress(OSError):
            self.log.replace(self.log.with_suffix(".log.old"))
        return os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)

    def shorten_log(self) -> None:
        """Cut the log down to its end when it has grown too large; its writer appends behind that."""
        with suppress(OSError):
            if self.log.stat().st_size <= MAX_LOG_BYTES:
                return
            kept = _end_of(self.log, KEPT_LOG_BYTES)
            os.truncate(self.log, 0)
            with self.log.open("ab") as log:
                log.write(b"... (shortened)\n" + kept)


def _end_of(path: Path, size: int) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - size))
        return file.read(size)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
