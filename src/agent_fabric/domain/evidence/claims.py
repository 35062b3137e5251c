"""What a result says about the run, held against what the run has done: pure.

`changed` and `checked` of a result are lists that can be compared. Of the summary only words count that change what
is proven (ADR 0088), such as "all tests pass". Everything here errs towards believing.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from posixpath import basename, dirname, normpath, splitext
from typing import Any, assert_never

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.evidence.asked_for import AskedFor, asked_for, files_to_change, paths_in
from agent_fabric.domain.evidence.commands import acts_elsewhere, assess, find_test_command, git_actions
from agent_fabric.domain.evidence.events import WorkspaceCompared
from agent_fabric.domain.evidence.proofs import CommandRun, Proof, words_of
from agent_fabric.domain.evidence.suite_files import decides_tests, importing_lines
from agent_fabric.domain.evidence.suite_selection import Selection, options_for_pytest, selected_by
from agent_fabric.domain.packs.contents import CHANGED, CHECKED, texts_under
from agent_fabric.domain.policy.command_lines.names import names
from agent_fabric.domain.policy.working_folders import folder_of
from agent_fabric.domain.tools.findings import ProofKind
from agent_fabric.domain.tools.program_files import can_be_run, is_plain_text

NOTHING_CHANGED = "nothing was changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deeds:
    """What a specialist has done, as its log has it."""

    prompt: str = ""
    workspace: str = ""
    """Where it was done."""
    compared: WorkspaceCompared
    commands: Sequence[CommandRun] = ()
    last_change: int = -1
    """The event with the last change of files that a tool knows of."""
    by_others: frozenset[str] = frozenset()
    """Changed files that only other specialists of the run wrote: not this one's work, whatever it says."""
    proven_by_others: frozenset[str] = frozenset()
    """Those of them that are not for this one to prove."""
    elsewhere: bool = False
    """A tool has acted outside of the workspace, so that something may have changed that no file shows."""
    proof: Proof

    @property
    def to_prove(self) -> WorkspaceCompared:
        """What is different and for this specialist to prove."""
        if not self.proven_by_others:
            return self.compared
        left = self.compared.without(self.proven_by_others)
        return (
            left
            if any(can_be_run(path) or decides_tests(path) for path in left.paths)
            else replace(left, tests=(), check_scripts=(), test_functions=0)
        )

    @property
    def nothing_changed(self) -> bool:
        """Whether it is known that the run has left no trace."""
        unchanged = self.compared.without(self.by_others).unchanged and not self.elsewhere
        return unchanged and not any(run.succeeded and acts_elsewhere(run.command) for run in self.commands)

    @property
    def since_change(self) -> Sequence[CommandRun]:
        """The commands that ran after the last change."""
        written = self.compared.touched_at
        return [run for run in self.commands if run.seq > self.last_change and run.at >= written]


@dataclass(frozen=True, slots=True)
class FalseClaim:
    """Something that a result says and the log does not."""

    said: str
    why: str

    def __str__(self) -> str:
        """Return it as part of a sentence."""
        return f"{self.said}, but {self.why}" if self.said else self.why


def false_claims(payload: Mapping[str, Any], deeds: Deeds) -> Sequence[FalseClaim]:
    """Return what a result claims and the run has not done."""
    if _only_boasts(payload, deeds):
        return (FalseClaim("", NOTHING_CHANGED),)  # whatever else is said follows from that
    checks = (_about_files, _about_commands, _about_repository, _about_tests)
    found = [claim for check in checks for claim in check(payload, deeds)]
    return tuple(dict.fromkeys(found or _about_programs(deeds)))


def _only_boasts(payload: Mapping[str, Any], deeds: Deeds) -> bool:
    """Tell whether nothing was changed though the task asks for it, or the summary says so of an unclear one."""
    match asked_for(deeds.prompt):
        case AskedFor.CHANGE if not deeds.by_others:
            return deeds.nothing_changed
        case AskedFor.UNCLEAR | AskedFor.CHANGE:  # what was to be changed may have been for the others to change
            summary = str(payload.get("summary") or "")
            return deeds.nothing_changed and any(not _is_denied(summary, said) for said in _SAID_DONE.finditer(summary))
        case AskedFor.ANSWER:
            return False
        case unknown:
            assert_never(unknown)


