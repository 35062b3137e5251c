"""Which tests a test command executes, told by its words: all, those of some files, or only a part of them."""

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import pairwise
from posixpath import basename, normpath, splitext

from agent_fabric.domain.commands.names import names

_PYTEST_VALUED = names(
    "-k -m -p -c -o -n -r -W --rootdir --tb --maxfail --durations --deselect --ignore --ignore-glob --cov --confcutdir "
    "--junitxml --basetemp --timeout --import-mode"
)
_PYTEST_NARROWING = re.compile(r"-[km].*|--(?:deselect|ignore(?:-glob)?|lf|last-failed|sw|stepwise|nf)(?:=.*)?")
_OTHER_NARROWING = re.compile(r"--?(?:run|skip|t|testNamePattern|test-name-pattern|grep|g|filter|name|tests)(?:=.*)?")
_UNITTEST_VALUED = names("-k -s --start-directory -p --pattern -t --top-level-directory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The tests that a command was told to execute."""

    files: tuple[str, ...] = ()
    """Files, folders or patterns; none: all that the runner finds."""
    partly: bool = False
    """Of them only those with some name or mark."""

    def has(self, test: str) -> bool:
        """Tell whether all tests of a file are among them."""
        return not self.partly and (not self.files or any(_means(named, test) for named in self.files))

    def includes(self, other: "Selection") -> bool:
        """Tell whether it has all of another one."""
        if self == other:
            return True
        return not self.partly and (not self.files or (bool(other.files) and all(map(self.has, other.files))))


def selected_by(command: str) -> Selection:
    """Return what a command line with one test command executes; what is not understood selects all."""
    try:
        words = shlex.split(command)
    except ValueError:
        return Selection()
    plain = [basename(word) for word in words[:1]] + words[1:]
    if "unittest" in plain[:4]:
        return _by_unittest(plain[plain.index("unittest") + 1 :])
    runner = next((at for at, word in enumerate(plain[:4]) if word in {"pytest", "py.test"}), None)
    if runner is not None:
        return _by_pytest(plain[runner + 1 :])
    if plain[:1] and re.fullmatch(r"(?:python|pypy)[0-9.]*", plain[0]):
        return Selection(files=tuple(_operands(plain[1:], frozenset())[:1]))
    if plain[:1] in (["go"], ["jest"], ["vitest"], ["mocha"], ["cargo"], ["node"]):
        return _by_other(plain)
    return Selection()


def _by_pytest(words: Sequence[str]) -> Selection:
    named = _operands(words, _PYTEST_VALUED)
    partly = any(map(_PYTEST_NARROWING.fullmatch, words)) or any("::" in word for word in named)
    return Selection(files=tuple(word.partition("::")[0] for word in named), partly=partly)


def _by_unittest(words: Sequence[str]) -> Selection:
    named = _operands(words, _UNITTEST_VALUED)
    values = {option: value for option, value in pairwise(words) if option in _UNITTEST_VALUED}
    partly = any(re.fullmatch(r"-k.*", word) for word in words)
    if named[:1] == ["discover"]:
        start = values.get("-s") or values.get("--start-directory") or next(iter(named[1:]), "")
        pattern = values.get("-p") or values.get("--pattern") or next(iter(named[2:]), "")
        return Selection(files=tuple(filter(None, [pattern or start])), partly=partly)
    files = []
    for name in named:
        module, inner = _module_of(name)
        partly = partly or inner
        files.append(module)
    return Selection(files=tuple(files), partly=partly)


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
    if plain == "." or any(character in plain for character in "*?["):
        return plain == "." or fnmatch(path, plain) or fnmatch(basename(path), plain)
    if plain in {path, module} or path.startswith(f"{plain}/"):
        return True
    if f"/{path}".endswith((f"/{plain}", f"/{plain}{splitext(path)[1]}")) or plain.endswith((f"/{path}", f"/{module}")):
        return True
    return not path.endswith(".py") and plain in path
