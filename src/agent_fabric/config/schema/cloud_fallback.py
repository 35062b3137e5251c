"""Asking a stronger model when the local one does not manage."""

from typing import Literal

from agent_fabric.config.schema.values import Settings, Text


class CloudFallbackConfig(Settings):
    """When a second model may answer instead. Never used because the local server is down."""

    model_key: Text
    """Key of the model, under `models`, that answers instead."""
    policy: Literal["no_tool_calls", "malformed_args", "always"] = "no_tool_calls"
    """What the local model must have got wrong: `no_tool_calls`, `malformed_args`; `always` needs no reason."""
