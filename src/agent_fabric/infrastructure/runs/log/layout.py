"""Where things lie in a fabric folder.

.fabric/
    fabric.db          every run's events: the truth
    locks              one byte for each run that is being driven, and one for the server
    server             the address of the server that runs for this folder
    agent-locks        one byte for each agent at work of which only one may be
    run_index.jsonl    one line for each settled run
    changes/           what files of project folders held before runs changed them
    runs/<run id>/
        runlog.jsonl   the run's events, for people and scripts
        changes/       how the project folder stood before and after, if the run worked in one
        snapshots/     the pages that it fetched, as they came
        workspace/     the run's files
"""

import errno
import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError, FolderLinked, StoreFull, StoreUnavailable
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.atomic_files import write_new
from agent_fabric.infrastructure.private_files import NotPrivate, read_private, write_private
from agent_fabric.infrastructure.tree_walk import remove_tree

T = TypeVar("T")


def require_unlinked(base: str | Path, *names: str) -> None:
    """Check that none of the names below a folder, one inside the other, is a link; a missing one ends the check.

    Raises:
        FolderLinked: one is.
    """
    path = str(base)
    for name in names:
        path = os.path.join(path, name)  # noqa: PTH118 - on the way of every run
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            return  # what is not there leads nowhere
        if stat.S_ISLNK(mode):
            raise FolderLinked(
                f"{path} has become a link, so nothing behind it is touched",
                hint="Remove the link and put the folder itself back in its place, or restore it from a backup.",
            )


def require_workspace_unlinked(workspace: str) -> None:
    """Check that a recorded workspace is still the folder itself.

    That of a run's own lies in `runs/RUN_ID/workspace`; a project folder was recorded without links on the way.

    Raises:
        FolderLinked: it, or a folder on the way to it, has become a link.
    """
    parts = Path(workspace).parts
    own = len(parts) > 3 and parts[-3] == "runs" and parts[-1] == "workspace"
    first = -3 if own else 1
    if parts:
        require_unlinked(Path(*parts[:first]), *parts[first:])


FOLDER = ".fabric"


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths below one fabric folder; implements Workspaces."""

    root: Path

    @property
    def database(self) -> Path:
        """The store."""
        return self.root / "fabric.db"

    @property
    def run_index(self) -> Path:
        """One line for each settled run."""
        return self.root / "run_index.jsonl"

    @property
    def agent_locks(self) -> Path:
        """One byte for each agent that is at work and may not be twice."""
        return self.root / "agent-locks"

    def run_dir(self, run_id: RunId) -> str:
        return f"{self.root}/runs/{run_id}"

    def runlog(self, run_id: RunId) -> str:
        """The run's log for people and scripts."""
        return f"{self.root}/runs/{run_id}/runlog.jsonl"

    def workspace(self, run_id: RunId) -> str:
        return f"{self.root}/runs/{run_id}/workspace"

    def workspace_today(self, run_id: RunId, recorded: Path) -> Path:
        """Return where a run's files are today: in this folder, which may have been moved, or in a project folder."""
        inside = len(recorded.parts) > 2  # a run that follows up another one works in that one's workspace
        own = Path(self.workspace(RunId(recorded.parts[-2]) if inside else run_id))
        return own if recorded.parts[-3:] == own.parts[-3:] else recorded

    def snapshots(self, run_id: RunId) -> Path:
        """The pages that the run has fetched."""
        return self.root / "runs" / run_id / "snapshots"

    @property
    def changes(self) -> Path:
        """What files of project folders held before runs changed them."""
        return self.root / "changes"

    @property
    def exposed_files(self) -> Path:
        """Which files of project folders were written after untrusted text had been read."""
        return self.changes / "exposed"

    def changes_of(self, run_id: RunId) -> Path:
        """How the run's project folder stood before and after."""
        return self.root / "runs" / run_id / "changes"

    def own(self, *names: str) -> Path:
        """Return a path below the folder that leads through no link.

        Raises:
            FolderLinked: one of the names has become a link.
        """
        require_unlinked(self.root, *names)
        return self.root.joinpath(*names)

    def own_run_dir(self, run_id: RunId) -> str:
        """Return the run's folder, if neither it nor a folder in it has become a link.

        Raises:
            FolderLinked: one has.
        """
        for inside in ("workspace", "snapshots", "changes"):
            self.own("runs", run_id, inside)
        return self.run_dir(run_id)

    async def prepare(self, run_id: RunId, *, at: str = "") -> bool:
        return await _on_thread(self._make_run_dir, run_id, at)

    def _make_run_dir(self, run_id: RunId, at: str) -> bool:
        made = False
        workspace = self.run_dir(run_id) if at else self.workspace(run_id)
        self.own("runs", run_id, "workspace")
        try:
            try:  # on the way of every run: nothing is asked that is almost always so
                os.mkdir(f"{self.root}/runs/{run_id}")  # noqa: PTH102 - pathlib takes twice as long
                made = True
                if not at:
                    os.mkdir(workspace)  # noqa: PTH102 - as above
            except (FileNotFoundError, FileExistsError) as problem:
                made = made or isinstance(problem, FileNotFoundError)
                os.makedirs(workspace, exist_ok=True)  # noqa: PTH103 - as above
        except OSError as problem:
            raise StoreUnavailable(
                f"The run's folder cannot be made: {problem.strerror or problem}",
                hint="Check that there is space, and that you may write there.",
            ) from None
        return made

    async def discard(self, run_id: RunId) -> None:
        with suppress(FolderLinked):  # then nothing of it is ours
            await _on_thread(remove_tree, self.own("runs", run_id))

    async def copy(self, workspace: str, run_id: RunId) -> bool:
        return await _on_thread(self._copy, workspace, run_id)

    def _copy(self, workspace: str, run_id: RunId) -> bool:
        target = Path(self.workspace(run_id))
        require_workspace_unlinked(workspace)
        self.own("runs", run_id, "workspace")
        if target.exists():
            return False  # another process was faster, and may be at work in it
        copied = target.with_name(f".workspace-{os.urandom(8).hex()}")
        try:
            shutil.copytree(workspace, copied, symlinks=True, copy_function=_copy_file)
            copied.rename(target)
        except (OSError, shutil.Error) as problem:
            remove_tree(copied)
            if problem.errno in {errno.EEXIST, errno.ENOTEMPTY} and target.exists():
                return False
            raise StoreUnavailable(
                f"The workspace {workspace} cannot be copied: {problem}",
                hint="Check that there is space, and that you may read it.",
            ) from None
        return True

    def usable(self, workspace: str) -> bool:
        require_workspace_unlinked(workspace)
        return Path(workspace).is_dir() and os.access(workspace, os.R_OK | os.W_OK | os.X_OK)

    def make(self) -> None:
        """Make the folder; it hides itself from git.

        Raises:
            ConfigError: it cannot be made.
        """
        try:
            (self.root / "runs").mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                write_new(self.root / ".gitignore", b"*\n", mode=0o644, durable=False)
        except OSError as problem:
            if problem.errno == errno.ENOSPC:
                raise StoreFull(
                    f"The disk that holds {self.root} is full", hint="Free some space, then try again."
                ) from None
            raise ConfigError(
                f"The folder {self.root} cannot be made: {problem.strerror or problem}",
                hint="Choose another one with --workspace.",
            ) from None


