"""The file of the store, and other programs that open it."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

LOOKED_AT_AND_KILLED = """
import os, subprocess, sys
from pathlib import Path
from agent_fabric.infrastructure.persistence.database import connect

ours, reader = connect(Path(sys.argv[1])), connect(Path(sys.argv[1]))
reader.execute("SELECT count(*) FROM runs").get
subprocess.run([sys.executable, "-c", sys.argv[2], sys.argv[1]], check=True)
ours.execute("CREATE TABLE kept (value)")
os._exit(9)
"""
LOOK = """
import sqlite3, sys

other = sqlite3.connect(sys.argv[1])
other.execute("SELECT count(*) FROM runs").fetchall()
other.close()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="locks of files differ elsewhere")
def test_what_is_committed_stays_also_when_another_program_looked_at_the_file(tmp_path: Path) -> None:
    path = tmp_path / "fabric.db"
    subprocess.run([sys.executable, "-c", LOOKED_AT_AND_KILLED, str(path), LOOK], check=False, timeout=60)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
    connection.close()
