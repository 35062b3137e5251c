"""A prompt cache on disk: the next process begins with what a model has read of its instructions.

The instructions and the tools of an agent are the same in every run, and long: two slow cores read them for a minute.
llama.cpp can write what it has made of them to a file, and read it back in milliseconds (its slot save and restore).
"""

import hashlib
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from agent_fabric.config.folders import base_folder
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ModelError
from agent_fabric.infrastructure.models.model_http import ModelHttp, whole_body
from agent_fabric.infrastructure.models.servers.server_files import Endpoint
from agent_fabric.infrastructure.threads import on_own_thread

MAX_BYTES: Final = 256 * 1024 * 1024
"""The most that all kept prompts may take; those that were not used for longest go first."""
_LOOK_TIMEOUT_S: Final = 5.0
_SUFFIX: Final = ".kv"


def prompt_cache_folder(environ: Mapping[str, str]) -> Path | None:
    """Return where prompts are kept, in the user's cache folder; None: there is no home."""
    cache = base_folder(environ, "XDG_CACHE_HOME", ".cache")
    return None if cache is None else cache / "prompts"


@dataclass(slots=True)
class PromptCache:
    """The beginnings of prompts that a user's models have read."""

    folder: Path
    _seen: set[tuple[int, int]] = field(default_factory=set)
    """Servers that this process has prepared or found at work: they know what they have read."""

    def create(self) -> bool:
        """Make the folder, for this user only; return whether it can be used."""
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return True
        return False

    async def prepare(
        self, http: ModelHttp, server: Endpoint, identity: bytes, read: Callable[[], Awaitable[None]]
    ) -> None:
        """Give a server that has just started what it once made of this text, or keep what it makes of it now.

        Args:
            http: asks the server.
            server: where it is.
            identity: what tells this text, and the model and window that it is read with, from all others.
            read: lets the server read the text.

        Raises:
            ModelError: the server does not answer.
        """
        known = server.pid, server.port
        if known in self._seen:
            return
        if await _is_fresh(http, server):
            name = _name(identity)
            kept = await on_own_thread(lambda: whole_file(self.folder, name))
            if kept is None:
                await read()
                await self._save(http, server, name)
            else:
                with suppress(ModelError):  # removed just now: then it is read again
                    await _slot(http, server, "restore", kept.name)
        self._seen.add(known)

    async def _save(self, http: ModelHttp, server: Endpoint, name: str) -> None:
        """Keep what the server has read; where there is no room, the next one reads it again."""
        unfinished = self.folder / f"{name}.{server.pid}.part"
        try:
            await _slot(http, server, "save", unfinished.name)
            await on_own_thread(lambda: adopt(unfinished, name))
        except (ModelError, OSError):
            unfinished.unlink(missing_ok=True)


def whole_file(folder: Path, name: str) -> Path | None:
    """Return what is kept under a name, if it is as it was written: llama.cpp aborts on what it cannot read."""
    for path in folder.glob(f"{name}.*{_SUFFIX}"):
        with suppress(OSError):
            if path.name == _full_name(path, name):
                os.utime(path)
                return path
            path.unlink()
    return None


def adopt(unfinished: Path, name: str) -> None:
    """Keep a file that has been written, under its name and its hash, and make room for it.

    Raises:
        OSError: it cannot be read or renamed.
    """
    unfinished.chmod(0o600)
    unfinished.replace(unfinished.with_name(_full_name(unfinished, name)))
    remove_oldest(unfinished.parent, MAX_BYTES)


def _full_name(file: Path, name: str) -> str:
    with file.open("rb") as stream:
        return f"{name}.{hashlib.file_digest(stream, 'sha256').hexdigest()[:32]}{_SUFFIX}"


def remove_oldest(folder: Path, max_bytes: int) -> None:
    """Remove what was not used for longest, until the rest is small enough."""
    files = []
    for path in folder.iterdir():
        with suppress(OSError):  # another process removes, too
            about = path.stat()
            files.append((about.st_mtime, about.st_size, path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= max_bytes:
            return
        path.unlink(missing_ok=True)
        total -= size


def _name(identity: bytes) -> str:
    try:
        runtime = version("xllamacpp")
    except PackageNotFoundError:
        runtime = ""
    return hashlib.sha256(identity + runtime.encode()).hexdigest()[:32]


async def _is_fresh(http: ModelHttp, server: Endpoint) -> bool:
    """Tell whether a server has answered no one yet."""
    try:
        slots: Any = json.loads(await http.get(f"{server.origin}/slots", timeout_s=_LOOK_TIMEOUT_S))
    except (ModelError, ValueError):
        return False  # it is at work, or keeps it to itself
    return isinstance(slots, list) and all(isinstance(slot, dict) and "id_task" not in slot for slot in slots)


async def _slot(http: ModelHttp, server: Endpoint, action: str, name: str) -> None:
    url = f"{server.origin}/slots/0?action={action}"
    await http.post(url, json.dumps({"filename": name}).encode(), whole_body, model="")
