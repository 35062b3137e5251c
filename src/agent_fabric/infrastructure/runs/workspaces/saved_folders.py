"""Saves the folder of a run as objects: one for each content, and a list of all files that is named by its hash.

The list's hash stands in the run's log. So what is restored is what was saved, or an error: an attacker who can
write the objects cannot change a file unnoticed.
"""

import asyncio
import hashlib
import json
import os
import stat
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

from agent_fabric.application.ports.audit import RetentionStore
from agent_fabric.application.ports.workspace_archive import ObjectStore, SavedWorkspace
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, StoreUnavailable
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.state import RunState
from agent_fabric.infrastructure.atomic_files import write_atomically
from agent_fabric.infrastructure.runs.log.layout import Layout, is_own
from agent_fabric.infrastructure.tree_walk import remove_tree, walk_tree

FOLDERS: Final = ("workspace", "snapshots")
"""Parts of a run's folder that are saved; the rest is made from its log."""
MARK: Final = "saved"
"""File in a run's folder that names the list which its files were last saved or restored as."""
MAX_FILES: Final = 100_000
AT_ONCE: Final = 8
"""Objects that are sent or fetched at a time."""
_FILE, _FOLDER, _LINK = "file", "folder", "link"


class _Item(NamedTuple):
    kind: str
    mode: int = 0
    size: int = 0
    digest: str = ""
    """Of a file's content; of a link, where it leads."""


class _Seen(NamedTuple):
    """A file that need not be read again."""

    identity: tuple[int, int, int, int]
    digest: str


@dataclass(slots=True)
class SavedFolders:
    """WorkspaceArchive over an ObjectStore."""

    layout: Layout
    objects: ObjectStore
    _seen: dict[RunId, dict[str, _Seen]] = field(default_factory=dict)
    _sent: dict[RunId, set[str]] = field(default_factory=dict)
    """Objects of runs of this process that are there."""

    def covers(self, state: RunState) -> bool:
        task = state.task
        if task is None or task.encrypted or task.parent is not None or task.session or state.workflow is not None:
            return False
        return is_own(state.workspace, state.run_id)

    async def save(self, run_id: RunId) -> SavedWorkspace:
        items = await asyncio.to_thread(self._look, run_id)
        sent = self._sent.setdefault(run_id, set())
        missing = [path for path, item in items.items() if item.kind == _FILE and item.digest not in sent]

        async def send(path: str) -> None:
            data = await asyncio.to_thread(self._read, run_id, path)
            if data is None:
                del items[path]  # gone meanwhile
                return
            # Of what is sent, not of what was there a moment ago: something may write it all the time.
            digest = hashlib.sha256(data).hexdigest()
            items[path] = items[path]._replace(digest=digest, size=len(data))
            if digest not in sent:
                await self.objects.put(f"{run_id}/{digest}", data)
                sent.add(digest)

        await _for_each(send, missing)
        text = json.dumps({path: list(item) for path, item in sorted(items.items())}).encode()
        manifest = hashlib.sha256(text).hexdigest()
        if manifest not in sent:
            await self.objects.put(f"{run_id}/{manifest}", text)
            sent.add(manifest)
        await asyncio.to_thread(self._mark, run_id, manifest)
        files = [item for item in items.values() if item.kind == _FILE]
        return SavedWorkspace(manifest, len(files), sum(item.size for item in files))

    async def restore(self, run_id: RunId, manifest: str) -> str:
        workspace = self.layout.workspace(run_id)
        await self.layout.prepare(run_id)
        if manifest in ("", await asyncio.to_thread(self._mark_of, run_id)):
            return workspace
        items = await self._list(run_id, manifest)
        fresh = Path(self.layout.run_dir(run_id)) / "restoring"
        await asyncio.to_thread(_make_folders, fresh, items)

        async def fetch(path: str) -> None:
            data = await self._fetch(run_id, items[path].digest)
            await asyncio.to_thread(_write, fresh / path, items[path], data)

        await _for_each(fetch, [path for path, item in items.items() if item.kind == _FILE])
        await asyncio.to_thread(self._swap, run_id, fresh, items)
        await asyncio.to_thread(self._mark, run_id, manifest)
        self._sent[run_id] = {manifest, *(item.digest for item in items.values() if item.kind == _FILE)}
        return workspace

    def forget(self, run_id: RunId) -> None:
        self._sent.pop(run_id, None)
        self._seen.pop(run_id, None)

    async def _list(self, run_id: RunId, manifest: str) -> dict[str, _Item]:
        found: Any = json.loads(await self._fetch(run_id, manifest))
        items = {str(path): _Item(*values) for path, values in found.items()}
        for path in items:
            parts = PurePosixPath(path).parts
            if not parts or parts[0] not in FOLDERS or ".." in parts:  # it was saved here, so this is a bug or worse
                raise StoreUnavailable(f"The saved files of run {run_id} lead out of its folder: {path}")
        return items

    async def _fetch(self, run_id: RunId, digest: str) -> bytes:
        data = await self.objects.get(f"{run_id}/{digest}")
        if hashlib.sha256(data).hexdigest() != digest:
            raise StoreUnavailable(
                f"A saved file of run {run_id} is not what was saved",
                hint=f"Look at {self.objects.place}: someone has changed {run_id}/{digest}.",
            )
        return data

    def _look(self, run_id: RunId) -> dict[str, _Item]:
        """Return all entries of the run's folders; files that are as they were are not read again."""
        root, items = Path(self.layout.own_run_dir(run_id)), dict[str, _Item]()
        for top in FOLDERS:
            if not (root / top).is_dir():
                continue
            for path, found in _entries(root / top):
                if len(items) >= MAX_FILES:
                    raise StoreUnavailable(
                        f"The workspace of run {run_id} has more than {MAX_FILES:,} files, too many to save",
                        hint="Let it make fewer, or set `workspaces.save: never`.",
                    )
                items[f"{top}/{path}"] = self._item(run_id, root / top, path, found)
        return items

    def _item(self, run_id: RunId, root: Path, path: str, found: os.stat_result) -> _Item:
        mode = stat.S_IMODE(found.st_mode)
        if stat.S_ISDIR(found.st_mode):
            return _Item(_FOLDER, mode)
        if stat.S_ISLNK(found.st_mode):
            return _Item(_LINK, digest=os.readlink(root / path))  # noqa: PTH115 - of any bytes
        identity = found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino
        known, name = self._seen.setdefault(run_id, {}), f"{root.name}/{path}"
        seen = known.get(name)
        if seen is None or seen.identity != identity:
            seen = known[name] = _Seen(identity, hashlib.sha256(_bytes_of(root / path) or b"").hexdigest())
        return _Item(_FILE, mode, found.st_size, seen.digest)

    def _read(self, run_id: RunId, path: str) -> bytes | None:
        return _bytes_of(Path(self.layout.run_dir(run_id)) / path)

    def _mark_of(self, run_id: RunId) -> str:
        try:
            return (Path(self.layout.run_dir(run_id)) / MARK).read_text()
        except OSError:
            return ""

    def _mark(self, run_id: RunId, manifest: str) -> None:
        write_atomically(Path(self.layout.run_dir(run_id)) / MARK, manifest.encode(), durable=False)

    def _swap(self, run_id: RunId, fresh: Path, items: dict[str, _Item]) -> None:
        """Put what was fetched in the place of what is there. Links and modes last: nothing is written through them."""
        for path, item in items.items():
            if item.kind == _LINK:
                (fresh / path).symlink_to(item.digest)
        for path, item in sorted(items.items(), reverse=True):
            if item.kind == _FOLDER:
                (fresh / path).chmod(item.mode)
        root = Path(self.layout.own_run_dir(run_id))
        with suppress(FileNotFoundError):
            (root / MARK).unlink()  # from here on it is neither the old state nor the new one
        for top in FOLDERS:
            remove_tree(root / top)
            if (fresh / top).is_dir():
                (fresh / top).rename(root / top)
        remove_tree(fresh)


