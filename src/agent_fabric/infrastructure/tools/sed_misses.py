"""Says why `sed -i` has changed nothing: what it was to replace is not there, and something like it is."""

import re
from collections.abc import Sequence

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.commands.invocation import Invocation
from agent_fabric.infrastructure.tools.edit import nearest_lines

MAX_READ_BYTES = 64 * 1024
_REPLACES = re.compile(r"s([/|#,:@])(?P<old>(?:(?!\1).)+)\1(?:(?!\1).)*\1[gIi0-9]*", re.DOTALL)
_MEANS_MORE = re.compile(r"[\\.*+?\[\](){}^$|&]")
"""What has a meaning of its own in a pattern, so that its absence from the text says nothing."""


async def sed_miss(sandbox: Sandbox, invocations: Sequence[Invocation]) -> str:
    """Return what is there instead of what a `sed` that replaces plain text was looking for; empty: it is there."""
    for each in invocations:
        if each.name != "sed" or each.unknown or not any(word.startswith("-i") for word in each.words):
            continue
        scripts = [found for word in each.words[1:] if (found := _REPLACES.fullmatch(word))]
        if len(scripts) != 1 or _MEANS_MORE.search(scripts[0]["old"]):
            continue
        for path in each.words[each.words.index(scripts[0][0]) + 1 :]:
            text = await _text(sandbox, path)
            if text is not None and scripts[0]["old"] not in text:
                return f"In {path} {nearest_lines(text, scripts[0]['old'])}"
    return ""


async def _text(sandbox: Sandbox, path: str) -> str | None:
    try:
        data, size = await sandbox.read_file(path, max_bytes=MAX_READ_BYTES)
        return data.decode() if size <= len(data) else None
    except (OSError, UnicodeDecodeError):
        return None  # sed has said so itself
