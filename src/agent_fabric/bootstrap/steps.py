"""What steps of workflows work with, made when the first workflow asks for it: most runs never do."""

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_fabric.application.ports.http import HttpSender
    from agent_fabric.bootstrap.plugins import ActionOffer
    from agent_fabric.infrastructure.packs.steps import StepParts


class LazySteps:
    """Gives the parts of the step pack, and knows the actions that packages have brought along."""

    def __init__(self, sender: "HttpSender", *, shell_timeout_s: float) -> None:
        self._sender = sender
        self._shell_timeout_s = shell_timeout_s

    def __call__(self) -> "StepParts":
        """Return the parts that the steps of all runs share."""
        return self._parts

    @cached_property
    def offers(self) -> "tuple[ActionOffer, ...]":
        """The actions of installed packages; those that cannot be used say why."""
        from agent_fabric.bootstrap.plugins import installed_actions  # noqa: PLC0415 - see above

        return tuple(installed_actions())

    @cached_property
    def _parts(self) -> "StepParts":
        from agent_fabric.infrastructure.packs.steps import StepParts  # noqa: PLC0415 - see above

        return StepParts(
            sender=self._sender,
            actions=tuple(offer.action for offer in self.offers if offer.action is not None),
            shell_timeout_s=self._shell_timeout_s,
        )
