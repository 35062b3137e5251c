"""What it takes to judge a call of a tool.

What the policy sees of it: its command, paths, addresses, and what it would send. Labels: where its results come from,
and which files of a project are third-party text. Whether it leaves the box, and the approval that covers it.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from agent_fabric.application.ports.file_origins import FileOrigins
from agent_fabric.application.ports.outside import OutsideCommands
from agent_fabric.application.tools.call_site import CallSite
from agent_fabric.domain.approvals.answers import Decision, Question, approval_id, binding
from agent_fabric.domain.approvals.events import ApprovalRequested
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.fleet.chosen_node import machine_of, sent_key, without_machine
from agent_fabric.domain.models.messages import ToolCallRequest
from agent_fabric.domain.policy.calls import ProposedCall, argument_hash
from agent_fabric.domain.policy.labels import NO_BOX, WORKSPACE_FILES, machine_source, values_stand_in
from agent_fabric.domain.policy.outside_plan import CannotRunOutside, Outside
from agent_fabric.domain.policy.programs import BOXES
from agent_fabric.domain.policy.verdicts import Ruling
from agent_fabric.domain.secrets.references import secrets_in
from agent_fabric.domain.tools.project_notes import notes_about
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult, ToolSpec, Trust

if TYPE_CHECKING:  # what reads command lines takes its time
    from agent_fabric.domain.policy.outside import OutsideCall


def propose(
    spec: ToolSpec, args: Mapping[str, Any], site: CallSite, sandbox: str, *, commands_reach: str = ""
) -> ProposedCall:
    """Return a call as the policy sees it."""
    urls = (str(args[spec.url_argument]),) if args.get(spec.url_argument) else ()
    effect, sends = spec.effect, ""
    if spec.method_argument:
        from agent_fabric.domain.policy.requests import request_from  # noqa: PLC0415 - few calls are requests

        url, sends = request_from(args, url_argument=spec.url_argument, method_argument=spec.method_argument)
        urls, effect = (url,), effect if sends else Effect.IDEMPOTENT
    flow = site.flow
    guarded = bool(flow.exposed and flow.private)
    known = (spec.parameters.get("properties") or {}).keys()
    machine = machine_of(spec, args) if spec.trust is Trust.NODE else ""
    told = without_machine(args) if machine else args
    return ProposedCall(
        tool=spec.name,
        args=args,
        effect=effect,
        command=str(args.get(spec.command_argument, "")) if spec.command_argument else "",
        paths=tuple(_path_arguments(spec, args)) if spec.path_arguments else (),
        urls=urls,
        sends=sends,
        agent=site.agent,
        sandbox=sandbox,
        by_itself=site.by_itself,
        scopes=site.scopes,
        flow=flow,
        server=_carried_out_by(spec, machine) if machine or spec.server else "",
        sends_to=f"the machine {machine}" if machine and not spec.server else spec.sends_to,
        receiver=str(args.get(spec.receiver_argument, "")) if spec.receiver_argument else "",
        from_task=guarded and values_stand_in(flow.task, told, known),
        sent_before=guarded and bool(machine) and sent_key(spec.name, args) in flow.sent,
        only_address=not guarded or values_stand_in(flow.task, _carried_elsewhere(spec, args), known),
        reads_once=spec.reads_once,
        commands_reach=commands_reach if spec.command_argument and sandbox in BOXES else "",
        workspace=site.target,
        limits=site.limits,
        plans=site.plans,
    )


def _carried_elsewhere(spec: ToolSpec, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a call carries beside its address and what stays here."""
    local = {spec.url_argument, *spec.local_arguments}
    return {name: value for name, value in args.items() if name not in local}


def _carried_out_by(spec: ToolSpec, machine: str) -> str:
    """Name who carries a call out; a tool server on a machine is the machine."""
    if machine:
        return machine_source(machine)
    return f"{spec.trust.value}: {spec.server}" if spec.server else ""


