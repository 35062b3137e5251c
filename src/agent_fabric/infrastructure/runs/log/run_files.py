"""The files that a run has made, for those who may read runs: regular files in its own workspace, and nothing else.

No link is followed, not even one that stays inside, and a path is opened in the same step in which it is checked. What
runs themselves do not see, or may not write, is not there.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from agent_fabric.domain.errors import RunFileNotFound, RunFilesWithheld, StoreUnavailable
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.policy.protected import HIDDEN, is_protected
from agent_fabric.domain.runs.files import MAX_FILES, OpenFile, RunFile
from agent_fabric.infrastructure.runs.log.layout import Layout
from agent_fabric.infrastructure.sandbox.beneath import Beneath

_OF_OURS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE})
"""Errors that say nothing about the file, and may be gone later."""
_SHOWN_CHARS = 200
_HIDDEN = frozenset(map(os.fsdecode, HIDDEN))


class RunFiles:
    """The files of the runs of one fabric folder. Every method may block."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def list(self, run_id: RunId, workspace: str) -> tuple[list[RunFile], bool]:
        """Return the files of a run by their paths, and whether there are more; near ones come before deep ones.

        Folders that programs fill by themselves are left out, as are names that are no text. `workspace` is where the
        run worked, as it is recorded.

        Raises:
            RunFilesWithheld: the files are not the run's own, or are gone.
        """
        files = self._files(run_id, workspace)
        with _explain_errors(run_id, "."):
            names, truncated = files.list_files(".", MAX_FILES)
        found = []
        for name in names:
            if name.endswith("/") or _is_withheld(name):
                continue
            try:
                seen = files.look_at(name)
            except OSError:  # gone since, or its name is no text
                continue
            if stat.S_ISREG(seen.st_mode):
                found.append(RunFile(path=name, size=seen.st_size, modified_at=seen.st_mtime))
        return found, truncated

    def open(self, run_id: RunId, workspace: str, path: str) -> OpenFile:
        """Open one file; `path` is as in the list.

        Raises:
            RunFileNotFound: there is no such regular file.
            RunFilesWithheld: the files are not the run's own, or are gone.
        """
        files = self._files(run_id, workspace)
        if {"", ".", ".."} & set(path.split("/")) or _is_withheld(path):
            raise _missing(run_id, path, "there is no such file")
        with _explain_errors(run_id, path):
            file = FileIO(files.open_file(path))
        return OpenFile(file, os.fstat(file.fileno()).st_size)

    def _files(self, run_id: RunId, workspace: str) -> Beneath:
        """Return the run's own workspace: where it is today, since fabric folders can be moved."""
        recorded = Path(workspace).parts
        # A run that works for another one works in that one's workspace.
        own = Path(self._layout.workspace(RunId(recorded[-2]))) if len(recorded) > 2 else None
        if own is None or own.parts[-3:] != recorded[-3:]:
            raise RunFilesWithheld(
                f"Run {run_id} worked in a project folder, whose files are not only its own",
                hint=f"See what it changed there: fabric diff {run_id} (GET /runs/{run_id}/diff).",
            )
        self._layout.own(*own.parts[-3:])
        # Without openat2 no link is followed at all, so that the names asked for are the real ones.
        files = Beneath(own, use_openat2=False)
        real = os.path.join(os.path.realpath(self._layout.root), *own.parts[-3:])  # noqa: PTH118 - as it is compared
        if files.root != os.fsencode(real) or not os.path.isdir(files.root):  # noqa: PTH112 - these are bytes
            raise RunFilesWithheld(
                f"The workspace of run {run_id} is gone", hint="What the run said and did is still in its log."
            )
        return files


def _is_withheld(path: str) -> bool:
    return path.partition("/")[0].casefold() in _HIDDEN or is_protected(path)


@contextmanager
def _explain_errors(run_id: RunId, path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as problem:
        number = problem.errno if isinstance(problem, OSError) else None
        if number in _OF_OURS:
            raise StoreUnavailable(f"{path!r} cannot be read: {os.strerror(number)}", hint="Try again.") from None
        why = os.strerror(number) if number else str(problem)
        raise _missing(run_id, path, why) from None


def _missing(run_id: RunId, path: str, why: str) -> RunFileNotFound:
    shown = path if len(path) <= _SHOWN_CHARS else f"{path[:_SHOWN_CHARS]}…"
    return RunFileNotFound(
        f"Run {run_id} has no file {shown!r}: {why}",
        hint=f"See what there is: fabric files {run_id} (GET /runs/{run_id}/files).",
    )
