"""Secrets as they are shown: names and dates, never values."""

from typing import Annotated

from agent_fabric.application.ports.secrets import StoredSecret
from agent_fabric.application.secrets.rotate_keys import Rotation
from agent_fabric.wire.shape import Listing, Shape

SECRET = Shape(StoredSecret, name="Secret", about="What may be known about a secret.", fixed={"source": "file"})
SECRETS = Listing("secrets", SECRET, name="SecretList", about="All secrets that are kept here.")
ROTATION = Shape(
    Rotation, name="RotationDone", also={"keys": Annotated[list[str], "Short names of all keys, the newest first."]}
)
