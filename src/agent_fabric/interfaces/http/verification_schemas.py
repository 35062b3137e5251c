"""What the route about claims gives."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

_OUT = ConfigDict(use_attribute_docstrings=True)


class CheckedClaim(BaseModel):
    """One thing that a run says."""

    model_config = _OUT

    about: str
    standing: Literal["holds", "fails", "open"]
    """`open`: there was nothing to check it against."""
    detail: str


class RunVerification(BaseModel):
    """What became of checking a run."""

    model_config = _OUT

    run_id: str
    status: str
    specialist_ids: list[str]
    prompt: str
    holds: bool
    """Every claim that could be checked is borne out."""
    events: int
    last_hash: str
    """Of the log, as it was recomputed."""
    claims: list[CheckedClaim]
