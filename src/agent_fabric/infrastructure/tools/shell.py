"""The tool that runs commands in a run's workspace."""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agent_fabric.application.ports.sandbox import CommandOutcome, Sandbox
from agent_fabric.config.constants import SHELL_DEFAULT_TIMEOUT_S
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.evidence.commands import Assessment, Shown, assess, count_failed_tests, shown_by
from agent_fabric.domain.evidence.python_suites import read_tests
from agent_fabric.domain.policy.command_lines.grammar import parse_command
from agent_fabric.domain.policy.command_lines.invocation import Invocation, UnparsableCommand
from agent_fabric.domain.policy.command_lines.overwriting import overwritten_input
from agent_fabric.domain.tools.findings import ProofKind
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult, ToolSpec, object_schema
from agent_fabric.infrastructure.tools.files import read_whole, text_argument
from agent_fabric.infrastructure.tools.workspace_diff import difference, file_heads, lost_texts, written_files

_LOOK_S = 10.0
_MAX_SCRIPT_BYTES = 200_000
"""Largest program that is looked into for checks."""

SHELL = ToolSpec(
    name="shell",
    description="Run a bash command in the workspace. Background processes end with it.",
    parameters=object_schema({"command": {"type": "string"}}, ["command"]),
    effect=Effect.CHANGES_WORKSPACE,
    timeout_s=SHELL_DEFAULT_TIMEOUT_S,
    command_argument="command",
)


