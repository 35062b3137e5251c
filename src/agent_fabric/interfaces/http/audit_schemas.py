"""What the routes about the record and about old runs take and give."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

_OUT = ConfigDict(use_attribute_docstrings=True)


def _whole(number: object) -> object:
    """Take 3.0 for 3, as JSON does."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


class ChainVerification(BaseModel):
    """Whether the record is whole."""

    model_config = _OUT

    holds: bool
    runs: int
    """Runs that are there."""
    removed: int
    """Runs that were taken away on purpose, with a tombstone."""
    entries: int
    unknown_key: int
    """Entries that were made with another key, and could not be checked."""
    head: str
    """Hash of the last entry. Kept elsewhere, it shows later whether the record was made anew."""
    damage: list[str]
    """What is not as it was recorded, one sentence each."""


class AdminAct(BaseModel):
    """What somebody did to the server itself."""

    model_config = _OUT

    kind: Literal["admin"]
    created_at: float
    by: str
    """A user's or a key's name, or the owner of the folder."""
    credential: str
    """How they had shown who they are: `local`, `user`, `key` or `external`."""
    act: str
    """Such as `user_added`, `key_revoked`, `secret_set` or `backup_made`."""
    about: str | None
    """Whom or what it was done to."""
    detail: str | None


class AdminActs(BaseModel):
    """What was done to the server itself, the newest first."""

    acts: list[AdminAct]


class GarbageRequest(BaseModel):
    """Which runs are to go."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
        json_schema_extra={"examples": [{"older_than_s": 2_592_000, "keep": 10, "dry_run": True}]},
    )

    older_than_s: Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)] = 30 * 86_400.0
    """Those that settled longer ago than this."""
    keep: Annotated[int, Field(ge=0, le=1_000_000_000), BeforeValidator(_whole)] = 0
    """Of these, the newest ones stay."""
    dry_run: bool = False
    """Only tell what would go."""


class GarbageCollected(BaseModel):
    """Which runs went."""

    removed: list[str]
    freed_bytes: int
    dry_run: bool
