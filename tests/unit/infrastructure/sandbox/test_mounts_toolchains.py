"""Which folders of programs a box shows."""

import sys
from pathlib import Path

import pytest

from agent_fabric.infrastructure.sandbox.mounts_toolchains import interpreter_folders, toolchains, within


def shown_for(workspace: Path, home: Path, cfg: bytes) -> list[Path]:
    """Return what is shown because of a virtual environment in the workspace that says this."""
    environment = {"HOME": str(home), "PATH": f"{workspace}/.venv/bin:/usr/bin"}
    (workspace / ".venv/bin").mkdir(parents=True)
    (workspace / ".venv/pyvenv.cfg").write_bytes(cfg)
    return [path for path in toolchains(environment, workspace) if not within(path, interpreter_folders())]


@pytest.mark.parametrize("name", [".ssh", ".ssh/keys/..", ".local/share/agent-fabric", "bin/../.ssh", "other"])
def test_a_command_that_rewrites_a_virtual_environment_is_shown_nothing_of_the_home_folder(
    tmp_path: Path, name: str
) -> None:
    home = tmp_path / "home"
    (home / ".ssh/keys").mkdir(parents=True)
    (home / "bin").mkdir()
    (home / name).mkdir(parents=True, exist_ok=True)
    cfg = f"home = {home}/{name}/bin\n".encode()
    assert shown_for(tmp_path / "workspace", home, cfg) == []


@pytest.mark.parametrize("cfg", [b"", b"home = \0\n", b"home =", b"home = relative/bin", b"\xff" * 300_000])
def test_a_damaged_virtual_environment_is_left_out(tmp_path: Path, cfg: bytes) -> None:
    assert shown_for(tmp_path / "workspace", tmp_path / "home", cfg) == []


def test_the_python_of_a_virtual_environment_in_the_workspace_is_shown(tmp_path: Path) -> None:
    base = tmp_path / "home/.pythons/3.13"
    (base / "lib/python3.13").mkdir(parents=True)
    (base / "lib/python3.13/os.py").touch()
    (base / "bin").mkdir()
    (base / "bin/python3").symlink_to(sys.executable)
    assert shown_for(tmp_path / "workspace", tmp_path / "home", f"home = {base}/bin\n".encode()) == [base]
