"""What goes in and out of the routes of secrets."""

from typing import Literal

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


class Secret(BaseModel):
    """What may be known about a secret."""

    name: str
    source: Literal["file"]
    created_at: float
    updated_at: float


class SecretList(BaseModel):
    """All secrets that are kept here."""

    secrets: list[Secret]


class RotationDone(BaseModel):
    """What a rotation did."""

    generation: str = Field(description="Short name of the key that everything is sealed with now.")
    new_key: bool = Field(description="Whether it was made just now; keys of `ENCRYPTION_KEY` are yours to make.")
    secrets: int = Field(description="How many secrets were sealed anew.")
    runs: int = Field(description="How many encrypted runs were sealed anew.")
    keys: list[str] = Field(description="Short names of all keys, the newest first.")
