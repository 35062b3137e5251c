"""The node is one small file that runs with Python and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

from agent_fabric.infrastructure.fleet.node_archive import MAX_BYTES, _build, node_archive

HEAVY = ("pydantic", "aiohttp", "fastapi", "apsw", "typer", "yaml", "agent_fabric.config")


@pytest.mark.proves("FL-27", "FL-28", "FC-004", "C20")
def test_the_archive_runs_without_anything_installed(tmp_path: Path) -> None:
    archive = tmp_path / "fabric-node.pyz"
    archive.write_bytes(node_archive().data)
    assert archive.stat().st_size <= MAX_BYTES
    code = (
        f"import sys; sys.path.insert(0, {str(archive)!r}); import agent_fabric.interfaces.node.main;"
        f"import agent_fabric.domain.policy.parts; print([n for n in {HEAVY!r} if n in sys.modules])"
    )
    bare = [sys.executable, "-I", "-S"]  # no site: nothing that is installed can be found
    told = subprocess.run([*bare, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (told.stdout.strip(), told.stderr) == ("[]", "")
    told = subprocess.run([*bare, str(archive), "--help"], capture_output=True, text=True, timeout=60, check=False)
    assert "join" in told.stdout


def test_the_archive_has_always_the_same_bytes() -> None:
    first = node_archive()
    _build.cache_clear()
    assert node_archive() == first