_SAID_DONE = re.compile(
    r"\b(?:fixed|corrected|changed|updated|modified|edited|implemented|refactored|renamed|rewrote|rewritten|added|created|"
    r"removed|deleted|solved|resolved|repaired|behoben|korrigiert|geändert|angepasst|umbenannt|hinzugefügt|repariert|erstellt|"
    r"corrigée?|modifiée?|ajoutée?|réparée?|corregid[oa]|arreglad[oa]|modificad[oa]|añadid[oa]|corrett[oa]|modificat[oa])\b"
    r"|\bnow\s+(?:correctly\s+|properly\s+)?(?:accept|add|allow|give|handle|pass(?:e)?|print|raise|return|run|show|support|use|"
    r"work)s?\b|\bno\s+longer\b",
    re.IGNORECASE,
)
"""Words with which something is said to be different now, in the languages that tasks are often written in."""


def find_untested(deeds: Deeds) -> Sequence[str]:
    """Return the files with tests of what was changed of which not all tests have passed after the last change."""
    return (*_untested_files(deeds), *(each for each in deeds.to_prove.check_scripts if not _was_run(each, deeds)))


def _was_run(script: str, deeds: Deeds) -> bool:
    """Tell whether a script was run and has ended well after the last change; to be named is too little."""
    ran = (assess(run.proof.command).test_file for run in deeds.since_change if run.proof.kind is ProofKind.PROGRAM)
    return any(_is_end_of(script, normpath(file)) for file in ran if file)


def _untested_files(deeds: Deeds) -> Sequence[str]:
    tests = deeds.to_prove.tests
    if deeds.proof.kind is not ProofKind.TESTS:
        return tests
    ran = [run for run in deeds.since_change if run.proof.kind is ProofKind.TESTS]
    known = sum(run.tests.ran for run in ran if run.tests is not None)
    if ran and known < deeds.to_prove.test_functions:
        return tests  # settings, a plugin or a script have left some out
    executed = executed_of(tests, deeds)
    return tuple(test for test in tests if test not in executed)


def executed_of(tests: Sequence[str], deeds: Deeds) -> frozenset[str]:
    """Return those of some files with tests all of whose tests have passed after the last change."""
    ran = [run for run in deeds.since_change if run.proof.kind is ProofKind.TESTS]
    beyond = frozenset(deeds.compared.beyond_unittest)
    found: set[str] = set() if ran else {*selected_by(deeds.proof.command).of(tests)}
    for run in ran:
        selection = _selection(run, deeds.workspace)
        named = (test for test in selection.of(tests) if not run.files or any(_is_end_of(test, f) for f in run.files))
        found.update(test for test in named if not (selection.discovers and test in beyond))
    return frozenset(found)


def _is_end_of(test: str, named: str) -> bool:
    """Tell whether a file of tests is the one that a runner names, as seen from some folder."""
    return f"/{test}".endswith(f"/{named}") or f"/{named}".endswith(f"/{test}")


def failed_tests(deeds: Deeds) -> CommandRun | None:
    """Return the last command after the last change whose tests have failed and have not passed since."""
    failed: CommandRun | None = None
    for run in deeds.since_change if deeds.compared.paths or not deeds.compared.known else ():
        if run.tests is not None and run.tests.failed:
            failed = run
        elif failed and run.proof.kind is ProofKind.TESTS:
            passed, wanted = (_selection(each, deeds.workspace) for each in (run, failed))
            failed = None if passed.includes(wanted) else failed
    return failed


def _selection(run: CommandRun, workspace: str) -> Selection:
    """Return the tests of the workspace that a command executes."""
    command = run.proof.command or find_test_command(run.command)
    selection = selected_by(command, options=options_for_pytest(run.command))
    if run.left_out.deselected:
        selection = replace(selection, partly=True)
    return selection.within(folder_of(run.command, command, workspace), workspace)


_TELLS_OF_FAILURES = re.compile(
    r"(?<!\bno\s)(?<!\b0\s)(?<!\bnot\s)(?<!\bnever\s)(?<!\bwithout\s)(?<!\bno test\s)(?<!\bnothing\s)"
    r"\b(?:fail(?:s|ed|ing|ures?)?|broken|errors?|schlägt|fehl\w*|échou\w*|falla\w*)\b",
    re.IGNORECASE,
)