def _entries(top: Path) -> Iterator[tuple[str, os.stat_result]]:
    for found in walk_tree(top):
        if found.problem is not None:
            raise StoreUnavailable(f"{top / found.path} cannot be read: {found.problem}", hint="Look at its rights.")
        if stat.S_IFMT(found.status.st_mode) in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
            yield found.path, found.status


def _bytes_of(path: Path) -> bytes | None:
    """Return what is in a file; None if it is gone, or no file any more."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(file, "rb") as source:
        return source.read() if stat.S_ISREG(os.fstat(file).st_mode) else None


async def _for_each(act: Callable[[str], Awaitable[None]], paths: Sequence[str]) -> None:
    """Do something with each path, several at a time; the first error ends it."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def act_within_limit(path: str) -> None:
        async with limit:
            await act(path)

    try:
        async with asyncio.TaskGroup() as group:
            for path in paths:
                group.create_task(act_within_limit(path))
    except* FabricError as problems:
        first = problems.exceptions[0]
    else:
        return
    raise first


def _make_folders(fresh: Path, items: dict[str, _Item]) -> None:
    remove_tree(fresh)
    for top in FOLDERS[:1]:
        (fresh / top).mkdir(parents=True)
    for path, item in sorted(items.items()):
        if item.kind == _FOLDER:
            (fresh / path).mkdir(mode=0o700, parents=True, exist_ok=True)


def _write(path: Path, item: _Item, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, item.mode)
    with os.fdopen(file, "wb") as target:
        target.write(data)
        os.fchmod(target.fileno(), item.mode)


@dataclass(frozen=True, slots=True)
class SavedRetention:
    """RetentionStore that deletes what was saved for other machines, too."""

    inner: RetentionStore
    objects: ObjectStore

    async def settled_before(self, at: float) -> list[RunId]:
        return await self.inner.settled_before(at)

    async def remove(self, run_id: RunId, *, by: str, reason: str) -> int:
        freed = await self.inner.remove(run_id, by=by, reason=reason)
        try:
            await self.objects.remove(f"{run_id}/")
        except StoreUnavailable as problem:
            raise StoreUnavailable(
                f"Run {run_id} is deleted, but not its saved files: {problem.message}",
                hint=f"Delete what begins with {run_id}/ there.",
            ) from None
        return freed

    async def sweep(self) -> int:
        return await self.inner.sweep()
