"""Advice for the model beside what a tool has given: what it overlooked or broke, and the command that puts it right.

Each kind is here because it turned a task that a small model did wrong (`benchmarks/RESULTS.md`).
"""

import json
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.evidence.suite_files import covers, is_test_file
from agent_fabric.domain.policy.command_lines.grammar import parse_command
from agent_fabric.domain.policy.command_lines.invocation import Invocation, UnparsableCommand
from agent_fabric.domain.policy.command_lines.wrappers import unwrap
from agent_fabric.infrastructure.tools.files import nearest_lines, read_whole
from agent_fabric.infrastructure.tools.small_models import number_lines
from agent_fabric.infrastructure.tools.table_shape import is_table, read_table
from agent_fabric.infrastructure.tools.workspace_diff import FileHeads, file_heads

_MAX_NUMBERED_BYTES = 1_500
"""Largest program that is shown when it fails."""
_MAX_LISTED = 200
_MAX_TEST_BYTES = 64 * 1024
_FRAME = re.compile(r'File "(?:[^"\n]*/workspace/)?(?P<path>[^"\n]+)", line \d+')


@dataclass(frozen=True, slots=True)
class CommandAdvice:
    """What to say beside the result of one command line."""

    sandbox: Sandbox
    invocations: Sequence[Invocation]
    before: FileHeads | None
    """How the files began before a `sed`; None: it is none, or there are too many."""

    @classmethod
    async def prepare(cls, sandbox: Sandbox, command: str) -> "CommandAdvice":
        """Look at what the advice needs from before the command runs."""
        try:
            invocations = parse_command(command)
        except UnparsableCommand:
            invocations = ()  # bash says what is wrong with it
        return cls(sandbox, invocations, await file_heads(sandbox) if "sed" in command else None)

    async def on(self, output: Mapping[str, Any], wrote: Sequence[str]) -> Mapping[str, Any]:
        """Return what to add to the output of the command; `wrote` names the files that it has written."""
        found: dict[str, Any] = {}
        stdout, stderr = str(output.get("stdout") or ""), str(output.get("stderr") or "")
        if output.get("failures") and (program := await self._failing_program(f"{stdout}\n{stderr}")):
            found["failing_program"] = program
            if lines := await self._number_program(program):
                found["its_lines"] = lines
        hint = await _table_hint(self.sandbox, self.invocations, stdout, wrote)
        if not hint and self.before is not None and (after := await file_heads(self.sandbox)) is not None:
            hint = _sed_hint(self.invocations, self.before, after)
        if not hint and output.get("exit_code") != 0:
            hint = _sed_failure_hint(self.invocations, stderr)
        if hint and "hint" not in output:
            found["hint"] = hint
        return found

    async def _number_program(self, path: str) -> str:
        """Return a short program with the numbers of its lines, so that the wrong one can be named."""
        data = await read_whole(self.sandbox, path, max_bytes=_MAX_NUMBERED_BYTES)
        return "" if data is None else number_lines(data.decode(errors="replace").splitlines())

    async def _failing_program(self, output: str) -> str:
        """Return the one program of the workspace that a Python traceback or a failed test points to; empty: unknown.

        Small models write the test again that fails, not the program it tests.
        """
        try:
            names, _ = await self.sandbox.list_files(".", max_entries=_MAX_LISTED)
        except OSError:
            return ""  # the command has removed the folder itself
        frames = [match["path"] for match in _FRAME.finditer(output) if match["path"] in names]
        if frames and not is_test_file(frames[-1]):
            return frames[-1]
        words = {word.removeprefix("./") for each in self.invocations for word in each.words}
        tests = [name for name in names if is_test_file(name) and (name in frames or name in words)]
        programs = [name for name in names if name.endswith(".py") and not is_test_file(name)]
        found: set[str] = set()
        for test in tests:
            try:
                data, _ = await self.sandbox.read_file(test, max_bytes=_MAX_TEST_BYTES)
            except OSError:
                continue  # gone in the meantime
            text = data.decode(errors="replace")
            found |= {program for program in programs if covers(test, text, [program])}
        return found.pop() if len(found) == 1 else ""


