"""All that is promised of level A holds for a plain user too, also where the tests are run by root."""

import asyncio
import os
import tempfile
from pathlib import Path

import pytest

from integration.sandbox.as_user import TESTS, USER, run_python
from services import need, need_program

need_program("bwrap", package="bubblewrap")
need(os.getuid() == 0, "a plain user runs those tests already")

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.proves("AF-120")
async def test_the_tests_of_level_a_pass_for_a_plain_user() -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chown(folder, USER, USER)
        options = ["-q", "-p", "no:cacheprovider", "-p", "no:schemathesis"]
        places = [f"--rootdir={TESTS.parent}", f"--basetemp={folder}/tests"]
        tests = [str(HERE / f"test_bubblewrap{name}.py") for name in ("", "_view", "_limits", "_egress")]
        done = await asyncio.to_thread(
            run_python, HERE / "run_tests.py", *options, *places, *tests, uid=USER, timeout_s=900
        )
        assert done.returncode == 0, done.stdout
