"""The node as a program of its own: `python3 fabric-node.pyz join|run|install|status|leave`, also `fabric node …`.

Nothing but Python is needed, and nothing of the server is imported.
"""

import argparse
import asyncio
import fcntl
import json
import logging
import os
import shutil
import signal
import socket
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from agent_fabric import __version__
from agent_fabric.application.ports.node import NodeProblem, NodeRevoked
from agent_fabric.bootstrap.node import NodeFolder, NodeParts, build_node, join_hub, trust_tools

NAME: Final = "fabric-node.service"
SYSTEM_USER: Final = "fabric-node"
SYSTEM_FOLDER: Final = Path("/var/lib/fabric-node")
SYSTEM_FLOOR: Final = Path("/etc/fabric-node/node.toml")

_UNIT: Final = """\
[Unit]
Description=Node of an agent-fabric hub
Wants=network-online.target
After=network-online.target

[Service]
ExecStart={command}
Restart=always
RestartSec=5
RestartPreventExitStatus=4
KillMode=control-group
TimeoutStopSec=15
NoNewPrivileges=yes
UMask=0077
{more}
[Install]
WantedBy={target}
"""


def unit_text(command: list[str], *, system: bool, folder: Path) -> str:
    """Return the unit."""
    more = (
        f"User={SYSTEM_USER}\nGroup={SYSTEM_USER}\nProtectSystem=full\nReadOnlyPaths=-/etc/fabric-node\n"
        f"ReadWritePaths={folder}\n"
        if system
        else ""
    )
    target = "multi-user.target" if system else "default.target"
    return _UNIT.format(command=" ".join(_quote(word) for word in command), more=more, target=target)


def install_unit(program: Path, folder: Path, *, system: bool) -> tuple[Path, list[str]]:
    """Write the unit and copy the program beside the node's folder; return the unit and what is left to be done."""
    where = Path("/etc/systemd/system") if system else _user_units()
    command = [sys.executable or "python3", *_own_program(program, folder), "run", "--dir", str(folder)]
    if system:
        command += ["--floor", str(SYSTEM_FLOOR)]
    where.mkdir(parents=True, exist_ok=True)
    unit = where / NAME
    unit.write_text(unit_text(command, system=system, folder=folder))
    if system:
        return unit, [
            f"useradd --system --home-dir {folder} --shell /usr/sbin/nologin {SYSTEM_USER}",
            f"install -d -m 755 {SYSTEM_FLOOR.parent} && cp {folder}/node.toml {SYSTEM_FLOOR}",
            f"chown -R {SYSTEM_USER}: {folder}",
            f"systemctl daemon-reload && systemctl enable --now {NAME}",
        ]
    return unit, [f"systemctl --user daemon-reload && systemctl --user enable --now {NAME}", "loginctl enable-linger"]


def _own_program(program: Path, folder: Path) -> list[str]:
    """Return how the node is started: its archive is copied to where it stays."""
    if program.is_file() and program.suffix == ".pyz":
        kept = folder / "fabric-node.pyz"
        if program.resolve() != kept.resolve():
            shutil.copyfile(program, kept)
            kept.chmod(0o700)
        return [str(kept)]
    return ["-m", "agent_fabric.interfaces.node.main"]


def _user_units() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "systemd" / "user"


