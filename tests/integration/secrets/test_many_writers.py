"""The file of secrets, with several processes at it, and with some that are killed."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent_fabric.infrastructure.secrets.folder_secrets import EncryptedFile, stored_secrets
from agent_fabric.infrastructure.secrets.keyring import open_keyring

WRITER = """
import os, sys
from pathlib import Path
from agent_fabric.infrastructure.secrets.folder_secrets import stored_secrets
from agent_fabric.infrastructure.secrets.keyring import open_keyring

keyring = open_keyring(os.environ)
file = stored_secrets(Path(sys.argv[1]), lambda: keyring)
name, times = sys.argv[2], int(sys.argv[3])
for number in range(times):
    file.set(f"{name}_{number % 20}", f"value of {name} {number:06}" + "x" * 2000)
    if number == 20:
        print("under way", flush=True)
"""


def writer(root: Path, name: str, times: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(root), name, str(times)],
        env={**os.environ, "HOME": str(root), "XDG_DATA_HOME": ""},
        stdout=subprocess.PIPE,
        text=True,
    )


def secrets_in(root: Path) -> EncryptedFile:
    keyring = open_keyring({"HOME": str(root)})
    return stored_secrets(root, lambda: keyring)


@pytest.mark.proves("A33-121")
def test_nothing_that_several_processes_set_at_once_is_lost(tmp_path: Path) -> None:
    processes = [writer(tmp_path, name, 20) for name in ("A", "B", "C")]
    assert [process.wait(timeout=60) for process in processes] == [0, 0, 0]
    for process in processes:
        process.communicate()
    file = secrets_in(tmp_path)
    assert len(file.list_secrets()) == 60
    assert {str(file.value(f"{name}_19"))[:17] for name in "ABC"} == {f"value of {name} 000019"[:17] for name in "ABC"}


@pytest.mark.proves("A33-121")
def test_a_writer_that_is_killed_in_the_middle_leaves_a_whole_file_that_others_can_change(tmp_path: Path) -> None:
    chance = random.Random(7)
    for _ in range(5):
        process = writer(tmp_path, "K", 1_000_000)
        assert process.stdout is not None
        assert process.stdout.readline() == "under way\n"
        process.stdout.close()
        try:
            process.wait(timeout=chance.uniform(0.0, 0.05))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        assert process.wait(timeout=60) == -signal.SIGKILL
        file = secrets_in(tmp_path)
        assert len(file.list_secrets()) == 20
        assert all(str(file.value(each.name)).startswith("value of K") for each in file.list_secrets())
        file.set("AFTERWARDS", "works")
        file.remove("AFTERWARDS")
