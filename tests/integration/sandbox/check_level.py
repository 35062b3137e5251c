"""Runs the escape checks in a box of one level and prints what came of them; a program, so that any user can run it."""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

from agent_fabric.config.schema.sandbox import SandboxConfig
from agent_fabric.infrastructure.sandbox.levels import Level, Surroundings, make_box
from integration.sandbox.outside import Outside


async def main(level: Level, *, fresh: bool) -> None:
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp", ignore_cleanup_errors=True) as folder,
        Outside(Path(folder)) as outside,
    ):
        os.environ["MY_API_TOKEN"] = outside.secret
        Path(folder).chmod(0o755)  # as a fabric folder is
        around = Surroundings(hidden=Path(folder))
        box = make_box(level, outside.workspace, "escape-checks", SandboxConfig(), around)
        try:
            results = await (outside.attempt(box) if fresh else outside.check(box))
        finally:
            await box.aclose()
        print(json.dumps({"uid": os.getuid(), "results": results, "effects": outside.effects()}))


asyncio.run(main("A" if sys.argv[1] == "A" else "B", fresh=sys.argv[2:] == ["fresh"]))
