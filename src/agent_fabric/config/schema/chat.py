"""Conversations with people."""

from agent_fabric.config.schema.declared import Field, Settings


class ChatConfig(Settings):
    """How sessions are led."""

    max_turns: int = Field(default=15, ge=1, le=50)
    """Model answers of one turn, tool calls included, before it ends."""
    pack: str = ""
    """The specialist of sessions that name none; empty: one is chosen by what is said first."""
    title_model_key: str = ""
    """The configured model that names sessions after their first answer; empty: the first words are the title."""
