"""The JSON of what runs changed, for the API's description and the check of what comes in."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

_OUT = ConfigDict(frozen=True, use_attribute_docstrings=True)
_IN = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ChangedEntry(BaseModel):
    """What lay at a path."""

    model_config = _OUT

    kind: Literal["file", "folder", "link", "other"]
    mode: str
    """Permission bits, octal."""
    size: int
    digest: str
    """SHA-256 of a file's content, empty if it was not read; of a link, where it leads."""


class PathChange(BaseModel):
    """What a run did to one path."""

    model_config = _OUT

    path: str
    """From the folder on."""
    change: Literal["created", "deleted", "modified", "mode", "replaced"]
    before: ChangedEntry | None
    after: ChangedEntry | None
    undoable: bool
    reason: str
    """Why it cannot be undone; empty if it can."""
    binary: bool | None = None
    added: int | None = None
    """Lines."""
    removed: int | None = None
    diff: str | None = None
    """Unified, as git writes it. Left out when it was not asked for, or all together are too long."""


class UndoSummary(BaseModel):
    """One time that changes were taken back."""

    model_config = _OUT

    number: int
    at: float
    by: str
    redo: bool
    finished: bool
    """False: it was killed; the next undo continues it."""


class RunChanges(BaseModel):
    """What a run did to the folder it worked in."""

    model_config = _OUT

    run_id: str
    status: str
    folder: str
    seen_now: bool
    """The end is not recorded: it is the folder as it stands now."""
    changes: list[PathChange]
    not_watched: list[str]
    """Folders that were not searched."""
    undone: list[UndoSummary]


class UndoRequest(BaseModel):
    """What to take back."""

    model_config = _IN | ConfigDict(json_schema_extra={"examples": [{"dry_run": True}]})

    paths: Annotated[
        list[Annotated[str, StringConstraints(min_length=1, max_length=4096)]], Field(max_length=1_000)
    ] = []
    """Only these files and folders; none: everything."""
    dry_run: bool = False
    """Only say what would happen."""
    force: bool = False
    """Overwrite what was changed since; it is kept."""
    redo: bool = False
    """Put back what the last undo of the run took away."""


class UndoRefusal(BaseModel):
    """A path that was left alone."""

    model_config = _OUT

    path: str
    reason: str
    final: bool
    """No force helps."""


class UndoResult(BaseModel):
    """What was taken back, and what was not."""

    model_config = _OUT

    run_id: str
    folder: str
    dry_run: bool
    record: int | None
    """The number under which it is recorded; null if nothing was touched."""
    done: list[str]
    already: list[str]
    """Paths that were as before already."""
    refused: list[UndoRefusal]
    """If one of them is not final, and nothing was forced, nothing was touched."""
