"""What a command proves when it succeeds, and what it changes.

An engineering task may only claim success after a test, a build or a run has succeeded and nothing changed since. This
module reads that from the command line; it errs towards "changes something" and "proves nothing". Of tests the output
has to say that some were executed.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.evidence.suite_counts import count_told_in
from agent_fabric.domain.policy.command_lines.grammar import parse_command
from agent_fabric.domain.policy.command_lines.invocation import (
    MAX_NESTING,
    Connector,
    Invocation,
    Redirect,
    UnparsableCommand,
)
from agent_fabric.domain.policy.command_lines.names import names
from agent_fabric.domain.policy.command_lines.wrappers import unwrap, wrapped_commands
from agent_fabric.domain.tools.findings import ProofKind, TestCount


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """What exit status 0 of a command line means."""

    changes: bool = False
    """Files may have changed that nothing later in the line has put to the test."""
    proves: str = ""
    """The test, build or run command that must have succeeded; empty if there is none."""
    kind: ProofKind = ProofKind.NONE
    """What its success proves, as far as the command line tells."""
    test_file: str = ""
    """A file of tests that is run as a program: its tests may not be called."""
    inline: bool = False
    """It runs code of its own in which no test runner is named."""
    quotes: bool = False
    """The line shows texts beside it, in which the words of a runner may stand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a command that has succeeded shows, together with its output."""

    proved: str = ""
    kind: ProofKind = ProofKind.NONE
    tests: TestCount | None = None
    missing: str = ""
    """Why it proves less than its command line says; empty: it does not."""


def shown_by(assessment: Assessment, output: str) -> Shown:
    """Say what a command that ended with status 0 proves, given what it printed."""
    if not assessment.proves:
        return Shown()
    if _NOTHING_BUILT.search(output) and assessment.kind is not ProofKind.TESTS:
        return Shown(missing="there was nothing to build")
    by_others = assessment.inline or (assessment.quotes and assessment.kind is not ProofKind.TESTS)
    tests = None if by_others else count_told_in(output)
    if tests is not None and tests.ran:
        if tests.failed:
            return Shown(tests=tests, missing=f"{tests.failed} of {tests.ran} tests have failed")
        return Shown(proved=assessment.proves, kind=ProofKind.TESTS, tests=tests)
    if assessment.kind is ProofKind.TESTS or assessment.test_file or tests is not None:
        return Shown(tests=tests, missing="no test was executed")
    return Shown(proved=assessment.proves, kind=assessment.kind)


def find_test_command(command: str) -> str:
    """Return the first command of a line that executes tests; empty: there is none."""
    inner = (each for each in inner_commands(command) or () if each.words and not each.dynamic)
    tests = (each for each in inner if _is_proof(each) and _kind_of(each) is ProofKind.TESTS)
    return next((shlex.join(each.words) for each in tests), "")


def count_failed_tests(command: str, output: str) -> TestCount | None:
    """Return the tests of a command that did not succeed, if it is one that executes tests and some have failed."""
    tests = count_told_in(output) if find_test_command(command) else None
    return tests if tests is not None and tests.failed else None


_NOTHING_BUILT = re.compile(r"^g?make(?:\[\d+\])?: (?:Nothing to be done for|'[^']*' is up to date)", re.MULTILINE)


def assess(command: str) -> Assessment:
    """Say what a bash command line, run with `pipefail`, has done if it ended with status 0; never raises."""
    try:
        invocations = parse_command(command)
        proven = _proven(invocations, pipefail=True, depth=0)
        return proven or Assessment(changes=any(_changes(invocation) for invocation in invocations))
    except UnparsableCommand:
        return Assessment(changes=True)


def may_write_behind(line: str, proof: str) -> bool:
    """Tell whether a program runs behind the proof of a line and may have written files, and nothing before it has."""
    try:
        invocations = parse_command(line)
    except UnparsableCommand:
        return False
    at = next((at for at, each in enumerate(invocations) if proof in _joined_words(each)), None)
    if at is None or any(_changes(earlier) or _runs(earlier) for earlier in invocations[:at]):
        return False
    return any(map(_runs, invocations[at + 1 :]))


def _runs(invocation: Invocation) -> bool:
    return any(_is_proof(inner) for inner in unwrap(invocation) if inner.words)


def _joined_words(invocation: Invocation) -> tuple[str, ...]:
    return tuple(shlex.join(inner.words) for inner in unwrap(invocation))


def acts_elsewhere(command: str) -> bool:
    """Tell whether a command line changes what no file of the workspace shows: a repository, installed packages."""
    try:
        return any(_acts_elsewhere(inner) for invocation in parse_command(command) for inner in unwrap(invocation))
    except UnparsableCommand:
        return False


def git_actions(command: str) -> frozenset[str]:
    """Return what a command line asks git to do, such as `commit`."""
    inner = (each for each in inner_commands(command) or () if each.name == "git")
    return frozenset(operands[0] for each in inner if (operands := _operands(each.words[1:])))


def inner_commands(command: str) -> Sequence[Invocation] | None:
    """Return every command of a line, also those that others of it start; None: it cannot be read."""
    try:
        return [inner for invocation in parse_command(command) for inner in unwrap(invocation)]
    except UnparsableCommand:
        return None


def _proven(invocations: Sequence[Invocation], *, pipefail: bool, depth: int) -> Assessment | None:
    """Find the last command that proves something and whose success the status of the whole implies."""
    top = [at for at, invocation in enumerate(invocations) if not invocation.nested]
    last: Assessment | None = None
    implied = {Connector.AND, Connector.END} | ({Connector.PIPE} if pipefail else set())
    for k in range(len(top) - 1, -1, -1):
        at = top[k]
        if invocations[at].connector not in implied:
            break
        found = _proven_by(invocations[at], depth)
        if not found:
            continue
        first = k
        while first and invocations[top[first - 1]].connector is Connector.PIPE:
            first -= 1
        skippable = first > 0 and invocations[top[first - 1]].connector is Connector.OR
        if skippable or any(_may_end_early(earlier) for earlier in invocations[:at]):
            break
        quotes = any(_quotes(other) for other in (*invocations[: top[first]], *invocations[at + 1 :]))
        found = replace(found, changes=found.changes or _changes_behind(invocations, at), quotes=found.quotes or quotes)
        if found.kind is ProofKind.TESTS:
            return found
        last = last or found
    return last


def _quotes(invocation: Invocation) -> bool:
    """Tell whether a command prints a text that may look like the words of a test runner."""
    if invocation.name in {"echo", "printf"}:
        return count_told_in(_FILLED_IN.sub("1", "\n".join(invocation.words))) is not None
    operands = _operands(invocation.words[1:])
    if invocation.name in _FILTERS:  # what they are given may be the words of the proof itself
        return len(operands) > (invocation.name in {"grep", "sed", "awk"})
    if _is_proof(invocation):
        return False  # the words of a runner that it may print stand in a report
    return invocation.name not in _SILENT and not (
        invocation.name == "git" and operands[:1] and operands[0] in _QUIET_GIT
    )


_FILLED_IN = re.compile(r"%[-0-9.]*[dsiu]|\$\{?\w+\}?|\$\(\([^)]*\)\)")
_FILTERS = names("awk cat cut grep head sed sort tail tee tr uniq wc")
_SILENT = names(
    ": . [ [[ cd chmod command cp date declare export false install ln ls mkdir mktemp mv npm pip pip3 popd pushd pwd "
    "realpath rm rmdir set sleep source test touch true type typeset unset uv wait which"
) | {""}
"""What prints no text of its own that may look like the words of a test runner."""
_QUIET_GIT = names("add branch checkout commit fetch init pull push restore rm mv stash status switch tag")


def _proven_by(invocation: Invocation, depth: int) -> Assessment | None:
    """Say what the success of one command proves, which may be that of a command inside of it."""
    if depth > MAX_NESTING:
        raise UnparsableCommand(f"more than {MAX_NESTING} commands start each other")
    if not invocation.words or invocation.dynamic or _switches_off_assertions(invocation):
        return None
    if inner := wrapped_commands(invocation):
        pipefail = "pipefail" in invocation.words or invocation.name == "eval"
        return _proven(inner, pipefail=pipefail, depth=depth + 1)
    if _is_proof(invocation) and not _changes_itself(invocation):
        kind = _kind_of(invocation)
        file = _test_file(invocation) if kind is ProofKind.PROGRAM else ""
        code = _inline_code(invocation.words[1:], invocation.redirects) if _is_python(invocation.name) else ""
        inline = bool(code) and not _NAMES_RUNNER.search(code)
        return Assessment(proves=shlex.join(invocation.words), kind=kind, test_file=file, inline=inline)
    return None


def _changes_behind(invocations: Sequence[Invocation], proof: int) -> bool:
    own_output = True
    for at in range(proof + 1, len(invocations)):
        # What the rest of the proof's own pipeline writes is the proof's output.
        own_output = own_output and invocations[at - 1].connector is Connector.PIPE
        if (_changes_more_than_output if own_output else _changes)(invocations[at]):
            return True
    return False


def _switches_off_assertions(invocation: Invocation) -> bool:
    """Tell whether Python is told in its environment to leave out every `assert`."""
    set_by_words = (word.partition("=")[::2] for word in invocation.words if "=" in word)
    return any(name == "PYTHONOPTIMIZE" and value for name, value in (*invocation.assignments, *set_by_words))


def _may_end_early(invocation: Invocation) -> bool:
    """Tell whether the line may end with status 0, or stop executing or checking, before what follows has run."""
    exports = invocation.name in {"export", "declare", "typeset"}
    return (exports and _switches_off_assertions(invocation)) or any(
        inner.name in {"exit", "return", "trap", "alias", "logout"}
        or (inner.name == "exec" and len(inner.words) > 1)
        or (inner.name == "set" and not all(_HARMLESS_SET.fullmatch(word) for word in inner.words[1:]))
        for inner in unwrap(invocation)
    )


_HARMLESS_SET = re.compile(r"-[eEuxvo]+|pipefail|errexit|nounset|xtrace|verbose")

# ── proofs ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*")
_ONLY_TELLS = names(
    "--version -V --help -h --dry-run --collect-only --co --fixtures --markers --setup-plan --exit-zero --if-present "
    "--ignore-errors --just-print --question --touch --listTests --no-run --setup-only --fixtures-per-test --cache-show"
)
"""Options with which a program tells something instead of doing its work, or succeeds whatever it finds."""
_NAMES_RUNNER = re.compile(r"\b(?:pytest|unittest|doctest)\b")

_WITHOUT_ASSERTIONS = re.compile(r"-[bBdEIPqRsSuvx]*O+[bBdEIPqRsSuvx]*[mc]?")
"""With `-O`, Python leaves out every `assert`."""

_ALWAYS = names(
    "bandit clang clang++ cc ctest eslint flake8 g++ gcc gmake javac jest just make mocha mypy ninja nox pylint "
    "py.test pyright pytest rustc shellcheck tox tsc vitest"
)
"""Programs whose plain use is a test, a build or a check."""

_SUBCOMMANDS = {
    "npm": {"test", "t", "tst", "run", "run-script", "start"},
    "yarn": {"test", "run", "start", "build", "lint"},
    "pnpm": {"test", "t", "run", "start", "build", "lint"},
    "bun": {"test", "run", "build"},
    "deno": {"test", "run", "check", "lint"},
    "go": {"test", "build", "run", "vet"},
    "cargo": {"test", "build", "run", "check", "clippy", "bench", "t", "b", "r", "c"},
    "dotnet": {"test", "build", "run"},
    "mvn": {"test", "verify", "package", "compile", "install"},
    "gradle": {"test", "build", "check", "run"},
    "ruff": {"check"},
    "coverage": {"run"},
    "uv": {"build"},
    "poetry": {"build", "check"},
    "hatch": {"test", "build"},
    "meson": {"test", "compile"},
    "pre-commit": {"run"},
}

_NOT_RUN = names("pip venv ensurepip virtualenv http.server json.tool site sysconfig this webbrowser")
"""Modules whose `python -m` says nothing about the task."""

_VALUED = names("-C -c -f -j --prefix --cwd --dir --directory --manifest-path --git-dir --work-tree --namespace")
"""Options before an action whose value is the next word."""
_CLEANING = names("clean distclean mostlyclean help fmt format install uninstall")
_WRITING_CODE = re.compile(
    r"""write_text|write_bytes|\.write\(|writelines|open\([^)]*["'][wax]b?\+?["']|\b(?:os|shutil|pathlib)\.\w*"""
    r"""(?:remove|unlink|rename|replace|copy|move|mkdir|makedirs|rmtree)"""
)
"""Inline code that edits files is an edit, not a run of what was edited."""


def _is_proof(invocation: Invocation) -> bool:
    name, arguments = invocation.name, invocation.words[1:]
    if _is_python(name):
        return _is_python_run(arguments, invocation.redirects)
    if _ONLY_TELLS & set(arguments):
        return False
    operands = _operands(arguments)
    match name:
        case "make" | "gmake" | "just" | "ninja":
            idle = any(_IDLE_MAKE.fullmatch(word) for word in arguments) or _idles_by_flags(invocation)
            return not idle and (not operands or not set(operands) <= _CLEANING)
        case "cmake":
            return "--build" in arguments
        case "node" | "ruby" | "perl" | "php" | "lua" | "java" | "Rscript":
            return bool(operands) or (_is_syntax_check(invocation) and not arguments[-1].startswith("-"))
        case "go" if any(_IDLE_GO.fullmatch(word) for word in arguments):
            return False
        case "bash" | "sh" | "dash":
            return bool(operands)
        case _ if name in _SUBCOMMANDS:
            return bool(operands) and operands[0] in _SUBCOMMANDS[name]
        case _:
            in_workspace = "/" in invocation.program and not invocation.program.startswith("/")
            return name in _ALWAYS or (in_workspace and name not in _INSTALLING and name not in _CHANGING)


_IDLE_MAKE = re.compile(r"-[BeikLnqRrsStvw]*[inqt][BeikLnqRrsStvw]*")
"""Short options with which nothing is made, or whatever fails is ignored."""
_MAKE_FLAGS = names("MAKEFLAGS GNUMAKEFLAGS MFLAGS")
_IDLE_GO = re.compile(r"--?(?:list|exec|c|n)(?:=.*)?")
_ONLY_SYNTAX = {
    **dict.fromkeys(("bash", "sh", "dash"), re.compile(r"-[a-z]*n[a-z]*")),
    **dict.fromkeys(("node", "ruby", "perl"), re.compile(r"-[wW]?c|--check")),
    "php": re.compile(r"-l|--syntax-check"),
}
"""With what a program is only read, and not run."""


def _idles_by_flags(invocation: Invocation) -> bool:
    words = (word.partition("=")[::2] for word in invocation.words[1:] if "=" in word)
    flags = [value for name, value in (*invocation.assignments, *words) if name in _MAKE_FLAGS]
    return any(re.search(r"(?:^|\s)-?[BeikLnqRrsStvw]*[inqt]", value) for value in flags)


def _is_syntax_check(invocation: Invocation) -> bool:
    option = _ONLY_SYNTAX.get(invocation.name)
    return option is not None and any(option.fullmatch(word) for word in invocation.words[1:])


_TESTING = names("ctest jest mocha nox phpunit py.test pytest rspec tox vitest")
_TESTING_ACTIONS = names("test tests t tst check verify package install unittest pytest coverage test-unit nextest")
_RUNNING_ACTIONS = names("run r start exec")
_PROGRAMS = names("bash dash java lua node perl php python ruby Rscript sh")
_TEST_NAME = re.compile(r"(?:^|[-_:.])(?:tests?|spec|check)(?:[-_:.]|$)")
_TEST_FILE = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test)\.py$|(?:^|/)tests?\.py$")


