"""Joins everything for a node: its folder, its floor, its tools. Nothing of the server is imported."""

import secrets
import time
from dataclasses import dataclass
from pathlib import Path

from agent_fabric import __version__
from agent_fabric.application.node.serve_commands import NodeSelf, ServeCommands
from agent_fabric.domain.fleet.node_policy import node_policy
from agent_fabric.infrastructure.node.file_tools import NodeFiles
from agent_fabric.infrastructure.node.floor_file import FILE, Floor, FloorProblem, read_floor
from agent_fabric.infrastructure.node.guard import start_guard
from agent_fabric.infrastructure.node.node_folder import OUTPUTS, SPOOL, UPLOADS, NodeFolder
from agent_fabric.infrastructure.node.processes import Commands, kill_marked, run_as
from agent_fabric.infrastructure.node.spool import Spool
from agent_fabric.infrastructure.node.terminals import Terminals
from agent_fabric.infrastructure.node.tool_servers import FILE as SERVERS_FILE
from agent_fabric.infrastructure.node.tool_servers import ToolServers, read_servers
from agent_fabric.infrastructure.node.toolbox import Toolbox
from agent_fabric.infrastructure.node.transfers import Transfers
from agent_fabric.infrastructure.node.upgrades import Upgrades, first_run, running_archive

INSTANCE = "instance"
HUB_POLICY = "hub_policy"
"""Under this name the spool keeps the hub's document: it holds while the hub is away, too."""
TOOL_PINS = "tool_pins"
"""Under this name it keeps how tools of tool servers were described when they were first seen."""


@dataclass(frozen=True, slots=True)
class NodeParts:
    """What a running node consists of."""

    folder: NodeFolder
    floor: Floor
    spool: Spool
    serve: ServeCommands
    servers: ToolServers
    transfers: Transfers
    terminals: Terminals
    upgrades: Upgrades | None
    """None: this node is not upgraded by its hub."""
    guard: int
    """Keeps the guard waiting for as long as this process lives."""


def build_node(folder: NodeFolder, floor_path: Path | None = None) -> NodeParts:
    """Join the parts; call it before there are threads or an event loop.

    Raises:
        NotEnrolled: the folder belongs to no node.
        FloorProblem: the node's own file cannot be used.
    """
    enrolment = folder.enrolment()
    floor = read_floor(floor_path or folder.path / FILE)
    try:
        user = run_as(floor.run_as, allow_root=floor.allow_root)
    except KeyError:
        raise FloorProblem(f"there is no user {floor.run_as!r}, as which commands would run") from None
    instance = secrets.token_hex(16)
    guard = start_guard(instance)
    spool = Spool(folder.path / SPOOL)
    if before := spool.kept(INSTANCE):
        kill_marked(str(before))  # a stop so hard that its guard went with it
    spool.keep(INSTANCE, instance)
    _forget_outputs(folder, spool)
    hub_document = spool.kept(HUB_POLICY) or {}
    key, commands = folder.key(), Commands(user, instance, folder.path / OUTPUTS)
    folder.make()  # one that an older version made may lack something
    files = NodeFiles(floor.roots, folder.path, user)
    transfers = Transfers(files, spool, folder.path / UPLOADS, folder.path / OUTPUTS)
    transfers.forget_old()
    terminals = Terminals(commands, folder.path / OUTPUTS)
    servers = ToolServers(
        read_servers(folder.path / SERVERS_FILE),
        commands,
        lambda: spool.kept(TOOL_PINS) or {},
        lambda pins: spool.keep(TOOL_PINS, dict(pins)),
    )
    toolbox = Toolbox(
        commands,
        files,
        servers,
        transfers if floor.file_transfer else None,
        terminals if floor.pty_support else None,
    )
    serve = ServeCommands(
        node=NodeSelf(agent_id=enrolment.agent_id, public_key=key.public, uid=user.uid),
        spool=spool,
        toolbox=toolbox,
        check_approval=floor.check_approval,
        policy=node_policy(floor.document, hub_document, floor.roots),
        sign=key.sign,
    )
    program = running_archive()
    if floor.release_keys and program is not None:
        toolbox.upgrades = Upgrades(
            folder.path,
            spool,
            enrolment.url,
            floor.release_keys,
            program,
            __version__,
            first_run(spool, program, time.time()),
            instance,
            serve.drain,
            serve.take_calls,
        )
    return NodeParts(folder, floor, spool, serve, servers, transfers, terminals, toolbox.upgrades, guard)


def _forget_outputs(folder: NodeFolder, spool: Spool) -> None:
    for execution_id in spool.forget_old():
        for ending in ("out", "err"):
            (folder.path / OUTPUTS / f"{execution_id}.{ending}").unlink(missing_ok=True)
