"""Installs real tool servers, once for all test runs, outside the repository."""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable
from pathlib import Path

from services import need

_PYTHON = ("mcp-server-time", "mcp-server-git", "mcp-server-fetch")
_NODE = ("server-everything", "server-filesystem", "server-memory")
_INSTALL_S = 600


def python_server(name: str) -> str:
    """Return the program of a server from PyPI, in an environment of its own."""
    folder = _installed("python", _install_python)
    return str(folder / "bin" / name)


def node_server(name: str) -> list[str]:
    """Return the command of a server from npm."""
    node = shutil.which("node")
    need(node is not None and shutil.which("npm"), "needs node and npm; on Debian and Ubuntu: apt install npm")
    folder = _installed("node", _install_node)
    entry = folder / "node_modules" / "@modelcontextprotocol" / name / "dist" / "index.js"
    return [str(node), str(entry)]


def _installed(kind: str, install: Callable[[Path], None]) -> Path:
    base = Path(os.environ.get("FABRIC_TEST_CACHE") or tempfile.gettempdir()) / f"agent-fabric-tools-{os.getuid()}"
    base.mkdir(mode=0o755, parents=True, exist_ok=True)
    folder = base / f"{kind}-{sys.version_info.major}{sys.version_info.minor}"
    with (base / f"{kind}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            try:
                install(folder)
            except (OSError, subprocess.SubprocessError) as problem:
                said = getattr(problem, "stderr", b"") or b""
                need(False, f"needs servers that could not be installed: {problem} {said[-300:]!r}")
            (folder / "complete").touch()
    return folder


def _install_python(folder: Path) -> None:
    venv.create(folder, with_pip=True)
    _run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *_PYTHON])


def _install_node(folder: Path) -> None:
    packages = [f"@modelcontextprotocol/{name}" for name in _NODE]
    _run(["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--silent", *packages])


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=_INSTALL_S)
