"""What the routes about models take."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints


class ProbeRequest(BaseModel):
    """Which model is asked."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
        json_schema_extra={"examples": [{"key": "quality"}]},
    )

    key: Annotated[str, StringConstraints(max_length=200)] | None = None
    """A key of `models`; by default the one that works."""
