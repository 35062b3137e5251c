"""Says how a shell script prints a text: small models write the text alone, and bash takes it for a command."""

import re

from agent_fabric.application.ports.sandbox import Sandbox

_NOT_FOUND = re.compile(r"(?P<path>[\w./-]+): line (?P<line>\d{1,4}): [^:\n]{1,80}: command not found")
_PLAIN = re.compile(r"\w[\w ,.!-]*")
"""A line that is only words, and safe to be shown in a command."""
_MAX_BYTES = 8 * 1024


async def script_hint(sandbox: Sandbox, stderr: str) -> str:
    """Return how to print the line of a script that is no command; empty: that is not what is wrong."""
    found = _NOT_FOUND.search(stderr)
    if found is None:
        return ""
    path, number = found["path"].rpartition("/workspace/")[2].removeprefix("./"), int(found["line"])
    try:
        data, _ = await sandbox.read_file(path, max_bytes=_MAX_BYTES)
    except OSError:
        return ""  # a script of the system
    lines = data.decode(errors="replace").splitlines()
    line = lines[number - 1].strip() if number <= len(lines) else ""
    if not _PLAIN.fullmatch(line):
        return ""
    mend = f"sed -i '{number}s/.*/echo {line}/' {path}"
    return f"Line {number} of {path} is {line!r}, which is no command. To let it print that, run: {mend}"