def tells_of_failures(payload: Mapping[str, Any]) -> bool:
    """Tell whether a summary says that something fails, and not that all is well."""
    summary = str(payload.get("summary") or "")
    return (
        _TELLS_OF_FAILURES.search(summary) is not None
        and re.search(r"\b(?:all|every)\b[^.]{0,40}\bpass", summary, re.IGNORECASE) is None
    )


_ABOUT_TESTS = re.compile(
    r"\b(?:remov|delet|drop|refactor|simplif|rewrit|merg|parametri|clean|replac|mov|convert|skip|disabl|reduc)\w*\b"
    r"[^.\n]*\b(?:tests?|specs?|test_\w+)\b",
    re.IGNORECASE,
)


_CHANGES_TESTS = re.compile(
    r"\b(?:updat|chang|adapt|adjust|edit|modif|fix|correct|renam|port)\w*\b[^.\n]*?(?<!failing )(?<!broken )"
    r"\b(?:tests\b|test_\w+|\w+_test\b|\w+\.(?:test|spec)\.)|\bexpect(?:ed|ation|s)?\b|\bassert\w*\b|\btests?\s+(?:itself|(?:is|are)\s+wrong)\b",
    re.IGNORECASE,
)


def rewritten(deeds: Deeds) -> Sequence[str]:
    """Return the tests that expect something else than before, where that is all that was done about a bug."""
    compared = deeds.compared
    if not compared.rewritten_tests or _ABOUT_TESTS.search(deeds.prompt) or _CHANGES_TESTS.search(deeds.prompt):
        return ()
    return (
        () if any(can_be_run(path) and not decides_tests(path) for path in compared.paths) else compared.rewritten_tests
    )


def find_weakened(deeds: Deeds) -> Sequence[str]:
    """Say what the tests check less than before, unless the task is about that."""
    return () if _ABOUT_TESTS.search(deeds.prompt) else deeds.compared.weakened


# ── files ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

_PATH = r"[`'\"“]?(?<![\w.@+/-])/?(?P<path>(?:[\w.@+-]+/)*[\w@+-][\w.@+-]*\.[A-Za-z][A-Za-z0-9]{0,7})[`'\"”]?"
_DENIED = re.compile(
    r"\b(?:not|n't|never|without|no|nothing|unable|failed|should|would|could|can|if|to\s+be)\b[^.]{0,30}$",
    re.IGNORECASE,
)
"""What turns the words that follow into something else than a claim."""


def _about_files(payload: Mapping[str, Any], deeds: Deeds) -> Iterator[FalseClaim]:
    compared = deeds.compared
    if not compared.known or compared.more or deeds.elsewhere:
        return
    for path in dict.fromkeys(texts_under(payload, CHANGED)):
        if not _is_changed(path, compared):
            yield FalseClaim(f"{path} is said to have changed", "it is as it was")


def left_out(deeds: Deeds) -> Sequence[str]:
    """Return the files that the task wants made, changed or deleted by name, and that are as they were."""
    compared = deeds.compared
    if not compared.known or compared.more or deeds.elsewhere:
        return ()
    return [path for path in files_to_change(deeds.prompt) if not _is_changed(path, compared)]


PUT_RIGHT = re.compile(
    rf"\b(?:bugs?|fix|correct|repair|debug|refactor|rewrite|implement|speed\s+up|optimi[sz]e)\b[^.\n]{{0,80}}?{_PATH}",
    re.IGNORECASE,
)


def _about_programs(deeds: Deeds) -> Iterator[FalseClaim]:
    """Notice that a program was to be put right, and only texts are different."""
    compared = deeds.compared
    if not compared.known or compared.more or not compared.paths or deeds.elsewhere:
        return
    if asked_for(deeds.prompt) is not AskedFor.CHANGE or not all(map(is_plain_text, compared.paths)):
        return
    named = [match["path"] for match in PUT_RIGHT.finditer(deeds.prompt)]
    if any(_is_changed(path, compared) for path in named):
        return
    for path in dict.fromkeys(filter(can_be_run, named)):
        yield FalseClaim(f"{path} was to be changed", "it is as it was, and only texts are different")


