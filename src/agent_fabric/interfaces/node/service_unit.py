"""`install`: keeps the node running by systemd, as the person's own service or as one of the system."""

import os
import shutil
import sys
from pathlib import Path
from typing import Final

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