def _kind_of(invocation: Invocation) -> ProofKind:
    """Say what kind of proof the success of a command is, as its words tell."""
    name, arguments = invocation.name, invocation.words[1:]
    if _is_python(name):
        module = arguments[arguments.index("-m") + 1] if "-m" in arguments[:-1] else ""
        if module in {"py_compile", "compileall", "mypy", "ruff", "flake8", "pylint", "pyflakes", "build"}:
            return ProofKind.BUILD
        tests = module in {"pytest", "unittest", "doctest", "nose2", "tox", "nox"}
        return ProofKind.TESTS if tests else ProofKind.PROGRAM
    if _is_syntax_check(invocation):
        return ProofKind.BUILD
    operands = _operands(arguments)
    first = operands[0] if operands else ""
    if name in _TESTING or (name == "node" and "--test" in arguments):
        return ProofKind.TESTS
    if name in {"make", "gmake", "just", "ninja"}:
        return ProofKind.TESTS if any(map(_TEST_NAME.search, operands)) else ProofKind.BUILD
    if name in {"npm", "pnpm", "yarn", "bun"} and first in {"run", "run-script"}:
        return ProofKind.TESTS if any(map(_TEST_NAME.search, operands[1:2])) else ProofKind.PROGRAM
    if name in _SUBCOMMANDS:
        tests = name in {"mvn", "gradle"} and bool({"package", "install", "verify", "check", "build"} & set(operands))
        tests = tests or first in _TESTING_ACTIONS - names("check package install verify") or "test" in operands
        return ProofKind.TESTS if tests else ProofKind.PROGRAM if first in _RUNNING_ACTIONS else ProofKind.BUILD
    in_workspace = "/" in invocation.program and not invocation.program.startswith("/")
    return ProofKind.PROGRAM if in_workspace or name in _PROGRAMS else ProofKind.BUILD


