"""The files of a run, as they are listed."""

from collections.abc import Sequence
from io import FileIO
from typing import NamedTuple

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import RunId

MAX_FILES = 2_000
"""Most files and folders that one list takes into account."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFile:
    """One file in a run's workspace."""

    path: str
    """From the workspace on, with slashes; what `GET /runs/{run_id}/files/{path}` takes."""
    size: int
    """In bytes."""
    modified_at: float
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFileList:
    """The files in a run's workspace, by their paths."""

    run_id: RunId
    files: Sequence[RunFile]
    truncated: bool
    """There is more than one list can hold."""


class OpenFile(NamedTuple):
    """A file to be read; the caller closes it."""

    file: FileIO
    size: int
