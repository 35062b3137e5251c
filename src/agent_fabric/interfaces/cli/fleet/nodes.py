"""`fabric nodes`: machines of the fleet, from the first invitation to their audit."""

import asyncio
import json
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent_fabric.bootstrap.this_machine import approval_signer, node_program_hash
from agent_fabric.domain.errors import ConfigError, FabricError
from agent_fabric.domain.fleet.binding import timeout_of
from agent_fabric.interfaces.cli.durations import minute, seconds_in
from agent_fabric.interfaces.cli.fleet.hub import at_server, has_hub, refuse_unknown
from agent_fabric.interfaces.cli.fleet.node_audit import audit
from agent_fabric.interfaces.cli.fleet.node_files import copy, output
from agent_fabric.interfaces.cli.fleet.node_policy import TRUST_WORDS, policy
from agent_fabric.interfaces.cli.fleet.node_shell import shell
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED, WAITING
from agent_fabric.interfaces.cli.options import is_confirmed, require_a_person
from agent_fabric.interfaces.cli.output import plain, print_error, print_json
from agent_fabric.interfaces.cli.place import Hub, Place, PlainHub

if TYPE_CHECKING:
    from agent_fabric.client import FabricClient
    from agent_fabric.wire.shape import Json

app = new_app(
    "Operate machines: list, show, exec, shell, cp, output, tools, call, queue, rename, label, policy, invite, rotate, "
    "revoke, resolve, audit, release and upgrade."
)
NodeArgument = Annotated[str, typer.Argument(metavar="NODE", help="The name of a node, or its id.")]
Selector = Annotated[str, typer.Argument(metavar="SELECTOR", help="A name, role=web,env!=dev, or all.")]

app.command("cp")(copy)
app.command()(output)
app.command()(policy)
app.command()(shell)


@app.command()
def release(
    sign: Annotated[str, typer.Option("--sign", metavar="KEY", help="The private key that nodes know you by.")],
) -> int:
    """Sign the node's program that belongs to this installation, and print the release as JSON."""
    from agent_fabric import __version__  # noqa: PLC0415 - few sign
    from agent_fabric.domain.fleet.releases import RELEASE_NAMESPACE, Release  # noqa: PLC0415 - as above

    require_a_person()
    unsigned = Release(version=__version__, sha256=node_program_hash(), released_at=int(time.time()))
    signer = approval_signer(Path(sign), RELEASE_NAMESPACE)
    print_json({**unsigned.plain(), "signature": asyncio.run(signer.sign(unsigned.message))})
    return COMPLETED


@app.command()
def upgrade(
    selector: Selector,
    file: Annotated[str, typer.Option("--release", metavar="FILE", help="From `fabric nodes release`.")],
    canary: Annotated[int, typer.Option("--canary", help="How many machines go first.")] = 1,
    waves: Annotated[str, typer.Option("--waves", help="Shares of all, growing.")] = "10%,50%,100%",
    max_errors: Annotated[int, typer.Option("--max-errors", help="One more halts it.")] = 0,
    *,
    at: Hub,
) -> int:
    """Freeze a plan that upgrades machines. A node whose new program does not work is the old one again."""
    require_a_person()
    try:
        signed = json.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise ConfigError(f"{file} cannot be read: {problem}") from None
    wish = {
        "selector": selector,
        "name": f"upgrade to {signed.get('version', '')}" if isinstance(signed, dict) else "upgrade",
        "tool_name": "upgrade",
        "arguments": signed,
        "canary": canary,
        "waves": [each.strip() for each in waves.split(",")],
        "max_errors": max_errors,
    }
    plan = at_server(at, lambda client: client.nodes.freeze_plan(wish))
    names = ", ".join(str(call["node"]) for call in plan["calls"])
    return at.print(plan, f"{plain(plan['name'])}: {plain(names)}\nApply it: fabric fleet apply {plain(plan['id'])}\n")


app.command()(audit)