def _test_file(invocation: Invocation) -> str:
    """Return the file of tests that is run as if it were a program."""
    if not _is_python(invocation.name):
        return ""
    return next((word for word in _operands(invocation.words[1:])[:1] if _TEST_FILE.search(word)), "")


def _operands(arguments: Sequence[str]) -> list[str]:
    """Return the words that are neither options, nor the values of the usual ones, nor assignments."""
    return [
        word
        for at, word in enumerate(arguments)
        if not word.startswith(("-", "+"))
        and not (at and arguments[at - 1] in _VALUED)
        and not re.match(r"[A-Za-z_]+=", word)
    ]


def _is_python(name: str) -> bool:
    return _PYTHON.fullmatch(name) is not None


def _is_python_run(arguments: Sequence[str], redirects: Sequence[Redirect]) -> bool:
    for at, word in enumerate(arguments):
        rest = arguments[at + 1 :]
        if word in {"-W", "-X"} or (at and arguments[at - 1] in {"-W", "-X"}):
            continue
        if word in {"-V", "-VV", "-h", "-?"} or word.startswith("--") or _WITHOUT_ASSERTIONS.fullmatch(word):
            return False
        if word in {"-c", "-"}:
            break
        if word == "-m":
            return bool(rest) and rest[0] not in _NOT_RUN and not _ONLY_TELLS & set(rest)
        if not word.startswith("-"):
            return True
    code = _inline_code(arguments, redirects)
    return bool(code) and not _WRITING_CODE.search(code)


