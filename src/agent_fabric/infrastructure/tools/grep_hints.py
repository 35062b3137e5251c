"""Says what is there when `grep` finds nothing in a file: small models run the same pattern again."""

import re
from collections.abc import Iterator, Sequence

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.policy.command_lines.invocation import Invocation

_MAX_BYTES = 64 * 1024
_MAX_LINES = 6
_MAX_CHARS = 80
_WORD = re.compile(r"[^\W\d_]{3,}")
_SECTION = re.compile(r"\s*\[[^\[\]]+\]\s*")
GREPS = frozenset({"grep", "egrep", "fgrep"})


async def grep_hint(sandbox: Sandbox, invocations: Sequence[Invocation]) -> str:
    """Return the lines of the one file that a `grep` without a match was about which have a word of its pattern."""
    if not invocations or invocations[0].name not in GREPS:
        return ""
    words = [word for word in invocations[0].words[1:] if not word.startswith("-")]
    if len(words) != 2:  # a pattern and one file
        return ""
    pattern, path = words
    try:
        data, size = await sandbox.read_file(path, max_bytes=_MAX_BYTES)
    except OSError:
        return ""  # grep says so itself
    wanted = max(_WORD.findall(pattern), key=len, default="")
    if not wanted or size > len(data):
        return ""
    near = list(_lines_with(data.decode(errors="replace").splitlines(), wanted))
    if not near:
        return f"No line of {path} has {wanted!r}."
    more = f"; and {len(near) - _MAX_LINES} more" if len(near) > _MAX_LINES else ""
    return f"No line of {path} matches that. With {wanted!r} there are: {'; '.join(near[:_MAX_LINES])}{more}."


def _lines_with(lines: Sequence[str], word: str) -> Iterator[str]:
    """Find lines with a word, each with the section that it stands in."""
    section = ""
    for line in lines:
        if _SECTION.fullmatch(line):
            section = f"{line.strip()} "
        elif word.casefold() in line.casefold():
            yield f"{section}{line.strip()[:_MAX_CHARS]}"
