"""What operators send and get over HTTP."""

from pydantic import BaseModel, ConfigDict


class BackupRequest(BaseModel):
    """What to put into a backup."""

    model_config = ConfigDict(extra="forbid", strict=True)

    workspaces: bool = True
