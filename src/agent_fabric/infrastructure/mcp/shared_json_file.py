"""A small JSON file that several processes read and change."""

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent_fabric.domain.errors import ToolServerUnavailable

MAX_BYTES = 32 * 1024 * 1024


class SharedJsonFile:
    """A JSON object on disk with mode 0600; changes are atomic and made under a lock."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, Any]:
        """Return what it holds; nothing if there is no file yet.

        Raises:
            ToolServerUnavailable: it cannot be read. Going on as if it were empty would trust whatever comes.
        """
        try:
            with self.path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
            found = json.loads(data)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as problem:
            raise self._unreadable(problem) from None
        if len(data) > MAX_BYTES or not isinstance(found, dict):
            raise self._unreadable("it is not what we wrote")
        return found

    @contextmanager
    def changing(self) -> Iterator[dict[str, Any]]:
        """Hold the file while its content is changed in place; it is written if that does not fail.

        Raises:
            ToolServerUnavailable: it cannot be read or written.
        """
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            raise self._unreadable(problem) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            content = self.read()
            before = json.dumps(content, sort_keys=True)
            yield content
            if json.dumps(content, sort_keys=True) != before:
                self._write(content)
        finally:
            os.close(lock)

    def _write(self, content: dict[str, Any]) -> None:
        descriptor, temporary = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        try:
            with os.fdopen(descriptor, "w") as file:
                json.dump(content, file, indent=1, sort_keys=True)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(self.path)
        except OSError as problem:
            Path(temporary).unlink(missing_ok=True)
            raise self._unreadable(problem) from None

    def _unreadable(self, reason: object) -> ToolServerUnavailable:
        return ToolServerUnavailable(
            f"what is known about tool servers cannot be read or written: {self.path}: {reason}",
            hint="Mend the file or its folder; removing the file means trusting every tool server anew.",
        )
