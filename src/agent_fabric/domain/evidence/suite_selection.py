"""Which tests a test command executes, told by its words: all, those of some files, or only a part of them."""

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from itertools import pairwise
from posixpath import basename, join, normpath, splitext

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.evidence.proofs import words_of
from agent_fabric.domain.evidence.suite_files import is_test_file
from agent_fabric.domain.policy.command_lines.names import names
from agent_fabric.domain.policy.working_folders import ELSEWHERE, inside

_PYTEST_VALUED = names(
    "-k -m -p -c -o -n -r -W --rootdir --tb --maxfail --durations --deselect --ignore --ignore-glob --cov --confcutdir "
    "--junitxml --basetemp --timeout --import-mode"
)
_PYTEST_NARROWING = re.compile(r"-[km].*|--(?:deselect|ignore(?:-glob)?|lf|last-failed|sw|stepwise|nf)(?:=.*)?")
_OTHER_NARROWING = re.compile(r"--?(?:run|skip|t|testNamePattern|test-name-pattern|grep|g|filter|name|tests)(?:=.*)?")
_UNITTEST_VALUED = names("-k -s --start-directory -p --pattern -t --top-level-directory")
_PYTEST_SETTINGS = re.compile(r"(?:-o|--override-ini=)?(?:addopts|testpaths|python_\w+|norecursedirs)=.*")
_FOLDER_OPTIONS = {
    **dict.fromkeys(("make", "gmake", "ninja"), ("-C", "--directory")),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), ("--prefix", "-C", "--dir", "--cwd")),
    **dict.fromkeys(("go", "cargo", "meson"), ("-C",)),
    "just": ("-d", "--working-directory"),
    "gradle": ("-p", "--project-dir"),
}
"""With what a program that starts tests is told the folder to work in."""
_PASSED_ON = re.compile(r"[A-Z_]*(?:ARGS|OPTS|FLAGS|TESTS?|FILES?|K)=(.*)")
"""Variables with which `make` is told what to execute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The tests that a command was told to execute."""

    files: tuple[str, ...] = ()
    """Files, folders or patterns; none: all that the runner finds."""
    partly: bool = False
    """Of them only those with some name or mark."""
    discovers: bool = False
    """It is left to unittest to find them, from the workspace on."""

    def has(self, test: str) -> bool:
        """Tell whether all tests of a file are among them."""
        return not self.partly and (not self.files or any(_means(named, test) for named in self.files))

    def of(self, tests: Sequence[str]) -> frozenset[str]:
        """Return those of some files with tests all of whose tests are among them.

        A name stands for the file that has it, and for one in another folder only if there is none.
        """
        if self.partly or not self.files:
            return frozenset() if self.partly else frozenset(tests)
        found: set[str] = set()
        for named in self.files:
            found.update(
                [test for test in tests if _is(named, test)] or [test for test in tests if _means(named, test)]
            )
        return frozenset(found)

    def within(self, folder: str, workspace: str = "") -> "Selection":
        """Return the same for a command that runs in a folder of the workspace."""
        if folder == ELSEWHERE:
            return replace(self, partly=True)  # whatever it executes there, it is not what is here
        if not self.files:
            return self if folder == "." else replace(self, files=(folder,), discovers=False)
        files = tuple(inside(join(folder, file), workspace) for file in self.files)
        return replace(self, files=files, partly=self.partly or ELSEWHERE in files)

    def includes(self, other: "Selection") -> bool:
        """Tell whether it has all of another one."""
        if self == other:
            return True
        return not self.partly and (not self.files or (bool(other.files) and all(map(self.has, other.files))))


def selected_by(command: str, *, options: str = "") -> Selection:
    """Return what a command line with one test command executes; what is not understood selects all.

    `options` are those that pytest takes from its environment.
    """
    try:
        words = shlex.split(command)
        more = shlex.split(options)
    except ValueError:
        return Selection()
    plain = [basename(word) for word in words[:1]] + words[1:]
    if "unittest" in plain[:4]:
        return _by_unittest(plain[plain.index("unittest") + 1 :])
    runner = next((at for at, word in enumerate(plain[:4]) if word in {"pytest", "py.test"}), None)
    if runner is not None:
        return _by_pytest([*plain[runner + 1 :], *more])
    if plain[:1] and re.fullmatch(r"(?:python|pypy)[0-9.]*", plain[0]):
        return Selection(files=tuple(_operands(plain[1:], frozenset())[:1]))
    if plain[:1] in (["go"], ["jest"], ["vitest"], ["mocha"], ["cargo"], ["node"]):
        return _by_other(plain).within(_folder_option(plain))
    return _passed_on(plain[1:]).within(_folder_option(plain)) if plain else Selection()


def options_for_pytest(line: str) -> str:
    """Return the options that a command line has in the environment for pytest."""
    values = [word.partition("=")[2] for word in words_of(line) if word.startswith("PYTEST_ADDOPTS=")]
    return " ".join(value.rstrip(";") for value in values)