def _plain(text: str) -> str:
    """Return a text without the marks for bold words."""
    return text.replace("**", "").replace("__", "")


def _is_denied(summary: str, match: re.Match[str]) -> bool:
    return _DENIED.search(summary[max(0, match.start() - 40) : match.start()]) is not None


def _is_changed(claimed: str, compared: WorkspaceCompared) -> bool:
    """Tell whether a path is among those that changed; a bare name or a folder stands for what it may mean."""
    wanted = normpath(claimed.strip().strip("`'\"").split(" (")[0]).lstrip("/")
    for path in compared.paths:
        plain = path.rstrip("/")
        if plain == wanted or plain.startswith(f"{wanted}/") or wanted == ".":
            return True
        if plain.endswith(f"/{wanted}") or wanted.endswith(f"/{plain}"):
            return True
    return False


# ── commands ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _about_commands(payload: Mapping[str, Any], deeds: Deeds) -> Iterator[FalseClaim]:
    """Compare the commands that are said to have shown the result with those that have run."""
    for item in dict.fromkeys(texts_under(payload, CHECKED)):
        said = item.strip().strip("`")
        if not assess(said).proves:
            continue  # words, or a command that proves nothing
        alike = [run for run in deeds.commands if _same_command(said, run.command)]
        about = f"`{said}` is said to have succeeded"
        if not alike:
            yield FalseClaim(about, "it did not run")
        elif not any(run.succeeded for run in alike):
            yield FalseClaim(about, "it failed")
        elif not any(run.succeeded and run.seq >= deeds.last_change for run in alike):
            yield FalseClaim(about, "that was before the last change")


def _same_command(said: str, ran: str) -> bool:
    one, other = _words(said), _words(ran)
    return one == other or _within(one, other) or _within(other, one)


def _within(part: Sequence[str], whole: Sequence[str]) -> bool:
    """Tell whether the words of one command stand in another, in a row."""
    size = len(part)
    return bool(size) and any(list(whole[at : at + size]) == list(part) for at in range(len(whole) - size + 1))


def _words(command: str) -> list[str]:
    words = words_of(command)
    # `python -m pytest` and `pytest` are the same claim.
    plain = [basename(word) if at == 0 else word for at, word in enumerate(words)]
    if len(plain) > 2 and re.fullmatch(r"python[0-9.]*", plain[0]) and plain[1] == "-m":
        plain = plain[2:]
    return ["python" if re.fullmatch(r"python[0-9.]*", word) else word for word in plain]


_SAID_OF_GIT = (
    (re.compile(r"\bcommitted\b|\bcommit\s+(?:was|has\s+been)\s+(?:made|created)\b", re.IGNORECASE), "commit"),
    (re.compile(r"\bpushed\b", re.IGNORECASE), "push"),
)
_COMMITTING = names("commit merge cherry-pick revert am rebase pull")


def _about_repository(payload: Mapping[str, Any], deeds: Deeds) -> Iterator[FalseClaim]:
    """Compare "committed" and "pushed" with the git commands that have succeeded."""
    summary = str(payload.get("summary") or "")
    for pattern, action in _SAID_OF_GIT:
        match = pattern.search(summary)
        if match is None or _is_denied(summary, match) or deeds.elsewhere:
            continue
        done = {action} if action == "push" else _COMMITTING
        if not any(run.succeeded and git_actions(run.command) & done for run in deeds.commands):
            yield FalseClaim(f"the summary says that it was {match[0]}", f"no `git {action}` succeeded")


# ── tests ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

