"""Commands that leave the box: which they are, and what of a person's answers counts for them."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from agent_fabric.application.ports.outside import OutsideCommands
from agent_fabric.application.tools.call_site import CallSite
from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.outside_plan import CannotRunOutside, Outside
from agent_fabric.domain.policy.programs import BOXES
from agent_fabric.domain.secrets.references import secrets_in
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult

if TYPE_CHECKING:  # what reads command lines takes its time
    from agent_fabric.domain.policy.outside import OutsideCall


def command_that_leaves(call: ProposedCall, site: CallSite) -> "OutsideCall | None":
    """Return the command that runs outside the box once a person has agreed; None: the call stays in the box.

    Raises:
        CannotRunOutside: it needs the outside, and cannot run there.
    """
    if not site.outside_allowed or not call.command or call.sends_to or secrets_in(call.args):
        return None  # what goes to a machine of the fleet runs there
    from agent_fabric.domain.policy.outside import outside_call  # noqa: PLC0415 - see above

    try:
        return outside_call(call.command)
    except CannotRunOutside:
        if call.sandbox in BOXES:  # elsewhere commands have the network
            raise
        return None


def as_shown(site: CallSite) -> CallSite:
    """Return the site of a call that leaves the box: only what a person was shown whole counts.

    Neither an agreement for the rest of the run does, nor one to arguments that the person has changed.
    """
    asked, decided = site.asked, site.decided
    if asked is None or decided is None or decided.args not in (None, asked.args):
        return replace(site, grants=(), decided=None)
    return replace(site, grants=(), outside=asked.outside)


def run_outside(
    outside: OutsideCommands, call: "OutsideCall", site: CallSite, context: ToolContext
) -> Callable[[], Coroutine[Any, Any, ToolResult]] | None:
    """Return what runs a call that a person has agreed to; None: it needs nothing outside the workspace."""
    if site.outside is None:
        return None
    return partial(outside.run, site.outside, call, site.run_id, site.target, timeout_s=context.timeout_s)


def acts_at(judged: ProposedCall, outside: Outside | None, args: Mapping[str, Any], *, boxed: bool) -> str:
    """Say where a call acts outside this machine; empty: nowhere that is known."""
    if outside is not None:
        return outside.goes_to or outside.words[0]
    if judged.effect is Effect.LEAVES_SANDBOX or (judged.sends_to and judged.effect is not Effect.READS):
        return judged.destination or str(args.get("node") or judged.server or judged.tool)
    if not judged.command or (boxed and not judged.commands_reach):
        return ""
    from agent_fabric.domain.runs.done_again import outward_effect_of  # noqa: PLC0415 - boxes seldom let out

    effect = outward_effect_of(judged.command)
    return judged.commands_reach or effect if effect else ""
