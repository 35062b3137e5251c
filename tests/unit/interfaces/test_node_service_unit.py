"""The unit that keeps a node running: with few rights, and with the end of everything that it has started."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent_fabric.interfaces.node.main import NAME, install_unit, unit_text


@pytest.mark.proves("FL-27")
@pytest.mark.parametrize("system", [False, True])
def test_a_unit_is_what_systemd_takes_and_gives_the_node_few_rights(tmp_path: Path, system: bool) -> None:
    text = unit_text([sys.executable, "-I", "/srv/a b$c%/fabric-node.pyz", "run"], system=system, folder=tmp_path)
    lines = text.splitlines()
    assert {"NoNewPrivileges=yes", "KillMode=control-group", "RestartPreventExitStatus=4"} <= set(lines)
    assert ("User=fabric-node" in lines) is system
    assert '"/srv/a b$$c%%/fabric-node.pyz"' in text
    (tmp_path / NAME).write_text(text.replace("fabric-node\n", "root\n"))  # the user is made when it is installed
    if (analyze := shutil.which("systemd-analyze")) is not None:
        done = subprocess.run(
            [analyze, "verify", "--man=no", str(tmp_path / NAME)], capture_output=True, text=True, check=False
        )
        assert NAME not in done.stderr, done.stderr


@pytest.mark.proves("FL-27")
def test_a_persons_unit_runs_a_copy_of_the_program_that_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    program, folder = tmp_path / "download.pyz", tmp_path / "node"
    program.write_bytes(b"program")
    folder.mkdir()
    unit, left = install_unit(program, folder, system=False)
    assert unit == tmp_path / "config/systemd/user" / NAME
    assert f"{folder}/fabric-node.pyz run --dir {folder}" in unit.read_text()
    assert (folder / "fabric-node.pyz").read_bytes() == b"program"
    assert "systemctl --user" in left[0]
