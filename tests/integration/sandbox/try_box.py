"""Runs commands in a box of a level and prints what came of them; a program, so that it can run with fewer rights."""

import asyncio
import json
import os
import sys
from pathlib import Path

from agent_fabric.config.schema.sandbox import SandboxConfig
from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.sandbox.levels import Level, Surroundings, choose_level, make_box

SCRIPT = """
id -u; id -G; echo more >> by-tool; mkdir made; echo x > made/file; mv made/file made/other
echo x > $TMPDIR/file && ls $HOME; git init -q repository && git -C repository status -s
"""


async def tried(level: Level, workspace: Path, fabric: Path) -> dict[str, object]:
    """Write a file by a tool, run commands, write another one, and change that by a command."""
    box = make_box(
        level, workspace, "0c5a9b54-5d1e-4a37-9d2b-0a4a5f1f9a3b", SandboxConfig(), Surroundings(hidden=fabric)
    )
    try:
        await box.write_file("by-tool", b"first\n")
        outcome = await box.run_command(SCRIPT, timeout_s=30)
        await box.write_file("folder/later", b"second\n")
        later = await box.run_command("echo more >> folder/later; rm by-tool; cat folder/later", timeout_s=30)
    except ConfigError as error:
        return {"error": error.message, "hint": error.hint}
    finally:
        await box.aclose()
    said = [outcome.stdout.decode(), outcome.stderr.decode(), later.stdout.decode(), later.stderr.decode()]
    return {"said": said, "exit_codes": [outcome.exit_code, later.exit_code]}


def main(level: str, workspace: str, fabric: str) -> None:
    """Try the level; `auto`: tell which one is chosen."""
    if level == "auto":
        choice = choose_level(SandboxConfig(), environ={"PATH": os.environ["PATH"]})
        print(json.dumps({"level": choice.level, "commands": choice.commands}))
    else:
        print(json.dumps(asyncio.run(tried("A" if level == "A" else "B", Path(workspace), Path(fabric)))))


main(*sys.argv[1:])
