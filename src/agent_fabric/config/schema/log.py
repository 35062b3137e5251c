"""The log that operators read."""

from typing import Literal

from agent_fabric.config.schema.values import AbsolutePath, Settings


class LogConfig(Settings):
    """The operations log of the program. What runs do is in their own logs."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important lines that are written."""
    format: Literal["auto", "pretty", "json"] = "auto"
    """`json`: one object a line, for programs; `pretty`: for people; `auto`: pretty on a terminal, JSON elsewhere."""
    file: AbsolutePath | None = None
    """File to append to; opened anew when it was rotated. Not set: `fabric serve` writes to standard error, and
    commands that a person waits for write no log."""