def _folder_option(words: Sequence[str]) -> str:
    """Return the folder that a program is told to work in."""
    for option in _FOLDER_OPTIONS.get(words[0], ()):
        for word, value in pairwise((*words, "")):
            if word == option:
                return value or "."
            if word.startswith(f"{option}=") or (len(option) == 2 and word.startswith(option)):
                return word.removeprefix(option).removeprefix("=")
    return "."


def _passed_on(words: Sequence[str]) -> Selection:
    """Return what a program that starts a runner tells it: behind `--`, or in a variable."""
    passed = [*words[words.index("--") + 1 :]] if "--" in words else [word for word in words if is_test_file(word)]
    for match in filter(None, map(_PASSED_ON.fullmatch, words)):
        passed += match[1].split()
    tests = [
        word.partition("::")[0] for word in _operands(passed, _PYTEST_VALUED) if is_test_file(word.partition("::")[0])
    ]
    partly = any(
        _PYTEST_NARROWING.fullmatch(word) or _OTHER_NARROWING.fullmatch(word) or "::" in word for word in passed
    )
    return Selection(files=tuple(tests), partly=partly)


def _by_pytest(words: Sequence[str]) -> Selection:
    named = _operands(words, _PYTEST_VALUED)
    narrowing = any(_PYTEST_NARROWING.fullmatch(word) or _PYTEST_SETTINGS.fullmatch(word) for word in words)
    partly = narrowing or any("::" in word for word in named)
    return Selection(files=tuple(word.partition("::")[0] for word in named), partly=partly)


def _by_unittest(given: Sequence[str]) -> Selection:
    words = [part for word in given for part in _apart(word)]
    named = _operands(words, _UNITTEST_VALUED)
    values = {option: value for option, value in pairwise(words) if option in _UNITTEST_VALUED}
    partly = any(re.fullmatch(r"-k.*", word) for word in words)
    if named[:1] == ["discover"]:
        start = values.get("-s") or values.get("--start-directory") or next(iter(named[1:]), "")
        pattern = values.get("-p") or values.get("--pattern") or next(iter(named[2:]), "")
        chosen = tuple(filter(None, [pattern or start]))
        return Selection(files=chosen, partly=partly, discovers=normpath(start or ".") == "." and not pattern)
    files = []
    for name in named:
        module, inner = _module_of(name)
        partly = partly or inner
        files.append(module)
    return Selection(files=tuple(files), partly=partly, discovers=not files)


def _apart(word: str) -> tuple[str, ...]:
    """Return an option of unittest and its value as two words."""
    option, _, value = word.partition("=")
    if value and option in _UNITTEST_VALUED:
        return option, value
    short = word[:2] in _UNITTEST_VALUED and len(word) > 2 and not word.startswith("--")
    return (word[:2], word[2:]) if short else (word,)


def _module_of(name: str) -> tuple[str, bool]:
    """Return the file of a name such as `tests.test_a.Case.test_b`, and whether it means only a part of it."""
    if name.endswith(".py"):
        return name, False
    parts = name.split(".")
    inner = next((at for at, part in enumerate(parts) if part[:1].isupper()), len(parts))
    return "/".join(parts[:inner]), inner < len(parts)


def _by_other(words: Sequence[str]) -> Selection:
    name, rest = words[0], words[1:]
    partly = any(map(_OTHER_NARROWING.fullmatch, rest))
    named = [word for word in _operands(rest, frozenset()) if word not in {"test", "run"}]
    if name == "cargo":
        return Selection(partly=partly or bool(named))
    return Selection(files=tuple(word for word in named if "..." not in word), partly=partly)


def _operands(words: Iterable[str], valued: frozenset[str]) -> list[str]:
    found, before = [], ""
    for word in words:
        if not word.startswith("-") and before not in valued:
            found.append(word)
        before = word
    return found


def _means(named: str, test: str) -> bool:
    """Tell whether a file of tests is what a command names: by its path, its folder, a pattern, a part of its name."""
    plain = normpath(named)
    path = normpath(test)
    module = splitext(path)[0]
    if any(character in plain for character in "*?["):
        return fnmatch(path, plain) or fnmatch(basename(path), plain)
    if _is(named, test) or f"/{path}".endswith((f"/{plain}", f"/{plain}{splitext(path)[1]}")):
        return True
    if plain.startswith("/") and plain.endswith((f"/{path}", f"/{module}")):
        return True
    return not path.endswith(".py") and plain in path


def _is(named: str, test: str) -> bool:
    """Tell whether a command names a file of tests by its path, or a folder that it lies in."""
    plain, path = normpath(named), normpath(test)
    return plain in {".", "..", path, splitext(path)[0]} or path.startswith(f"{plain}/") or plain.startswith("../")