@app.command()
def tools(node: NodeArgument, *, at: Hub) -> int:
    """List the tools of MCP servers on a machine.

    Exit codes: 0 all servers have answered, 1 one has not.
    """
    found = at_server(at, lambda client: client.nodes.tools(node))
    abouts = [(tool["name"], tool["description"].partition("\n")[0]) for tool in found["tools"]]
    lines = [f"{plain(name):<40}  {plain(about)}\n" for name, about in abouts]
    if not found["tools"] and not found["problems"]:
        lines.append(f"{plain(node)} has no MCP servers. They stand in mcp_config.json of its folder.\n")
    at.print(found, "".join(lines))
    for problem in found["problems"]:
        sys.stderr.write(f"{plain(problem)}\n")
    return FAILED if found["problems"] else COMPLETED


@app.command()
def call(
    node: NodeArgument,
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="SERVER.tool, or a tool of the node itself.")],
    arguments: Annotated[str, typer.Argument(metavar="[JSON]", help="Its arguments: a JSON object.")] = "{}",
    timeout: Annotated[str, typer.Option("--timeout", metavar="TIME", help="How long to wait for it.")] = "60s",
    *,
    at: Hub,
) -> int:
    """Call a tool on a machine, such as one of its MCP servers.

    Exit codes: 0 it succeeded, 1 it failed, 3 a person has to approve it.
    """
    wish = {"tool_name": tool, "arguments": _tool_arguments(arguments)}
    outcome = at_server(at, lambda client: client.nodes.execute(node, wish, timeout_s=seconds_in(timeout)))
    if at.as_json:
        print_json(outcome)
    if "result" not in outcome:
        approval = f" Approve it: fabric approvals approve {outcome['approval_id']}" if outcome["approval_id"] else ""
        sys.stderr.write(f"{plain(node)}: {outcome['status']} ({outcome['execution_id']}). {approval.strip()}\n")
        return WAITING
    result = outcome["result"] or {}
    answer = result.get("output", {key: result[key] for key in ("stdout", "stderr") if key in result})
    failed = outcome["status"] != "success" or (isinstance(answer, dict) and "error" in answer)
    if not at.as_json:
        sys.stdout.write("".join(f"{plain(line)}\n" for line in _answer_text(answer).splitlines()))
    if failed:
        sys.stderr.write(f"{plain(node)}: {outcome['status']}: {plain(str(result.get('error', '')))}\n")
    return FAILED if failed else COMPLETED