@dataclass(frozen=True, slots=True)
class RunShell:
    """Tool: run a command that has already been allowed, and say how it ended."""

    sandbox: Sandbox

    async def __call__(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Run `command` for at most the context's time. Failing and running out of time are results, not errors."""
        command = text_argument(args, "command")
        await self._keep_input(_parse(command))
        assessment = assess(command)
        writes = assessment.changes or bool(assessment.proves) or ">" in command  # a program may write files, too
        before = await file_heads(self.sandbox) if writes else None
        outcome = await self.sandbox.run_command(command, timeout_s=context.timeout_s, environment=context.environment)
        secrets = [value.encode(errors="replace") for value in context.environment.values()]
        output = command_output(outcome, context.timeout_s, secrets)
        after = await file_heads(self.sandbox) if before is not None else None
        wrote: tuple[str, ...] = ()
        if before is not None and after is not None:
            output["changed_files"] = difference(before, after)
            wrote = written_files(before, after)
            if lost := lost_texts(command, before, after):
                output["lost"] = lost
        succeeded = outcome.exit_code == 0 and not outcome.timed_out
        printed = f"{output['stdout']}\n{output['stderr']}"
        if succeeded and assessment.test_file and await self._is_script(assessment.test_file):
            assessment = replace(assessment, test_file="")
        shown = shown_by(assessment, printed) if succeeded else Shown(tests=count_failed_tests(command, printed))
        if shown.missing:
            output["not_proven"] = await self._how_to_test(shown, assessment, context)
        return ToolResult(
            output=output,
            changed=assessment.changes,
            proved=shown.proved,
            proof_kind=shown.kind,
            tests=shown.tests,
            wrote=wrote,
        )

    async def _keep_input(self, invocations: Sequence[Invocation]) -> None:
        """Refuse a command such as `sort a > a`, which empties the file.

        Raises:
            ValueError: it is one.
        """
        path = overwritten_input(invocations)
        if not path:
            return
        try:
            _, size = await self.sandbox.read_file(path, max_bytes=1)
        except OSError:
            return  # there is nothing to lose
        if size:
            raise ValueError(
                f"not run: > {path} empties {path} before the command reads it. "
                f"Write to another file first, then move it: > {path}.new && mv {path}.new {path}"
            )

    async def _is_script(self, path: str) -> bool:
        """Tell whether a file with the name of a test has only checks that run with it, and no tests to be called."""
        data = await read_whole(self.sandbox, path, max_bytes=_MAX_SCRIPT_BYTES)
        found = None if data is None else read_tests(data.decode(errors="replace"))
        return found is not None and found.is_script

    async def _how_to_test(self, shown: Shown, assessment: Assessment, context: ToolContext) -> str:
        """Say why a command that ended well is no proof, and what would be one in this box."""
        said = f"exit code 0, but {shown.missing}"
        if shown.tests is not None and shown.tests.failed:
            return f"{said}."
        file = assessment.test_file
        if not file and assessment.kind is not ProofKind.TESTS:
            return f"{said}."
        if not file:
            return f"{said}: name the files with tests, or write some."
        looked = await self.sandbox.run_command("python3 -c 'import pytest'", timeout_s=min(_LOOK_S, context.timeout_s))
        module = posixpath.normpath(file).removesuffix(".py").replace("/", ".")
        how = f"python3 -m pytest {file}" if looked.exit_code == 0 else f"python3 -m unittest {module}"
        return f"{said}: running {file} does not call its tests. Run them with: {how}"


def _parse(command: str) -> Sequence[Invocation]:
    try:
        return parse_command(command)
    except UnparsableCommand:
        return ()  # bash says what is wrong with it


def command_output(outcome: CommandOutcome, timeout_s: float, secrets: Sequence[bytes] = ()) -> dict[str, Any]:
    """Return how a command ended, as the model is told."""
    stdout = _render(outcome.stdout, outcome.stdout_dropped, secrets)
    stderr = _render(outcome.stderr, outcome.stderr_dropped, secrets)
    output: dict[str, Any] = {"exit_code": outcome.exit_code}
    if outcome.exit_code and (failures := failures_in(f"{stdout}\n{stderr}")):
        output["failures"] = failures
    output |= {"stdout": stdout, "stderr": stderr}
    if outcome.timed_out:
        output |= {"timed_out": True, "hint": f"Ended after {timeout_s:g} s."}
    if outcome.stdout_dropped:
        output["stdout_dropped"] = outcome.stdout_dropped
    if outcome.stderr_dropped:
        output["stderr_dropped"] = outcome.stderr_dropped
    return output


def _render(kept: bytes, dropped: int, secrets: Sequence[bytes]) -> str:
    """Return output as text; a note stands where the middle was dropped, and no part of a secret beside it."""
    if not dropped:
        return kept.decode(errors="replace")
    middle = len(kept) // 2
    head, tail = kept[:middle], kept[middle:]
    for secret in secrets:  # a part of one would not be recognised
        head = head[: len(head) - next((size for size in _sizes(secret) if head.endswith(secret[:size])), 0)]
        tail = tail[next((size for size in _sizes(secret) if tail.startswith(secret[-size:])), 0) :]
    first, last = (part.decode(errors="replace") for part in (head, tail))
    return f"{first}\n[… {dropped} bytes left out …]\n{last}"


def _sizes(secret: bytes) -> range:
    return range(len(secret) - 1, 0, -1)


MAX_FAILURES = 3
_MAX_CHARS = 300
_RAISED = re.compile(r"(?:E\s+)?((?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Exit|Interrupt)\b.*)")
_MARKS = re.compile(r"[\s^~]*")
_PYTEST = re.compile(r"E\s+(assert .*)")


_REMEDIES = (
    (re.compile(r'can only concatenate str \(not "\w+"\) to str'), "put str( ) around what is no text"),
    (
        re.compile(r"unsupported operand type\(s\) for .{1,4} '(?:int|str|float)' and '(?:int|str|float)'"),
        "convert one of them",
    ),
)
"""What mends an error for certain enough: a small model explains it rightly, and writes the same program again."""


def failures_in(output: str) -> list[str]:
    """Return the first failures that Python or its test runners tell, each with the line of code that it came from."""
    return list(dict.fromkeys(_failures(output.splitlines())))[:MAX_FAILURES]


def _failures(lines: list[str]) -> Iterator[str]:
    for at, line in enumerate(lines):
        found = _RAISED.fullmatch(line) or _PYTEST.fullmatch(line)
        if found:
            remedy = next((f" ({advice})" for pattern, advice in _REMEDIES if pattern.search(found[1])), "")
            code, said = _code_above(lines, at), found[1].rstrip()
            yield _in_words(code, said) or f"{said}{remedy}{_at(code)}"[:_MAX_CHARS]


_EQUAL = re.compile(r"self\.assertEqual\((?P<tried>.+\)), *[^()]+\)")
_DIFFERENT = re.compile(r"AssertionError: (?P<got>[^!=]{1,60}) != (?P<wanted>[^!=]{1,60})")


def _in_words(code: str, said: str) -> str:
    """Return which call of a test gave what, and what it must give; a small model takes "7 != 11" for line 7."""
    equal, different = _EQUAL.fullmatch(code), _DIFFERENT.fullmatch(said)
    if equal is None or different is None:
        return ""
    return f"{equal['tried']} gave {different['got']} and must give {different['wanted']}"


def _at(code: str) -> str:
    """Return where it happened; last, and not as `code -> error`, which a small model copies into its program."""
    return f" in this line: {code}" if code else ""


def _code_above(lines: list[str], at: int) -> str:
    """Return the line of code of a traceback that ends here."""
    while at and _MARKS.fullmatch(lines[at - 1]):
        at -= 1
    before = lines[at - 1] if at else ""
    place = lines[at - 2].lstrip() if at > 1 else ""
    return before.strip() if place.startswith("File ") else ""
