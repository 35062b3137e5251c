"""Folders of processes that were killed are removed by the next process, and no others."""

import subprocess
import sys
from pathlib import Path

from agent_fabric.infrastructure.sandbox.egress.private_folder import PrivateFolder

KILLED = """
import os, signal, sys
from agent_fabric.infrastructure.sandbox.egress.private_folder import PrivateFolder
print(PrivateFolder.make("own-", sys.argv[1]).path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_folder_goes_with_its_owner_or_with_the_next_one(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, text=True, check=False)
    left = Path(killed.stdout.strip())
    assert left.is_dir()
    (tmp_path / "own-unlocked").mkdir()
    (tmp_path / "own-link").symlink_to(tmp_path)

    first, second = PrivateFolder.make("own-", str(tmp_path)), PrivateFolder.make("own-", str(tmp_path))

    assert not left.exists()
    assert first.path.is_dir()
    assert first.path.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "own-unlocked").is_dir(), "it may only be being made"
    first.remove()
    assert not first.path.exists()
    assert second.path.is_dir()
    second.remove()
