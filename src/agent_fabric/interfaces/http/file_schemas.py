"""The JSON of the files that runs have made, for the API's description."""

from pydantic import BaseModel, ConfigDict

_OUT = ConfigDict(frozen=True, use_attribute_docstrings=True)


class RunFileEntry(BaseModel):
    """One file in a run's workspace."""

    model_config = _OUT

    path: str
    """From the workspace on; what `GET /runs/{run_id}/files/{path}` takes."""
    bytes: int
    modified_at: float
    """Seconds since 1970."""


class RunFilesAnswer(BaseModel):
    """The files in a run's workspace."""

    model_config = _OUT

    run_id: str
    files: list[RunFileEntry]
    truncated: bool
    """There are more than one answer can hold."""