# ── sed ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

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


def _sed_hint(invocations: Sequence[Invocation], before: FileHeads, after: FileHeads) -> str:
    """Return what to mind about the plain texts that `sed -i` was to replace; empty: nothing."""
    return next(filter(None, (_replacement_hint(each, before, after) for each in _replacements(invocations))), "")


def _replacement_hint(done: _Replacement, before: FileHeads, after: FileHeads) -> str:
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


def _sed_failure_hint(invocations: Sequence[Invocation], stderr: str) -> str:
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


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_MAX_COUNT_BYTES = 200
_AWKS = frozenset({"awk", "gawk", "mawk"})
_ADDS = re.compile(r"\+=\s*\$(\d{1,3})(?!\d)")
_NUMBER = re.compile(r"(?<![\d.])\d+(?![\d.])")


async def _table_hint(sandbox: Sandbox, invocations: Sequence[Invocation], printed: str, wrote: Sequence[str]) -> str:
    """Return what to mind about the tables that a command has counted or cut; empty: nothing.

    `printed` is what the command has printed, `wrote` the files that it has written: what was counted stands in one.
    """
    if any(map(_is_count, invocations)):
        for path in dict.fromkeys(name for each in invocations for name in _tables_of(each)):
            if off := await _one_too_many(sandbox, path, printed, wrote):
                return off
    for each in invocations:
        if wrong := await _column_without_numbers(sandbox, each):
            return wrong
    hints = []
    for each in invocations:
        counts, divides = _is_count(each), _needs_separator(each)
        for path in _tables_of(each) if counts or divides else ():
            table = await read_table(sandbox, path)
            if table is None:
                continue
            if (counts and table.columns) or (divides and table.separator != divides):
                hints.append(f"{path} is a {table}.")
    return " ".join(dict.fromkeys(hints))


async def _one_too_many(sandbox: Sandbox, path: str, printed: str, wrote: Sequence[str]) -> str:
    """Say that the line with the names of the columns was counted, too, and how to put it right; empty: it was not.

    A model that is told only how many rows there are counts the lines again; a command it runs.
    """
    table = await read_table(sandbox, path)
    if table is None or not table.columns:
        return ""
    counted, said = f"{table.rows + 1}", f"there are {table.rows} rows."
    why = f"counts line 1 of {path}, too, which only names the columns: {said}"
    for name in wrote:
        try:
            data, _ = await sandbox.read_file(name, max_bytes=_MAX_COUNT_BYTES)
        except OSError:
            continue  # gone in the meantime
        if counted in _NUMBER.findall(data.decode(errors="replace")):
            return f"{counted} in {name} {why} Unless the task counts lines, run: echo {table.rows} > {name}"
    if counted not in _NUMBER.findall(printed):
        return ""
    return f"{counted} {why} Unless the task counts lines, write {table.rows}, not {counted}."


async def _column_without_numbers(sandbox: Sandbox, invocation: Invocation) -> str:
    """Say that a column was added up which has no numbers, and which has some; empty: it has, or nothing was added."""
    if invocation.name not in _AWKS:
        return ""
    program = next((word for word in invocation.words[1:] if _ADDS.search(word)), "")
    tables = list(_tables_of(invocation))
    table = await read_table(sandbox, tables[0]) if program and len(tables) == 1 else None
    if table is None or not table.numeric or not table.columns:
        return ""
    added = int(_ADDS.findall(program)[0])
    if added in table.numeric or not 1 <= added <= len(table.columns):
        return ""
    wrong = f"Column {added} of {tables[0]}, {table.columns[added - 1]}, has no numbers."
    named = ", ".join(f"{at} {table.columns[at - 1]}" for at in table.numeric)
    if len(table.numeric) > 1:
        return f"{wrong} These columns have: {named}."
    right = _ADDS.sub(lambda found: found[0].replace(f"${added}", f"${table.numeric[0]}"), program)
    words = [right if word == program else word for word in invocation.words]
    target = "".join(f" {each.operator} {shlex.quote(each.target)}" for each in invocation.redirects)
    return f"{wrong} Column {named} has. Unless the task wants another one, run: {shlex.join(words)}{target}"