def _copy_file(source: str, target: str) -> str:
    """Copy a file; to open a pipe or a socket would mean to wait forever."""
    return shutil.copy2(source, target) if stat.S_ISREG(os.lstat(source).st_mode) else target


def find_root(start: Path) -> Path:
    """Return the nearest `.fabric` from `start` upwards, as git finds `.git`; without one, the one to be made here."""
    for folder in (start, *start.parents):
        if (folder / FOLDER).is_dir():
            return folder / FOLDER
    return start / FOLDER


def is_own(workspace: str, run_id: RunId) -> bool:
    """Tell whether a workspace is the run's own, on whichever machine that was."""
    return workspace.endswith(f"/runs/{run_id}/workspace")


def may_move(run_id: RunId, created: object) -> bool:
    """Tell whether any machine may drive a new run: one with a workspace of its own, in which nothing lies yet."""
    from agent_fabric.domain.events import RunCreated  # noqa: PLC0415 - what only looks up a folder needs no events

    if not isinstance(created, RunCreated) or not is_own(created.workspace, run_id):
        return False
    alone = created.parent is None and created.workflow is None and created.continues is None and not created.session
    try:
        return alone and not created.encrypted and not any(Path(created.workspace).iterdir())
    except OSError:
        return False


async def _on_thread(work: Callable[..., T], *given: object) -> T:
    import asyncio  # noqa: PLC0415 - shells that complete a command look for a folder, and wait at every key

    return await asyncio.to_thread(work, *given)


SERVER_FILE: Final = "server"
"""Says where the server of the folder listens. The server writes it when it listens and removes it when it ends. The
file of a killed server stays, so a reader also checks that a process holds the server's lock."""


def record_server(root: Path, url: str) -> None:
    """Write down where the server listens. The caller holds the server's lock.

    Raises:
        ConfigError: the file cannot be written.
    """
    write_private(root / SERVER_FILE, f"{url}\n".encode(), replace=True)


def forget_server(root: Path) -> None:
    """Remove the address. The caller holds the server's lock."""
    with suppress(OSError):  # what cannot be removed is not believed once the lock is free
        (root / SERVER_FILE).unlink()


def recorded_server(root: Path) -> str | None:
    """Return the address in the file; None if there is none, or others may have written it."""
    try:
        content = read_private(root / SERVER_FILE)
    except (NotPrivate, ConfigError):
        return None
    url = (content or b"").decode("ascii", "replace").strip()
    return url if url.startswith(("http://", "https://")) and url.isprintable() else None
