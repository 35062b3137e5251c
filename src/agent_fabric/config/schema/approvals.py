"""Approvals: who may answer what a run asks."""

from agent_fabric.config.schema.declared import Settings


class ApprovalsConfig(Settings):
    """Who may answer what a run asks. The scope `approvals` is needed in any case."""

    four_eyes: bool = False
    """Whether someone else than the one whose run asks has to approve. Denying is always allowed."""
