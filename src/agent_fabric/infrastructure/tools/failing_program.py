"""Finds the file that a failure is about: small models write the test again that fails, not the program it tests."""

import re
from collections.abc import Sequence

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.evidence.suite_files import covers, is_test_file
from agent_fabric.domain.policy.command_lines.invocation import Invocation

_MAX_FILES = 200
_MAX_TEST_BYTES = 64 * 1024
_FRAME = re.compile(r'File "(?:[^"\n]*/workspace/)?(?P<path>[^"\n]+)", line \d+')


async def failing_program(sandbox: Sandbox, invocations: Sequence[Invocation], output: str) -> str:
    """Return the one program of the workspace that a Python traceback or a failed test points to; empty: not known."""
    try:
        names, _ = await sandbox.list_files(".", max_entries=_MAX_FILES)
    except OSError:
        return ""  # the command has removed the folder itself
    frames = [match["path"] for match in _FRAME.finditer(output) if match["path"] in names]
    if frames and not is_test_file(frames[-1]):
        return frames[-1]
    words = {word.removeprefix("./") for each in invocations for word in each.words}
    tests = [name for name in names if is_test_file(name) and (name in frames or name in words)]
    programs = [name for name in names if name.endswith(".py") and not is_test_file(name)]
    found: set[str] = set()
    for test in tests:
        try:
            data, _ = await sandbox.read_file(test, max_bytes=_MAX_TEST_BYTES)
        except OSError:
            continue  # gone in the meantime
        text = data.decode(errors="replace")
        found |= {program for program in programs if covers(test, text, [program])}
    return found.pop() if len(found) == 1 else ""