def _path_arguments(spec: ToolSpec, args: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paths of a call; a folder that is left out is the one that the tool takes by default."""
    known = spec.parameters.get("properties") or {}
    for name in spec.path_arguments:
        path = args.get(name) or (known.get(name) or {}).get("default")
        if path:
            yield str(path)


async def note_files(files: FileOrigins | None, spec: ToolSpec, call: ProposedCall, site: CallSite) -> str:
    """Return why the files that a call may read are strangers' text, and note that it may make them so.

    Raises:
        StoreUnavailable: neither can be done, so the call must not run.
    """
    if files is None or WORKSPACE_FILES not in site.flow.private:
        return ""
    return await asyncio.to_thread(_look_at_files, files, spec, call, site)


def _look_at_files(files: FileOrigins, spec: ToolSpec, call: ProposedCall, site: CallSite) -> str:
    exposes = ""
    if spec.trust.vouched_for and not site.flow.results:
        paths = [call.from_workspace(path) for path in call.paths] or ["."]
        exposes = files.exposing(site.target, [*paths, *notes_about(paths)], reader=site.run_id)
    if may_bring_text(spec, call, site):
        files.may_write(site.target, site.run_id, site.root or site.run_id)
    return exposes


def may_bring_text(spec: ToolSpec, call: ProposedCall, site: CallSite) -> bool:
    """Tell whether a call may write strangers' text into files of the workspace.

    A run that has pushed has read what the other side said. It still writes nothing with `git status`.
    """
    if site.outside is not None:
        return site.outside.brings_files
    if spec.effect is Effect.READS or not (site.flow.exposed or not spec.trust.vouched_for):
        return False
    return not (call.command and _only_reads(call.command))


def _only_reads(command: str) -> bool:
    from agent_fabric.domain.policy.command_lines.invocation import UnparsableCommand  # noqa: PLC0415 - few runs ask this
    from agent_fabric.domain.policy.command_lines.wrappers import started_by  # noqa: PLC0415 - as above
    from agent_fabric.domain.policy.read_only import only_reads  # noqa: PLC0415 - as above

    try:
        return all(map(only_reads, started_by(command)))
    except UnparsableCommand:
        return False


def origin_of(spec: ToolSpec, judged: ProposedCall, exposes: str, origin: str = "") -> str:
    """Say where text came from that is not vouched for; empty: the owner or the workspace wrote it."""
    if spec.trust is Trust.NODE and judged.server:
        return judged.server
    return exposes if spec.trust.vouched_for else f"{spec.trust.value}: {spec.server or origin or spec.name}"


def is_from_outside(spec: ToolSpec) -> bool:
    """Tell whether addresses in a result count as read; a machine prints what a command of the model made."""
    if spec.trust.vouched_for or spec.trust is Trust.NODE:
        return False
    return not spec.server or bool(spec.sends_to)


def private_source(spec: ToolSpec, judged: ProposedCall, *, boxed: bool) -> str:
    """Say where a call has read what the world must not have, apart from the workspace."""
    if spec.trust is Trust.NODE and judged.server:
        return judged.server
    if spec.server and spec.private:
        return f"{spec.trust.value}: {spec.server}"
    return NO_BOX if spec.command_argument and not boxed else ""


STAYS_INSIDE = (
    "It needs the network, which commands in the box do not have, and this run may not leave its box. Do not try it "
    "again: name the command in your result, for a person to run."
)


def command_that_leaves(call: ProposedCall, site: CallSite) -> "OutsideCall | None":
    """Return the command that runs outside the box once a person has agreed; None: the call stays in the box.

    Raises:
        CannotRunOutside: it needs the outside, and cannot run there.
    """
    if not call.command or call.sends_to or secrets_in(call.args):
        return None  # what goes to a machine of the fleet runs there
    if not site.outside_allowed and call.sandbox not in BOXES:
        return None  # commands have the network where there is no box
    from agent_fabric.domain.policy.outside import outside_call  # noqa: PLC0415 - see above

    try:
        return outside_call(call.command)
    except CannotRunOutside:
        if not site.outside_allowed:
            raise CannotRunOutside(STAYS_INSIDE, proposal=call.command) from None
        if call.sandbox in BOXES:  # elsewhere commands have the network
            raise
        return None


def as_shown(site: CallSite) -> CallSite:
    """Return the site of a call that leaves the box: only what a person was shown whole counts.

    Neither an agreement for the rest of the run does, nor one to arguments that the person has changed.
    """
    asked, decided = site.asked, site.decided
    if asked is None or decided is None or decided.args not in (None, asked.args):
        return site._replace(grants=(), decided=None)
    return site._replace(grants=(), outside=asked.outside)


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


@dataclass(frozen=True, slots=True)
class Agreement:
    """A person has agreed."""

    approval_id: str
    by: str


def seek_agreement(
    site: CallSite,
    call: ToolCallRequest,
    args: Mapping[str, Any],
    ruling: Ruling,
    *,
    policy_version: str,
    sandbox: str,
    expires_at: float,
    question: Question,
) -> Agreement | ApprovalRequested:
    """Return the agreement that covers a call, or the question that a person has to answer.

    What was agreed to is this very call under these very rules: other arguments, another place, a box of another level
    or another policy, and the person is asked again. What runs outside the box is never covered by an agreement for
    the rest of the run.
    """
    outside = site.outside

    def bound_to(arguments: Mapping[str, Any]) -> str:
        return binding(
            run_id=site.run_id,
            lane=site.lane,
            step=site.step,
            call_id=call.call_id,
            tool=call.tool,
            args=arguments,
            target=f"{sandbox} {site.target}" if outside is None else f"outside {outside.digest} {site.target}",
            policy_version=policy_version,
        )

    asked, decided = site.asked, site.decided
    if asked is not None and decided is not None and decided.decision is Decision.APPROVE:
        meant = asked.args if decided.args is None else decided.args
        if asked.binding == bound_to(asked.args) and argument_hash(meant) == argument_hash(args):
            return Agreement(decided.approval_id, decided.by)
    if question is Question.MAY_IT_RUN and outside is None:
        for grant in site.grants:
            if grant.covers(call.tool, ruling):
                return Agreement(grant.approval_id, grant.by)
    bound = bound_to(args)
    return ApprovalRequested(
        approval_id=approval_id(bound, question, site.attempt),
        call_id=call.call_id,
        tool=call.tool,
        args=args,
        question=question,
        reason=ruling.reason,
        rule=ruling.rule,
        subject=ruling.subject,
        alike=ruling.alike if question is Question.MAY_IT_RUN and outside is None else "",
        agent=site.agent,
        target=site.target,
        sandbox=sandbox,
        untrusted=tuple(site.flow.exposed),
        private=tuple(site.flow.private),
        policy_version=policy_version,
        binding=bound,
        args_hash=argument_hash(args),
        expires_at=expires_at,
        outside=outside,
    )
