"""Says that a command has written the name of a file where its lines or a number are wanted."""

import shlex
from collections.abc import Sequence

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.policy.command_lines.invocation import Invocation
from agent_fabric.infrastructure.tools.grep_hints import GREPS


async def name_hint(sandbox: Sandbox, invocations: Sequence[Invocation]) -> str:
    """Return what to run instead of a `wc` or `grep` that has written a name; empty: it has not."""
    return _count_with_name(invocations) or await _only_the_name(sandbox, invocations)


def _count_with_name(invocations: Sequence[Invocation]) -> str:
    """Say that `wc` has written the name of the file that it counted beside the number; empty: it has not."""
    only = invocations[0] if len(invocations) == 1 else None
    if only is None or only.name != "wc" or [each.operator for each in only.redirects] != [">"]:
        return ""
    options = [word for word in only.words[1:] if word.startswith("-")]
    files = [word for word in only.words[1:] if not word.startswith("-")]
    if len(options) != 1 or len(options[0]) != 2 or len(files) != 1:
        return ""
    target = shlex.quote(only.redirects[0].target)
    return (
        f"The name {files[0]} stands beside the number. If the task wants just the number, "
        f"run: wc {options[0]} < {shlex.quote(files[0])} > {target}"
    )


async def _only_the_name(sandbox: Sandbox, invocations: Sequence[Invocation]) -> str:
    """Say that `grep -l` over one file has written only its name, which nobody wants to know; empty: it has not."""
    grep = invocations[0] if len(invocations) == 1 else None
    if grep is None or grep.name not in GREPS or len(grep.redirects) != 1:
        return ""
    options = [word for word in grep.words[1:] if word.startswith("-")]
    words = [word for word in grep.words[1:] if not word.startswith("-")]
    if len(words) != 2 or not any("l" in word for word in options if not word.startswith("--")):
        return ""
    try:
        await sandbox.read_file(words[1], max_bytes=1)
    except OSError:
        return ""  # a folder: which of its files it was is worth knowing
    redirect = grep.redirects[0]
    lines = f"grep {shlex.join(words)} {redirect.operator} {shlex.quote(redirect.target)}"
    return f"{redirect.target} has only the name {words[1]}. If the task wants the lines, run: {lines}"
