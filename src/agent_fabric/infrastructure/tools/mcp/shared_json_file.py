"""A small JSON file that several processes read and change."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent_fabric.domain.errors import StoreUnavailable, ToolServerUnavailable
from agent_fabric.infrastructure.private_files import PrivateFile


class SharedJsonFile:
    """A JSON object on disk with mode 0600; changes are atomic and made under a lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = PrivateFile(path)

    def read(self) -> dict[str, Any]:
        """Return what it holds; nothing if there is no file yet.

        Raises:
            ToolServerUnavailable: it cannot be read. Going on as if it were empty would trust whatever comes.
        """
        try:
            data = self._file.read()
            found = {} if data is None else json.loads(data)
        except (StoreUnavailable, ValueError, RecursionError) as problem:
            raise self._unreadable(problem) from None
        if not isinstance(found, dict):
            raise self._unreadable("it is not what we wrote")
        return found

    @contextmanager
    def changing(self) -> Iterator[dict[str, Any]]:
        """Hold the file while its content is changed in place; it is written if that does not fail.

        Raises:
            ToolServerUnavailable: it cannot be read or written.
        """
        try:
            with self._file.held():
                content = self.read()
                before = json.dumps(content, sort_keys=True)
                yield content
                if json.dumps(content, sort_keys=True) != before:
                    self._file.replace(json.dumps(content, indent=1, sort_keys=True).encode())
        except StoreUnavailable as problem:
            raise self._unreadable(problem) from None

    def _unreadable(self, reason: object) -> ToolServerUnavailable:
        return ToolServerUnavailable(
            f"what is known about tool servers cannot be read or written: {self.path}: {reason}",
            hint="Repair the file or its folder; removing the file means trusting every tool server again.",
        )