def _inline_code(arguments: Sequence[str], redirects: Sequence[Redirect]) -> str:
    if "-c" in arguments[:-1]:
        return arguments[arguments.index("-c") + 1]
    return next((redirect.target for redirect in redirects if redirect.operator.startswith("<<")), "")


# ── changes ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_CHANGING = names(
    "bunzip2 bzip2 chgrp chmod chown cp csplit dd gunzip gzip install link ln mkdir mkfifo mktemp mv patch "
    "rename rm rmdir shred split touch truncate unlink unxz unzip xz black isort"
)
_INSTALLING = frozenset({"pip", "pip3", "npm", "pnpm", "yarn", "bun", "uv", "poetry", "pipenv", "cargo", "go", "gem"})
_INSTALL_ACTIONS = names(
    "install i ci add remove rm uninstall update upgrade sync lock init new get mod fix fmt link pip venv"
)
_GIT_CHANGES = names(
    "am apply checkout cherry-pick clean clone init merge mv pull rebase reset restore revert rm stash "
    "submodule switch worktree"
)
_GIT_RECORDS = _GIT_CHANGES | names("add branch bisect commit config fetch gc notes push remote tag update-ref")
"""What changes a repository, be it the files beside it or not."""
_HARMLESS_FILES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})


def _changes(invocation: Invocation) -> bool:
    return any(_writes_file(inner) or _changes_itself(inner) for inner in unwrap(invocation))


