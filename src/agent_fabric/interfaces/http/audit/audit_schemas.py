"""What the routes about the record and about old runs take and give."""

from typing import Annotated

from pydantic import Field

from agent_fabric.interfaces.http.bodies import WHOLE, RequestBody


class GarbageRequest(
    RequestBody, json_schema_extra={"examples": [{"older_than_s": 2_592_000, "keep": 10, "dry_run": True}]}
):
    """Which runs are to go."""

    older_than_s: Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)] = 30 * 86_400.0
    """Those that settled longer ago than this."""
    keep: Annotated[int, Field(ge=0, le=1_000_000_000), WHOLE] = 0
    """Of these, the newest ones stay."""
    dry_run: bool = False
    """Only report what would be removed."""
