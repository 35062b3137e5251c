"""Makes a call of a tool what the policy judges: its command, paths, addresses, and what it would send."""

from collections.abc import Iterator, Mapping
from typing import Any

from agent_fabric.application.tools.call_site import CallSite
from agent_fabric.domain.fleet.chosen_node import machine_of, sent_key, without_machine
from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.labels import machine_source, values_stand_in
from agent_fabric.domain.policy.programs import BOXES
from agent_fabric.domain.tools.specs import Effect, ToolSpec


def proposed(
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
    local = {spec.url_argument, *spec.local_arguments}
    carried = {name: value for name, value in args.items() if name not in local}
    machine = machine_of(spec, args)
    told = without_machine(args) if machine else args
    return ProposedCall(
        tool=spec.name,
        args=args,
        effect=effect,
        command=str(args.get(spec.command_argument, "")) if spec.command_argument else "",
        paths=tuple(_path_arguments(spec, args)),
        urls=urls,
        sends=sends,
        agent=site.agent,
        sandbox=sandbox,
        by_itself=site.by_itself,
        scopes=site.scopes,
        flow=flow,
        server=_carried_out_by(spec, machine),
        sends_to=f"the machine {machine}" if machine and not spec.server else spec.sends_to,
        receiver=str(args.get(spec.receiver_argument, "")) if spec.receiver_argument else "",
        from_task=guarded and values_stand_in(flow.task, told, known),
        sent_before=guarded and bool(machine) and sent_key(spec.name, args) in flow.sent,
        only_address=not guarded or values_stand_in(flow.task, carried, known),
        reads_once=spec.reads_once,
        commands_reach=commands_reach if spec.command_argument and sandbox in BOXES else "",
        workspace=site.target,
        limits=site.limits,
    )


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
