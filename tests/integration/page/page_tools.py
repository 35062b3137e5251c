"""What checks the page's own source: node, TypeScript, ESLint, axe-core. Installed from npm, for development only."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from services import need, need_program

ROOT = Path(__file__).parents[3]
CLIENT = ROOT / "src/agent_fabric/interfaces/web/client"
CHECKS = ROOT / "tests/web"
INSTALL_TIMEOUT_S = 300


def node() -> str:
    """Return the path of node."""
    return need_program("node", "nodejs")


def node_modules() -> Path:
    """Return the folder with the packages, installing them once for this machine and user."""
    npm = need_program("npm", "npm")
    lock = (CHECKS / "package-lock.json").read_bytes()
    name = f"agent-fabric-page-{os.getuid()}-{hashlib.sha256(lock).hexdigest()[:12]}"
    folder = Path(tempfile.gettempdir()) / name
    folder.mkdir(mode=0o700, exist_ok=True)
    assert folder.stat().st_uid == os.getuid()
    with (folder / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = folder / "done"
        if not done.exists():
            for each in ("package.json", "package-lock.json"):
                shutil.copy(CHECKS / each, folder / each)
            command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(folder)]
            installed = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, check=False, timeout=INSTALL_TIMEOUT_S
            )
            need(installed.returncode == 0, f"needs packages from npm: {installed.stderr[-500:]}")
            done.touch()
    return folder / "node_modules"
