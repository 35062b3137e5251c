"""What goes in and out of the routes of secrets."""

from pydantic import BaseModel, ConfigDict, Field

from agent_fabric.domain.secrets import SHORTEST_NAMED
from agent_fabric.infrastructure.secrets.encrypted_file import MAX_BYTES


class SecretValue(BaseModel):
    """A secret to be kept."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)

    value: str = Field(
        min_length=SHORTEST_NAMED,
        max_length=MAX_BYTES,
        pattern=r"^[^\x00]*\S[^\x00]{2,}\S[^\x00]*$",
        description="At least four characters between blanks. No route ever gives it back.",
    )