def _is_count(invocation: Invocation) -> bool:
    """Tell whether a command counts lines."""
    options = [word for word in invocation.words[1:] if word.startswith("-")]
    return invocation.name == "wc" or (invocation.name in {"grep", "egrep"} and any("c" in word for word in options))


def _needs_separator(invocation: Invocation) -> str:
    """Return what a command without a separator of its own takes for one; empty: it has one, or needs none."""
    match invocation.name:
        case name if name in _AWKS:
            given = any(word.startswith(("-F", "--field-separator", "-v")) or "FS" in word for word in invocation.words)
            return "" if given else " "
        case "cut":
            given = any(word.startswith(("-d", "--delimiter", "-c", "-b")) for word in invocation.words)
            return "" if given else "\t"
        case _:
            return ""


def _tables_of(invocation: Invocation) -> Iterator[str]:
    yield from (word for word in invocation.words[1:] if is_table(word))
    yield from (each.target for each in invocation.redirects if each.operator == "<" and is_table(each.target))


MAX_CHECKED_BYTES = 256 * 1024
_MAX_FILES = 5
_LOOK_S = 10.0
_PYTHON = """\
import ast, sys
try:
    body = ast.parse(open(sys.argv[1], "rb").read()).body
    values = [each.value for each in body if isinstance(each, ast.Expr)]
    plain = [each for each in values if isinstance(each, (ast.Constant, ast.Tuple, ast.List, ast.Dict))]
    if len(plain) == len(body) and any(not isinstance(getattr(each, "value", 0), (str, type(...))) for each in plain):
        print("a program, it only lists values, and does nothing with them")
except SyntaxError as problem:
    print(f"valid Python, line {problem.lineno}: {problem.msg}: {(problem.text or '').strip()[:100]}")
"""
"""Runs in the box: what a model wrote may be more than our own parser can take."""


async def broken_files(sandbox: Sandbox, paths: Iterable[str]) -> dict[str, str]:
    """Return which of the files are not what their names say, and where they go wrong."""
    found = {path: await _problem_with(sandbox, path) for path in list(paths)[:_MAX_FILES]}
    return {path: problem for path, problem in found.items() if problem}


async def _problem_with(sandbox: Sandbox, path: str) -> str:
    match path.casefold().rpartition(".")[2]:
        case "py":
            looked = await sandbox.run_command(
                f"python3 -c {shlex.quote(_PYTHON)} {shlex.quote(path)}", timeout_s=_LOOK_S
            )
            said = looked.stdout.decode(errors="replace").strip()
            return f"not {said}" if looked.exit_code == 0 and said else ""
        case "json":
            return await _parse_problem(sandbox, path, json.loads, "JSON")
        case "toml":
            return await _parse_problem(sandbox, path, tomllib.loads, "TOML")
        case _:
            return ""


async def _parse_problem(sandbox: Sandbox, path: str, read: object, kind: str) -> str:
    assert callable(read)
    try:
        data, size = await sandbox.read_file(path, max_bytes=MAX_CHECKED_BYTES)
        if size <= len(data) and data.strip():
            read(data.decode())
    except OSError:
        return ""  # gone again
    except RecursionError:
        return ""  # nested too deeply to be a mistake of the model
    except ValueError as problem:
        several = ": it must be one value; put several into one list, [ … , … ]" if "Extra data" in str(problem) else ""
        return f"not valid {kind}, {problem}{several}"
    return ""