def _quote(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if " " in word or escaped != word else word


OK, FAILED, USAGE, REVOKED = 0, 1, 2, 4
IDLE_LOOK_S = 60.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code: 0 done, 1 failed, 2 wrong usage, 4 revoked."""
    options = _parser().parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    folder = NodeFolder(Path(options.dir).expanduser().absolute() if options.dir else _usual_folder(options))
    try:
        code: int = options.act(options, folder)
    except NodeProblem as problem:
        sys.stderr.write(f"error: {problem}\n")
        return FAILED
    except (OSError, sqlite3.Error) as problem:
        sys.stderr.write(f"error: {folder.path} cannot be used: {problem}\n")
        return FAILED
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fabric-node", description="Node of an agent-fabric hub.")
    parser.add_argument("--version", action="version", version=f"fabric-node {__version__}")
    acts = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, text: str, act: object) -> argparse.ArgumentParser:
        added = acts.add_parser(name, help=text, description=text)
        added.add_argument("--dir", metavar="DIR", help="The node's folder.")
        added.set_defaults(act=act, system=False)
        return added

    joining = command("join", "Enrol this machine at a hub.", _join)
    joining.add_argument("url", metavar="URL", help="The hub, such as https://hub.example.org.")
    joining.add_argument("--token", required=True, help="From `fabric nodes invite`.")
    joining.add_argument(
        "--hub-key", default="", metavar="SHA256:…", help="The hub's key, to be sure that it is the one."
    )
    joining.add_argument("--name", default="", help="By default the name of the invitation, or the host name.")
    running = command("run", "Connect to the hub and stay.", _run)
    running.add_argument("--once", action="store_true", help="Only show the hub that it works, and leave.")
    running.add_argument("--floor", metavar="FILE", help="By default node.toml in the node's folder.")
    installing = command("install", "Keep the node running by systemd.", _install)
    installing.add_argument("--system", action="store_true", help="As a service of the system, with its own user.")
    status = command("status", "Show how the node fares.", _status)
    status.add_argument("--json", action="store_true", dest="as_json", help="Print JSON.")
    trusting = command("trust", "Accept the tools of a tool server as they are now described.", _trust)
    trusting.add_argument("server", metavar="SERVER", help="A name in mcp_config.json.")
    command("leave", "Forget the hub: remove the key and all that the node remembers.", _leave)
    return parser


def _usual_folder(options: argparse.Namespace) -> Path:
    return SYSTEM_FOLDER if options.system else NodeFolder.default().path


def _join(options: argparse.Namespace, folder: NodeFolder) -> int:

    joined = join_hub(
        folder,
        options.url,
        token=options.token,
        hub_key=options.hub_key,
        name=options.name or socket.gethostname(),
        tell=lambda text: print(text, flush=True),
    )
    _unpack(folder)
    print(f"This machine is the node {joined}.")
    print(f"What may happen here stands in {folder.path / 'node.toml'}. Start it with: run, or install.")
    return OK


def _unpack(folder: NodeFolder) -> None:
    from agent_fabric.interfaces.node.unpacked_program import unpack_program  # noqa: PLC0415 - few do it

    unpack_program(folder.path)


def _run(options: argparse.Namespace, folder: NodeFolder) -> int:
    if options.once:  # the node that tries it holds the lock
        parts = build_node(folder, Path(options.floor) if options.floor else None)
        try:
            return asyncio.run(_prove(parts))
        finally:
            parts.spool.close()
    with (folder.path / "lock").open("w") if folder.path.is_dir() else open(os.devnull, "w") as lock:  # noqa: PTH123
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.stderr.write(f"error: another process runs this node already ({folder.path})\n")
            return FAILED
        parts = build_node(folder, Path(options.floor) if options.floor else None)
        try:
            parts.settle_upgrade()
            _unpack(folder)
            return asyncio.run(_serve(parts, options.floor))
        finally:
            parts.spool.close()


async def _prove(parts: NodeParts) -> int:
    """Show the hub that this program works."""
    try:
        await parts.session().prove_once()
    except Exception as problem:  # noqa: BLE001 - whatever it is, the program that has started this one tells it
        sys.stderr.write(f"{type(problem).__name__}: {problem}\n")
        return FAILED
    return OK


async def _serve(parts: NodeParts, floor: str | None) -> int:
    idle = asyncio.create_task(_end_idle(parts))
    running = asyncio.current_task()
    assert running is not None
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.cancel)
    try:
        if await _until_upgrade(parts):
            await parts.servers.close()
            parts.spool.close()
            assert parts.upgrades is not None
            await parts.upgrades.replace_program(floor)
    except NodeRevoked as problem:
        sys.stderr.write(f"The hub has revoked this node: {problem}\n")
        return REVOKED
    except asyncio.CancelledError:
        with suppress(OSError):
            parts.folder.write_status({"status": "stopped", "reason": ""})
    finally:
        idle.cancel()
        await parts.servers.close()
    return OK


async def _until_upgrade(parts: NodeParts) -> bool:
    """Stay connected, until the program is to be replaced: then tell so, without a connection.

    Raises:
        NodeRevoked: the hub has revoked the node.
    """
    running = asyncio.create_task(parts.session().run())
    wanted = asyncio.create_task(parts.upgrades.requested.wait() if parts.upgrades else asyncio.Event().wait())
    try:
        await asyncio.wait((running, wanted), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            await running
        return wanted.done()
    finally:
        for task in (running, wanted):
            task.cancel()
        await asyncio.gather(running, wanted, return_exceptions=True)


async def _end_idle(parts: NodeParts) -> None:
    while True:
        await parts.end_idle()
        await asyncio.sleep(IDLE_LOOK_S)


def _trust(options: argparse.Namespace, folder: NodeFolder) -> int:
    folder.enrolment()
    with (folder.path / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.stderr.write("error: the node is running; stop it first\n")
            return FAILED
        trust_tools(folder, options.server)
    print(f"The tools of {options.server} count as they are when they are used next.")
    return OK


def _install(options: argparse.Namespace, folder: NodeFolder) -> int:
    folder.enrolment()
    _unpack(folder)
    unit, further = install_unit(Path(sys.argv[0]), folder.path, system=options.system)
    print(f"Wrote {unit}. Then:")
    for line in further:
        print(f"  {line}")
    return OK


def _status(options: argparse.Namespace, folder: NodeFolder) -> int:
    if not folder.is_enrolled:
        print(json.dumps({"status": "not enrolled"}) if options.as_json else f"{folder.path} belongs to no node.")
        return OK
    enrolment = folder.enrolment()
    told = {
        "id": enrolment.agent_id,
        "name": enrolment.name,
        "hub": enrolment.url,
        "status": "stopped",
        "reason": "",
        **folder.status(),
    }
    if options.as_json:
        print(json.dumps(told))
    else:
        reason = f": {told['reason']}" if told["reason"] else ""
        print(f"{told['name']} ({told['id']}) at {told['hub']}: {told['status']}{reason}")
    return OK


def _leave(_: argparse.Namespace, folder: NodeFolder) -> int:
    enrolment = folder.enrolment()
    for name in ("enrolment.json", "key", "key.new", "status.json", "spool.db", "spool.db-wal", "spool.db-shm", "lock"):
        (folder.path / name).unlink(missing_ok=True)
    for name in ("outputs", "uploads", "program"):
        shutil.rmtree(folder.path / name, ignore_errors=True)
    print(f"This machine is no node any more. At the hub: fabric nodes revoke {enrolment.name}")
    return OK


if __name__ == "__main__":
    sys.exit(main())
