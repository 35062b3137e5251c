"""What the routes about the record and about old runs take and give."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _whole(number: object) -> object:
    """Take 3.0 for 3, as JSON does."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


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
    """Only report what would be removed."""
