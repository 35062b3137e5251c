"""Joins everything for a node: its folder, its floor, its tools. Nothing of the server is imported."""

import asyncio
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from agent_fabric import __version__
from agent_fabric.application.node.serve_commands import NodeSelf, ServeCommands
from agent_fabric.application.ports.node import FloorProblem
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.fleet.node_policy import node_policy
from agent_fabric.infrastructure.node.file_tools import NodeFiles
from agent_fabric.infrastructure.node.floor_file import FILE, Floor, read_floor
from agent_fabric.infrastructure.node.hub_session import HubSession
from agent_fabric.infrastructure.node.node_folder import OUTPUTS, SPOOL, UPLOADS, NodeFolder
from agent_fabric.infrastructure.node.processes import Commands, give_back_memory, kill_marked, run_as, start_guard
from agent_fabric.infrastructure.node.spool import HUB_POLICY, TOOL_PINS, Spool
from agent_fabric.infrastructure.node.terminals import Terminals
from agent_fabric.infrastructure.node.tool_servers import FILE as SERVERS_FILE
from agent_fabric.infrastructure.node.tool_servers import ToolServers, read_servers
from agent_fabric.infrastructure.node.toolbox import Toolbox
from agent_fabric.infrastructure.node.transfers import Transfers
from agent_fabric.infrastructure.node.upgrades import Upgrades, first_run, running_archive, settle_upgrade

__all__ = ["NodeFolder", "NodeParts", "build_node", "join_hub", "trust_tools"]

INSTANCE = "instance"


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

    def session(self) -> HubSession:
        """Return the connection to the hub, which is not open yet."""
        return HubSession(
            self.folder,
            self.floor,
            self.spool,
            self.serve,
            self.transfers,
            self.terminals,
            __version__,
            "" if self.upgrades is None else self.upgrades.sha256,
            self.servers.describe(),
        )

    def settle_upgrade(self) -> None:
        """Tell what became of an upgrade that has started this program, or an earlier one."""
        settle_upgrade(self.spool, running_archive(), self.serve.settle)

    async def end_idle(self) -> None:
        """Give back what is not used any more: memory, tool servers, files that were never fetched."""
        give_back_memory()
        await self.servers.end_idle()
        await asyncio.to_thread(self.transfers.forget_old)


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
    if before := spool.read(INSTANCE):
        kill_marked(str(before))  # a stop so hard that its guard went with it
    spool.keep(INSTANCE, instance)
    _forget_outputs(folder, spool)
    hub_document = spool.read(HUB_POLICY) or {}
    key, commands = folder.key(), Commands(user, instance, folder.path / OUTPUTS)
    folder.make()  # one that an older version made may lack something
    files = NodeFiles(floor.roots, folder.path, user)
    transfers = Transfers(files, spool, folder.path / UPLOADS, folder.path / OUTPUTS)
    transfers.forget_old()
    terminals = Terminals(commands, folder.path / OUTPUTS)
    servers = ToolServers(
        read_servers(folder.path / SERVERS_FILE),
        commands,
        lambda: spool.read(TOOL_PINS) or {},
        lambda pins: spool.keep(TOOL_PINS, dict(pins)),
    )
    toolbox = Toolbox(
        commands, files, servers, transfers if floor.file_transfer else None, terminals if floor.pty_support else None
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


def join_hub(folder: NodeFolder, url: str, *, token: str, hub_key: str, name: str, tell: Callable[[str], None]) -> str:
    """Enrol this machine, and return what it is called and where.

    Raises:
        JoinRefused: the hub refuses it, is another one than its key says, or cannot be reached.
    """
    from agent_fabric.infrastructure.node.join_hub import join  # noqa: PLC0415 - what stays in memory is small

    joined = join(folder, url, token=token, hub_key=hub_key, name=name, tell=tell)
    return f"{joined.name} ({joined.agent_id}) of {joined.url}"


def trust_tools(folder: NodeFolder, server: str) -> None:
    """Forget how the tools of a server were described, so that they count as they are when they are used next."""
    spool = Spool(folder.path / SPOOL)
    try:
        pins = spool.read(TOOL_PINS) or {}
        spool.keep(TOOL_PINS, {name: pin for name, pin in pins.items() if not name.startswith(f"{server}.")})
        spool.note("trust", "", {"server": server})
    finally:
        spool.close()


def _forget_outputs(folder: NodeFolder, spool: Spool) -> None:
    for execution_id in spool.forget_old():
        for ending in ("out", "err"):
            (folder.path / OUTPUTS / f"{execution_id}.{ending}").unlink(missing_ok=True)
