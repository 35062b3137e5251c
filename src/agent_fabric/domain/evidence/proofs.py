"""What bears out the result of a run, and whether it says anything about what was changed.

The latter is told by the words of commands and by names of files. It errs towards believing: a program may use what was
changed without naming it.
"""

import re
import shlex
from collections.abc import Iterable, Sequence
from posixpath import basename, normpath, splitext

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.evidence.events import WorkspaceCompared
from agent_fabric.domain.evidence.suite_counts import NONE_LEFT_OUT, LeftOut
from agent_fabric.domain.policy.command_lines.names import names
from agent_fabric.domain.tools.findings import ProofKind, TestCount
from agent_fabric.domain.tools.program_files import can_be_run

UNPROVEN = "unproven"
"""Key in a payload that says why nothing bears the result out."""
RESULT_UNPROVEN = "result_unproven"
"""Code of the error of a run that was to prove its result, and did not."""
UNVERIFIED = "unverified"
"""Key in a payload that lists the numbers and quotes of the summary that stand in no result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What bears out a result, and where in the log that stands."""

    kind: ProofKind = ProofKind.NONE
    command: str = ""
    """The command that has succeeded, or what was found."""
    seq: int | None = None
    """The event that says so."""
    tests: TestCount | None = None
    own_tests: bool = False
    """The run itself has written or changed every test of what it changed, so they show what it takes for right."""
    changed_tests: tuple[str, ...] = ()
    """Files with tests, or with their settings, that were there before and that the run has changed or deleted."""
    printed: str = ""
    """How the output of a program begins, which is all that its running has shown."""

    def __bool__(self) -> bool:
        """Tell whether there is any."""
        return self.kind is not ProofKind.NONE


NO_PROOF = Proof()


@dataclass(frozen=True, slots=True)
class CommandRun:
    """A command line that was executed in the workspace."""

    command: str
    succeeded: bool
    seq: int
    """The event that has its result."""
    at: float = 0.0
    """When it ended, in seconds since 1970."""
    began: float = 0.0
    """When it was started."""
    tests: TestCount | None = None
    """The tests that were executed, if a runner has said so; also those of a command that failed."""
    proof: Proof = NO_PROOF
    """What it has shown."""
    left_out: LeftOut = NONE_LEFT_OUT
    """The tests that were not executed, if a runner has said so."""
    framed: bool = False
    """What a runner said about its tests stands in all that it prints."""
    files: tuple[str, ...] = ()
    """The files whose tests were executed, if the runner has named all of them."""


def strongest(proofs: Iterable[Proof]) -> Proof:
    """Return the strongest of several proofs; of equals the one with more tests, then the first."""
    order = list(ProofKind)
    return min(
        proofs, key=lambda proof: (order.index(proof.kind), -(proof.tests.ran if proof.tests else 0)), default=NO_PROOF
    )


_RUNNERS = names(
    "ctest doctest jest mocha nose2 nox _pytest phpunit py.test pytest rspec sitecustomize tox unittest usercustomize "
    "vitest"
)
_RECIPES = {
    "make": ("Makefile", "makefile", "GNUmakefile"),
    "gmake": ("Makefile", "makefile", "GNUmakefile"),
    "just": ("justfile", "Justfile", ".justfile"),
    "npm": ("package.json",),
    "pnpm": ("package.json",),
    "yarn": ("package.json",),
    "bun": ("package.json",),
}
"""Where a program that starts others has its commands from."""
_ONLY_NAMED = names("bandit compileall eslint flake8 py_compile pyflakes pylint ruff shellcheck")
"""Programs that look at the files they are given, and at no other."""
_FAMILIES = (
    names(".c .h .cc .cpp .hpp .cxx"),
    names(".js .ts .jsx .tsx .mjs .cjs .mts .cts"),
    names(".java .kt .scala"),
)
_SEARCH_PATH = re.compile(r"(?<![\w$])(?:PATH|PYTHONPATH|NODE_PATH|BASH_ENV)=")
_FRAME = re.compile(
    r"^=+ [^\n]*\d+ passed[^\n]* in [\d.]+s[^\n]* =+$|^Ran \d+ tests? in \d+\.\d{3}s\n\n(?:OK|FAILED)\b"
    r"|^=+ test session starts =+$|\[100%\]|^-{70}\nRan \d+ tests? in |^running \d+ tests?$|^Test Suites:"
    r"|^ok\s+\t|^\?\s+\t|^(?:#|ℹ) tests \d+$|^> Task :|^\s*Test Files\s|^bun test v|^Finished in [\d.]+ seconds"
    r"|^PHPUnit \d|^Test project |^\[INFO\]\s+T E S T S|^running \d+ tests? from |^Starting test execution|^\s*[✔✓] ",
    re.MULTILINE,
)


