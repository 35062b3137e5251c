"""Packages as an installer leaves them behind, in folders of their own."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from services import need


def importable(*folders: Path) -> str:
    """Return a PYTHONPATH that has these folders before what it has already."""
    return os.pathsep.join([*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])])


def built_and_installed(project: Path, folder: Path) -> Path:
    """Build the wheel of a project and install it, with nothing from the network; return where it was installed."""
    need(find_spec("hatchling") and find_spec("build"), "building a wheel needs hatchling and build: make test")
    wheels, installed = folder / "wheels", folder / "installed"
    _run("build", "--wheel", "--no-isolation", "--outdir", str(wheels), str(project))
    (wheel,) = wheels.glob("*.whl")
    _run("pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(installed), str(wheel))
    return installed


def laid_out(folder: Path, name: str, entry_points: str, module: str) -> Path:
    """Lay out a package of one module, `{name}_module`, with these entry points; return its folder."""
    metadata = folder / name / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(entry_points)
    (folder / name / f"{name}_module.py").write_text(module)
    return folder / name


def _run(module: str, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