def _changes_more_than_output(invocation: Invocation) -> bool:
    return any(inner.name != "tee" and _changes_itself(inner) for inner in unwrap(invocation))


def _writes_file(invocation: Invocation) -> bool:
    return any(
        redirect.operator in {">", ">>", ">|", "&>", "&>>", "<>"}
        or (redirect.operator == ">&" and not re.fullmatch(r"[0-9]*-?", redirect.target))
        for redirect in invocation.redirects
        if redirect.target not in _HARMLESS_FILES
    )


def _changes_itself(invocation: Invocation) -> bool:
    """Tell whether the program changes files, apart from redirects."""
    name, arguments = invocation.name, invocation.words[1:]
    operands = _operands(arguments)
    if _is_python(name):
        return arguments[:2] == ("-m", "pip") or bool(
            _WRITING_CODE.search(_inline_code(arguments, invocation.redirects))
        )
    match name:
        case "tee":
            return bool(set(operands) - _HARMLESS_FILES)
        case "sed" | "perl" | "ruby":
            return _is_edit_in_place(invocation)
        case "git":
            return bool(operands) and operands[0] in _GIT_CHANGES
        case "tar":
            return any(re.match(r"-?[a-zA-Z]*[xc]|--(?:extract|get|create)", word) for word in arguments[:1])
        case "find":
            return "-delete" in arguments
        case "ruff":
            return "--fix" in arguments or operands[:1] == ["format"]
        case "prettier" | "eslint":
            return bool({"--write", "-w", "--fix"} & set(arguments))
        case _:
            return name in _CHANGING or (name in _INSTALLING and bool(operands) and operands[0] in _INSTALL_ACTIONS)


def _acts_elsewhere(invocation: Invocation) -> bool:
    operands = _operands(invocation.words[1:])
    first = operands[0] if operands else ""
    if _is_python(invocation.name):
        return invocation.words[1:3] == ("-m", "pip")
    if invocation.name == "git":
        return first in _GIT_RECORDS
    return invocation.name in _INSTALLING and first in _INSTALL_ACTIONS


def _is_edit_in_place(invocation: Invocation) -> bool:
    return invocation.name in {"sed", "perl", "ruby"} and any(
        word.startswith("--in-place") or re.match(r"-[a-zA-Z0-9]*i", word) for word in invocation.words[1:]
    )