def _tool_arguments(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as problem:
        raise ConfigError(f"The arguments are no JSON: {problem}", hint="""For example: '{"path": "/"}'""") from None
    if not isinstance(value, dict):
        raise ConfigError("The arguments are no JSON object", hint="""For example: '{"path": "/"}'""")
    return value


def _answer_text(answer: Any) -> str:
    """Return what a person reads of an answer: the text of a tool, otherwise everything."""
    match answer:
        case {"result": {"content": [*items]}} if items and all(map(_is_text, items)):
            return "\n".join(str(each["text"]) for each in items)
        case _:
            return json.dumps(answer, ensure_ascii=False, indent=2)


def _is_text(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == "text" and "text" in item


@app.command("list")
def list_(
    selector: Annotated[str, typer.Argument(metavar="[SELECTOR]", help="A name, role=web,env!=dev, or all.")] = "all",
    revoked: Annotated[bool, typer.Option("--revoked", help="Include revoked ones.")] = False,
    *,
    at: Hub,
) -> int:
    """List machines: status, when each was last seen, labels."""
    nodes = _list_nodes(at, selector, revoked=revoked)
    text = "".join(map(_line, nodes))
    return at.print(nodes, text or "There are no machines yet. Invite one: fabric nodes invite\n")


def _line(node: "Json") -> str:
    note = f"  {plain(node['note'])}" if node["note"] else ""
    name, status = plain(node["name"]), plain(node["status"])
    return f"{name:<24}  {status:<8}  {_moment(node['last_seen']):<16}  {_label_text(node)}{note}\n"


def _label_text(node: "Json") -> str:
    return plain(",".join(f"{key}={value}" for key, value in sorted(node["labels"].items())))


def _list_nodes(at: Place, selector: str, *, revoked: bool) -> "list[Json]":
    """Ask the hub; without one, read what the folder knows of its machines."""
    if has_hub(at):
        return at_server(at, lambda client: client.nodes.list(selector, revoked=revoked))
    from agent_fabric.bootstrap.records import open_records  # noqa: PLC0415 - only without a server
    from agent_fabric.domain.fleet.nodes import select_nodes  # noqa: PLC0415 - as above
    from agent_fabric.wire.nodes import NODE  # noqa: PLC0415 - as above

    root = at.root()
    if not root.exists():
        return []
    with open_records(root) as records:
        found = select_nodes(selector, asyncio.run(records.storage.nodes.list(revoked=revoked)))
        return [NODE.dump(node) for node in found]


@app.command()
def show(node: NodeArgument, *, at: Hub) -> int:
    """Show everything that is known about a machine."""
    found = at_server(at, lambda client: client.nodes.show(node))
    times = {key: _moment(found[key]) for key in ("last_seen", "created_at") if key in found}
    texts = {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for key, value in {**found, **times}.items()
    }
    return at.print(found, "".join(f"{key:<22} {plain(text)}\n" for key, text in texts.items()))


@app.command()
def invite(
    name: Annotated[str, typer.Option("--name", help="The name of the node.")] = "",
    label: Annotated[list[str] | None, typer.Option("--label", metavar="K=V", help="Repeatable: a label.")] = None,
    uses: Annotated[int, typer.Option("--uses", help="How many machines may use it.")] = 1,
    expires: Annotated[str, typer.Option("--expires", metavar="AGE", help="How long it is valid: 30m, 1h, 7d.")] = "1h",
    confirm: Annotated[bool, typer.Option("--confirm", help="A person confirms each machine.")] = False,
    *,
    at: Hub,
) -> int:
    """Print one line that makes a machine a node: run it there."""
    require_a_person()
    wish = {
        "name": name,
        "labels": _labels(label or ()),
        "uses": uses,
        "expires_in_s": seconds_in(expires),
        "confirm": confirm,
    }
    made = at_server(at, lambda client: client.nodes.invite(wish))
    if at.as_json:
        return print_json(made)
    sys.stderr.write(f"Run this on the machine; it is valid until {_moment(made['expires_at'])}:\n")
    sys.stderr.flush()
    sys.stdout.write(f"{plain(made['command'])}\n")
    return COMPLETED


@app.command("exec", context_settings={"ignore_unknown_options": True})
def exec_(
    selector: Selector,
    command: Annotated[list[str], typer.Argument(metavar="COMMAND…", help="What to run; write -- before it.")],
    queue: Annotated[bool, typer.Option("--queue", help="Wait for machines that are offline.")] = False,
    expires: Annotated[str, typer.Option("--expires", metavar="AGE", help="Until when it may begin.")] = "1h",
    timeout: Annotated[str, typer.Option("--timeout", metavar="TIME", help="How long it may take.")] = "60s",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show machines and what the policy says.")] = False,
    *,
    at: Hub,
) -> int:
    """Run a command on machines. One word is a command line; several are taken as they are.

    Exit codes: 0 all succeeded, 1 one failed, 2 no machine fits, 3 a person has to approve it.
    """
    line = command[0] if len(command) == 1 else shlex.join(command)
    wish = {
        "tool_name": "run_command",
        "arguments": {"command": line, "timeout_s": seconds_in(timeout)},
        "queue": queue,
        "expires_in_s": seconds_in(expires),
        "dry_run": dry_run,
    }
    outcomes = at_server(at, lambda client: _everywhere(client, selector, wish))
    if at.as_json:
        print_json([{"node": node, **_plain_outcome(outcome)} for node, outcome in outcomes])
    else:
        for node, outcome in outcomes:
            _print_outcome(node, outcome, alone=len(outcomes) == 1)
    return max(map(_exit_code, (outcome for _, outcome in outcomes)), key=(COMPLETED, WAITING, FAILED).index)


async def _everywhere(
    client: "FabricClient", selector: str, wish: Mapping[str, Any]
) -> "list[tuple[str, Json | FabricError]]":
    outcomes = await client.nodes.execute_on(selector, wish, timeout_s=timeout_of(wish["arguments"]))
    return [(each["node"], await _outcome(client, each)) for each in outcomes]


async def _outcome(client: "FabricClient", told: "Json") -> "Json | FabricError":
    """Return what came of a command on one machine, as the door for one machine tells it."""
    from agent_fabric.client.problems import error_from  # noqa: PLC0415 - only with a server

    if told["problem"] is not None:
        return error_from(told["problem"])
    if told["omitted"]:  # too long for one answer
        return await client.nodes.command(told["node"], told["command"]["execution_id"])
    outcome: Json = told["command"] or told["asked"]
    return outcome


def _plain_outcome(outcome: "Json | FabricError") -> dict[str, Any]:
    if isinstance(outcome, FabricError):
        error = {"code": outcome.code, "message": outcome.message, "hint": outcome.hint}
        return {"status": "error", "error": error}
    return dict(outcome)


def _exit_code(outcome: "Json | FabricError") -> int:
    if isinstance(outcome, FabricError):
        return FAILED
    if "result" not in outcome:
        return COMPLETED if outcome["status"] in {"allow", "ask", "block"} else WAITING
    return COMPLETED if outcome["status"] == "success" else FAILED


def _print_outcome(node: str, outcome: "Json | FabricError", *, alone: bool) -> None:
    if isinstance(outcome, FabricError):
        sys.stderr.write(f"{plain(node)}: ")
        print_error(outcome, as_json=False)
        return
    prefix = "" if alone else f"{plain(node)}: "
    if "result" not in outcome:
        approval = f" Approve it: fabric approvals approve {outcome['approval_id']}" if outcome["approval_id"] else ""
        reason = plain(outcome["reason"])
        sys.stderr.write(f"{plain(node)}: {outcome['status']} ({outcome['execution_id']}). {reason}{approval}\n")
        return
    result = outcome["result"] or {}
    sys.stderr.flush()
    for line in str(result.get("stdout", "")).splitlines():
        sys.stdout.write(f"{prefix}{plain(line)}\n")
    sys.stdout.flush()
    for line in str(result.get("stderr", "")).splitlines():
        sys.stderr.write(f"{prefix}{plain(line)}\n")
    if outcome["status"] != "success":
        said = result.get("error") or f"exit code {result.get('exit_code')}"
        sys.stderr.write(f"{plain(node)}: {outcome['status']}: {plain(str(said))}\n")


@app.command()
def queue(
    node: NodeArgument,
    everything: Annotated[bool, typer.Option("--all", help="Include settled ones.")] = False,
    cancel: Annotated[str | None, typer.Option("--cancel", metavar="ID", help="Cancel this command.")] = None,
    *,
    at: Hub,
) -> int:
    """Show the commands of a machine that are not settled, or cancel one."""

    async def go(client: "FabricClient") -> "Sequence[Json]":
        if cancel is not None:
            return [await client.nodes.cancel(node, cancel)]
        return await client.nodes.commands(node, open_only=not everything)

    found = at_server(at, go)
    return at.print(found, "".join(map(_command_line, found)) or "Nothing waits.\n")


def _command_line(each: "Json") -> str:
    said = each["arguments"].get("command") or each["arguments"].get("path") or ""
    about = f"(private, of {plain(each['requested_by'])})" if each.get("withheld") else plain(str(said))
    when = _moment(each["created_at"])
    return f"{each['execution_id']}  {each['status']:<9}  {when}  {each['tool_name']}  {about}\n"


@app.command()
def rename(node: NodeArgument, name: Annotated[str, typer.Argument(metavar="NAME")], *, at: PlainHub) -> int:
    """Give a machine another name."""
    changed = at_server(at, lambda client: client.nodes.change(node, {"name": name}))
    sys.stdout.write(f"{plain(changed['name'])} ({changed['id']})\n")
    return COMPLETED


@app.command()
def label(
    selector: Selector,
    labels: Annotated[list[str], typer.Argument(metavar="K=V…", help="Labels to set; K- removes one.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Trust machines without being asked again.")] = False,
    *,
    at: PlainHub,
) -> int:
    """Set and remove labels of machines. `trusted=true` (or `text`, `data`) is for admins and asks again."""
    removed = {each[:-1]: None for each in labels if each.endswith("-") and "=" not in each}
    changes = {**_labels([each for each in labels if "=" in each]), **removed}
    if len(changes) != len(labels):
        raise ConfigError("A label is name=value; name- removes one", hint="For example: role=web env=prod old-")

    if changes.get("trusted") is not None and not _trusts(at, selector, str(changes["trusted"]), yes=yes):
        sys.stderr.write("Nothing was changed.\n")
        return FAILED

    async def go(client: "FabricClient") -> "list[Json]":
        return [
            await client.nodes.change(node["id"], {"labels": changes}) for node in await client.nodes.list(selector)
        ]

    changed = at_server(at, go)
    refuse_unknown(selector, changed)
    for node in changed:
        sys.stdout.write(f"{plain(node['name'])}: {_label_text(node)}\n")
    return COMPLETED


def _trusts(at: Place, selector: str, what: str, *, yes: bool) -> bool:
    """Show which machines would be trusted with what, and ask whether that is meant."""
    require_a_person()
    if what not in TRUST_WORDS or not what:
        raise ConfigError(f"trusted={what} means nothing", hint="Write trusted=true, trusted=text or trusted=data.")
    names = [plain(node["name"]) for node in _list_nodes(at, selector, revoked=False)]
    sys.stderr.write(f"Trust {', '.join(names) or 'no machine'}: {TRUST_WORDS[what]}.\n")
    return is_confirmed("Trust them?", yes=yes, hint="Add it if you trust these machines.")


@app.command()
def rotate(selector: Selector, *, at: PlainHub) -> int:
    """Give machines new keys, each signed by the old one."""
    require_a_person()

    async def go(client: "FabricClient") -> "list[Json]":
        return [await client.nodes.rotate(node["id"]) for node in await client.nodes.list(selector)]

    return _print_named(at_server(at, go), selector, "has a new key")


@app.command()
def revoke(node: NodeArgument, *, at: PlainHub) -> int:
    """Revoke a machine for good: its connection, its queue, its id."""
    require_a_person()

    async def go(client: "FabricClient") -> "list[Json]":
        return [await client.nodes.revoke(node)]

    return _print_named(at_server(at, go), node, "is revoked")


@app.command()
def resolve(
    node: NodeArgument,
    keep: Annotated[bool, typer.Option("--keep/--split", help="Keep the node, or revoke it so that both join again.")],
    *,
    at: PlainHub,
) -> int:
    """Settle a conflict of two machines with one identity, or confirm a machine that is pending."""
    require_a_person()

    async def go(client: "FabricClient") -> "list[Json]":
        return [await client.nodes.resolve(node, keep=keep)]

    return _print_named(at_server(at, go), node, "is kept" if keep else "is revoked")


def _print_named(nodes: "Sequence[Json]", selector: str, what: str) -> int:
    refuse_unknown(selector, nodes)
    for node in nodes:
        sys.stdout.write(f"{plain(node['name'])} ({node['id']}) {what}.\n")
    return COMPLETED


def _labels(pairs: Sequence[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign:
            raise ConfigError(f"{pair!r} is no label", hint="Write name=value, such as role=web.")
        found[name] = value
    return found


def _moment(seconds: float | None) -> str:
    return "never" if seconds is None else minute(seconds)