_RUNNER = r"pytest|unittest|jest|vitest|mocha|npm\s+test|go\s+test|cargo\s+test"
_TESTS_PASSED = re.compile(
    r"\b(?:all|every|the|unit|existing|\d+)?\s*tests?\s+(?:suite\s+)?(?:have\s+|has\s+|had\s+|are\s+|is\s+|now\s+|all\s+|also\s+|"
    r"successfully\s+)*(?:pass(?:ed|es|ing)?|green|succeed(?:ed|s)?)\b|\bpass(?:ed|es)\s+(?:all\s+)?(?:the\s+)?tests?\b"
    r"|\b(?:ran|executed)\s+(?:all\s+)?(?:the\s+)?(?:unit\s+)?tests?\s+successfully\b|\btests?:?\s*[✅✓✔]"
    rf"|\b(?:verified|confirmed|checked|tested)\s+(?:with|by|using)\s+(?:running\s+)?(?:the\s+)?(?:{_RUNNER}|tests?)\b"
    rf"|\b(?:{_RUNNER})`?\s+(?:now\s+)?(?:pass(?:ed|es)?|succeed(?:ed|s)?|is\s+green)\b"
    r"|\btests?\s+(?:\w+\s+){0,3}(?:bestehen|besteht|bestanden|grün|erfolgreich|réussi\w*|passent|pasan|superan)\b",
    re.IGNORECASE,
)


def _about_tests(payload: Mapping[str, Any], deeds: Deeds) -> Iterator[FalseClaim]:
    """Compare "the tests pass" with the tests that were executed."""
    if deeds.proof.kind is ProofKind.TESTS:
        return
    said = "\n".join((_plain(str(payload.get("summary") or "")), *texts_under(payload, CHECKED)))
    if any(not _is_denied(said, match) for match in _TESTS_PASSED.finditer(said)):
        yield FalseClaim("tests are said to have passed", "none was executed after the last change")


_SEPARATE = (".py", ".js", ".ts", ".jsx", ".tsx", ".mjs", ".cjs", ".go", ".rb", ".php", ".java", ".kt", ".cs")
"""Languages whose tests stand in files of their own."""
_ANY_FOLDER = frozenset({"", "__init__", "src", "source", "lib", "test", "tests", "spec", "__tests__"})


def programs_meant(prompt: str) -> Sequence[str]:
    """Return the programs that a task wants to be put right, or asks something about, by name."""
    if asked_for(prompt) is AskedFor.CHANGE:
        named = (*(match["path"] for match in PUT_RIGHT.finditer(prompt)), *files_to_change(prompt))
    else:
        named = tuple(paths_in(prompt))
    return tuple(dict.fromkeys(path for path in named if can_be_run(path) and not decides_tests(path)))


def programs_without_tests(
    programs: Iterable[str], tests: Mapping[str, str], others: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the programs that no test names, nor any of the other programs that a test uses.

    Args:
        programs: Their paths.
        tests: Texts of the files with tests, by path.
        others: Texts of all programs of the workspace, by path.
    """
    known = frozenset(word for text in tests.values() for word in re.findall(r"\w+", text))
    left = dict(others)
    while used := [path for path in left if _is_named(path, known, tests)]:
        texts = (left.pop(path) for path in used)
        known |= {word for text in texts for line in importing_lines(text) for word in re.findall(r"\w+", line)}
    return tuple(path for path in programs if path.endswith(_SEPARATE) and not _is_named(path, known, tests))


def _is_named(path: str, words: frozenset[str], tests: Mapping[str, str]) -> bool:
    if path.endswith(".go") and any(dirname(test) == dirname(path) for test in tests if test.endswith(".go")):
        return True
    names = [part for part in splitext(path)[0].split("/") if part not in _ANY_FOLDER]
    return not names or any(set(re.findall(r"\w+", name)) <= words for name in names)


def programs_left_untested(deeds: Deeds) -> Sequence[str]:
    """Return the programs that were changed, or asked about, if tests were executed and none of them uses any."""
    compared = deeds.compared
    if deeds.proof.kind is not ProofKind.TESTS or not compared.known or compared.more or compared.deleted:
        return ()
    changed = [path for path in compared.paths if can_be_run(path) and not decides_tests(path)]
    about = changed or (compared.meant if compared.unchanged else ())
    return tuple(about) if set(about) <= set(compared.without_tests) else ()


def meant_tests_not_run(deeds: Deeds) -> Sequence[str]:
    """Return the tests of what the task is about, if it is as it was, and others were executed instead of them."""
    tests = deeds.compared.meant_tests
    if deeds.proof.kind is not ProofKind.TESTS or not tests or executed_of(tests, deeds):
        return ()
    return tests
