"""`fabric nodes tools` and `fabric nodes call`: tools of MCP servers on machines."""

import json
import sys
from typing import Annotated, Any

import typer

from agent_fabric.domain.errors import ConfigError
from agent_fabric.interfaces.cli.durations import seconds_in
from agent_fabric.interfaces.cli.fleet.hub import at_server
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED, WAITING
from agent_fabric.interfaces.cli.output import plain, print_json
from agent_fabric.interfaces.cli.place import Hub

NodeArgument = Annotated[str, typer.Argument(metavar="NODE", help="The name of a node, or its id.")]


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
    wish = {"tool_name": tool, "arguments": _object(arguments)}
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
        sys.stdout.write("".join(f"{plain(line)}\n" for line in _text(answer).splitlines()))
    if failed:
        sys.stderr.write(f"{plain(node)}: {outcome['status']}: {plain(str(result.get('error', '')))}\n")
    return FAILED if failed else COMPLETED


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as problem:
        raise ConfigError(f"The arguments are no JSON: {problem}", hint="""For example: '{"path": "/"}'""") from None
    if not isinstance(value, dict):
        raise ConfigError("The arguments are no JSON object", hint="""For example: '{"path": "/"}'""")
    return value


def _text(answer: Any) -> str:
    """Return what a person reads of an answer: the text of a tool, otherwise everything."""
    match answer:
        case {"result": {"content": [*items]}} if items and all(map(_is_text, items)):
            return "\n".join(str(each["text"]) for each in items)
        case _:
            return json.dumps(answer, ensure_ascii=False, indent=2)


def _is_text(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == "text" and "text" in item
