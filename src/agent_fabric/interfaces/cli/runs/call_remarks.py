"""What stands below the line of a tool call: why a command failed, and what became of one that ran outside the box."""

from collections.abc import Iterator
from typing import TextIO

from agent_fabric.domain.events import ToolReturned
from agent_fabric.interfaces.cli.output import fitted

_MAX_LINES = 3
_PORCELAIN_FIELDS = 3
_UP_TO_DATE = "="


def call_remarks(body: ToolReturned, width: int, stream: TextIO) -> list[str]:
    """Return the last lines that a failed command printed, or all that an approved one said; mostly nothing."""
    result = body.result
    failed = result.get("exit_code") not in (None, 0) or bool(result.get("timed_out"))
    if body.repeated or not (failed or "ran" in result):
        return []
    said = [str(result.get(name) or "") for name in ("stderr", "stdout")]
    if "ran" in result and (pushed := list(_pushed(said[1]))):
        return [fitted(line, width, stream) for line in pushed]
    text = next((each for each in said if each.strip()), "")
    lines = [line for line in text.splitlines() if line.strip()]
    return [fitted(line, width, stream) for line in lines[-_MAX_LINES:]]


def _pushed(text: str) -> Iterator[str]:
    """Yield what became of each branch, from what `git push --porcelain` prints: flag, from:to, summary."""
    lines = text.splitlines()
    address = next((line.removeprefix("To ") for line in lines if line.startswith("To ")), "")
    for line in lines:
        fields = line.split("\t")
        if not address or len(fields) != _PORCELAIN_FIELDS:
            continue
        flag, names, summary = fields
        name = names.rpartition(":")[2].removeprefix("refs/heads/")
        nothing = "nothing to push, " if flag == _UP_TO_DATE else ""
        yield f"{name} → {address}: {nothing}{summary.strip()}"
