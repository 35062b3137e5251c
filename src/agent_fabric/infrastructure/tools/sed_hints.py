"""Says what `sed -i` has not done, or done too much of: nothing hit, more hit than was meant, or files left out."""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent_fabric.domain.policy.command_lines.invocation import Invocation, UnparsableCommand
from agent_fabric.domain.policy.command_lines.wrappers import unwrap
from agent_fabric.infrastructure.tools.edit import nearest_lines
from agent_fabric.infrastructure.tools.workspace_diff import FileHeads

_SCRIPT = re.compile(r"s([/|#,:@])(?P<old>(?:(?!\1).)+)\1(?P<new>(?:(?!\1).)*)\1[gIi0-9]*", re.DOTALL)
_MEANS_MORE = re.compile(r"[\\.*+?\[\](){}^$|&]")
"""What has a meaning of its own in a pattern."""
_VALUE_ONLY = re.compile(r"\s*[=:]\s*[\w -]*")
_WORD = re.compile(r"\w+")
_MAX_NAMED = 5
_SHORTEST_NAME = 3


@dataclass(frozen=True, slots=True)
class _Replacement:
    old: str
    new: str
    paths: tuple[str, ...]

    @property
    def many(self) -> bool:
        """Whether it is about more than one file."""
        return len(self.paths) != 1 or "{}" in self.paths


def sed_hint(invocations: Sequence[Invocation], before: FileHeads, after: FileHeads) -> str:
    """Return what to mind about the plain texts that `sed -i` was to replace; empty: nothing."""
    return next(filter(None, (_hint(each, before, after) for each in _replacements(invocations))), "")


def _hint(done: _Replacement, before: FileHeads, after: FileHeads) -> str:
    for path in done.paths:
        if path in before and before[path] == after.get(path):
            text = before[path].decode(errors="replace")
            return "" if done.old in text else f"In {path} {nearest_lines(text, done.old)}"
    if half := _half_of_a_setting(done, before, after):
        return half
    changed = [path for path, data in after.items() if path in before and before[path] != data]
    if too_much := list(dict.fromkeys(_inside_words(done, [before[path] for path in changed]))):
        shown = ", ".join(f"{word} became {word.replace(done.old, done.new)}" for word in too_much[:_MAX_NAMED])
        last = too_much[0]
        undo = f"sed -i 's/{last.replace(done.old, done.new)}/{last}/' {changed[0]}"
        return f"{done.old!r} was replaced inside longer words, too: {shown}. If that is wrong, put it back: {undo}"
    if done.many and len(done.old) >= _SHORTEST_NAME and "/" not in f"{done.old}{done.new}":
        left = [path for path, data in after.items() if done.old.encode() in data]
        if left:
            # A command to copy: told only where it still is, the model runs the same command again.
            there = shlex.join(left[:_MAX_NAMED])
            return f"{done.old!r} is still there. To replace it, run: sed -i 's/{done.old}/{done.new}/g' {there}"
    return ""


def _half_of_a_setting(done: _Replacement, before: FileHeads, after: FileHeads) -> str:
    """Say that only the name of a setting was deleted, and its value was left; empty: it was not."""
    if done.new or len(done.paths) != 1 or done.paths[0] not in before or done.paths[0] not in after:
        return ""
    path = done.paths[0]
    old = before[path].decode(errors="replace").splitlines()
    for line in after[path].decode(errors="replace").splitlines():
        if _VALUE_ONLY.fullmatch(line) and line not in old:
            return f"{line!r} is left of the line. To delete all of it, run: sed -i '/^{line}$/d' {shlex.quote(path)}"
    return ""


def sed_failure_hint(invocations: Sequence[Invocation], stderr: str) -> str:
    """Return how to write a replacement of texts with a `/` in them; empty: that is not what is wrong."""
    if not any(each.name == "sed" for each in invocations) or "unknown option to `s'" not in stderr:
        return ""
    path = next((each.words[-1] for each in invocations if each.name == "sed"), "FILE")
    return f"A text with / in it needs | between the parts: sed -i 's|old/text|new/text|g' {path}"


def _inside_words(done: _Replacement, texts: Sequence[bytes]) -> Iterator[str]:
    """Find the longer words that hold a text which also stands alone, where it was surely meant."""
    if not _WORD.fullmatch(done.old):
        return
    words = [word for text in texts for word in _WORD.findall(text.decode(errors="replace"))]
    if done.old in words:
        yield from (word for word in words if done.old in word and word != done.old)


def _replacements(invocations: Sequence[Invocation]) -> Iterator[_Replacement]:
    for invocation in invocations:
        try:
            parts = [each for each in unwrap(invocation) if each.name == "sed"]
        except UnparsableCommand:
            continue
        for each in parts:
            words = each.words[1:]
            scripts = [found for word in words if (found := _SCRIPT.fullmatch(word))]
            if any(word.startswith("-i") for word in words) and len(scripts) == 1:
                found = scripts[0]
                if not _MEANS_MORE.search(found["old"]):
                    yield _Replacement(found["old"], found["new"], words[words.index(found[0]) + 1 :])