def is_framed(output: str) -> bool:
    """Tell whether a runner's summary stands in an output with what the runner prints around it."""
    return _FRAME.search(output) is not None


def replaced_runners(compared: WorkspaceCompared) -> tuple[str, ...]:
    """Return the changed files that have the name of a test runner, so that they may be run in its place."""
    programs = (
        path for path in (*compared.created, *compared.modified) if not path.endswith((".ini", ".toml", ".cfg"))
    )
    return tuple(path for path in programs if splitext(basename(path.rstrip("/")))[0] in _RUNNERS)


def own_recipes(command: str, compared: WorkspaceCompared) -> tuple[str, ...]:
    """Return the changed files that decide what a command prints: the makefile of `make`, the script of `bash`."""
    words = words_of(command)
    name = basename(words[0]) if words else ""
    if name in _RUNNERS or (len(words) > 2 and words[1] == "-m"):
        return ()
    deciding = _RECIPES.get(name) or tuple(normpath(word) for word in words if not word.startswith("-"))
    return tuple(path for path in compared.paths if path in deciding)


def chooses_programs(line: str) -> bool:
    """Tell whether a command line says where programs are looked for, so that a runner may be any program."""
    return _SEARCH_PATH.search(line) is not None


def bears_on(line: str, command: str, compared: WorkspaceCompared) -> bool:
    """Tell whether a command of a command line may show something about what was changed.

    Where only its own code is run, that has to name what was changed. Where it names programs, one of them has to be
    changed, or to be able to use one that is.
    """
    changed = [path for path in compared.paths if not path.endswith("/")]
    if not compared.known or compared.more or not changed:
        return True
    words = words_of(command)
    if _is_inline(words):
        return any(name in line for path in changed for name in _mentions(path))
    programs = (word for word in words if can_be_run(word) and not word.startswith("-"))
    named = [normpath(word) for word in programs if not word.endswith(".sh")]  # a script may run anything
    if not named or any(_same(one, other) for one in named for other in changed):
        return True
    used = [path for path in changed if can_be_run(path)]
    if not used:
        return True  # settings and data: any program may read them
    if _ONLY_NAMED & {basename(word) for word in words[:3]}:
        return False
    return bool(_families(named) & _families(used))


def _is_inline(words: Sequence[str]) -> bool:
    return (
        bool(words)
        and re.fullmatch(r"(?:python|pypy)[0-9.]*", basename(words[0])) is not None
        and ("-c" in words[1:] or words[-1] == "-")
    )


def _mentions(path: str) -> Iterable[str]:
    """Return the names by which code may use a file."""
    stem = splitext(basename(path))[0]
    yield basename(path)
    yield basename(path.rpartition("/")[0]) or stem if stem in {"__init__", "index", "mod", "lib", "main"} else stem


def _families(paths: Iterable[str]) -> set[str]:
    endings = {splitext(path)[1].casefold() for path in paths}
    return endings | {next(iter(sorted(family))) for family in _FAMILIES if family & endings}


def _same(one: str, other: str) -> bool:
    return one == other or one.endswith(f"/{other}") or other.endswith(f"/{one}")


def words_of(command: str) -> list[str]:
    """Return the words of a command line, also of one whose quotes do not match."""
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()
