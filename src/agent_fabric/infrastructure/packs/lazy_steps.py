"""What steps of workflows work with, made when the first workflow asks for it: most runs never do."""

from functools import cached_property
from typing import TYPE_CHECKING

from agent_fabric.domain.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent_fabric.application.channels.notify_user import NotifyUser
    from agent_fabric.application.fleet.fleet_policy import FleetDoor
    from agent_fabric.application.ports.http import HttpSender
    from agent_fabric.application.ports.packs import SpecialistPack
    from agent_fabric.application.ports.sandbox import Sandbox
    from agent_fabric.domain.tools.specs import ToolSpec
    from agent_fabric.infrastructure.packs.plugins import ActionOffer
    from agent_fabric.infrastructure.tools.tool_objects import ToolFunction


@dataclass(frozen=True)
class LazySteps:
    """Builds the pack for steps, and knows the actions that packages have brought along."""

    sender: "HttpSender"
    shell_timeout_s: float
    fleet: "FleetDoor | None" = None
    notify: "Callable[[], NotifyUser] | None" = None

    def __call__(self, sandbox: "Sandbox", memory: "Sequence[tuple[ToolSpec, ToolFunction]]" = ()) -> "SpecialistPack":
        """Return the pack for the steps of a run, with tools of memory."""
        from agent_fabric.infrastructure.packs.step_pack import step_pack  # noqa: PLC0415 - see above

        actions = tuple(offer.action for offer in self.offers if offer.action is not None)
        more: tuple[tuple[ToolSpec, ToolFunction], ...] = tuple(memory)
        if self.fleet is not None:
            from agent_fabric.infrastructure.packs import sysadmin  # noqa: PLC0415 - see above

            more += (
                sysadmin.node_command_tool(self.fleet),
                sysadmin.node_run_tool(self.fleet),
                sysadmin.fleet_plan_tool(self.fleet),
            )
        if self.notify is not None:
            from agent_fabric.infrastructure.tools.send_message import SEND_MESSAGE, SendMessage  # noqa: PLC0415 - see above

            more = (*more, (SEND_MESSAGE, SendMessage(self.notify())))
        return step_pack(sandbox, sender=self.sender, actions=actions, shell_timeout_s=self.shell_timeout_s, more=more)

    @cached_property
    def offers(self) -> "tuple[ActionOffer, ...]":
        """The actions of installed packages; those that cannot be used say why."""
        from agent_fabric.infrastructure.packs.plugins import installed_actions  # noqa: PLC0415 - see above

        return tuple(installed_actions())
