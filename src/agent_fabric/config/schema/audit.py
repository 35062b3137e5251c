"""The audit chain."""

from typing import Self

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.declared import Settings, model_validator
from agent_fabric.config.schema.values import SecretReference, Texts


class AuditConfig(Settings):
    """Where the head of the audit chain goes besides your own data folder."""

    head_to: Texts = ()
    """Places that get each new head: `syslog`, addresses of webhooks (`https://…`), and absolute paths of files that
    lines are appended to, best on another machine."""
    secret: SecretReference | None = None
    """What messages to webhooks are signed with; not set: they are not signed."""

    @model_validator(mode="after")
    def _are_places(self) -> Self:
        for place in self.head_to:
            if place != "syslog" and not place.startswith(("https://", "http://", "/")):
                raise ConfigProblem(
                    "has a `head_to` that is neither 'syslog' nor the address of a webhook nor an absolute path"
                )
        return self
