"""A forked `fabric` is like one that a fresh interpreter runs."""

import asyncio
import signal
from pathlib import Path

import pytest

from e2e.fabric_process import Fabric, settings

COMMANDS = (
    ("--version",),
    ("logs", "list", "--json"),
    ("logs", "show", "nothing"),
    ("xyzzy",),
    ("doctor", "--nonsense"),
)
NOBODY = "http://127.0.0.1:9/v1"


async def test_it_says_the_same_and_ends_with_the_same_code(tmp_path: Path) -> None:
    forked = Fabric(tmp_path, settings(NOBODY), server=NOBODY[:-3])
    fresh = Fabric(tmp_path, settings(NOBODY), server=NOBODY[:-3], fresh=True)
    for command in COMMANDS:
        one, other = await asyncio.gather(forked(*command), fresh(*command))
        assert (one.code, one.out, one.err) == (other.code, other.out, other.err)


async def test_each_has_its_own_environment_and_folder(tmp_path: Path) -> None:
    fabric = Fabric(tmp_path / "one", {}, {"FABRIC_BUDGET__MAX_STEPS": "7"}, server=NOBODY)
    assert '"max_steps": 7' in (await fabric("config", "show", "--json")).out
    fabric.environment = {}
    assert '"max_steps": 7' not in (await fabric("config", "show", "--json")).out


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_signal_ends_it_and_the_code_tells_which(tmp_path: Path, number: int) -> None:
    started = await Fabric(tmp_path, settings(NOBODY)).start("serve", "--port", "0", "--json")
    assert started.process.stdout is not None
    assert await started.process.stdout.readline()
    started.process.send_signal(number)
    if number == signal.SIGSTOP:
        assert started.process.returncode is None
        started.process.kill()
    assert (await started.ended()).code == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        started.process.kill()
