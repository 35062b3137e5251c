"""Whether the tests that were executed have to do with what a task is about: pure. It errs towards believing."""

import re
from collections.abc import Iterable, Mapping, Sequence
from posixpath import dirname, splitext

from agent_fabric.domain.evidence.asked_for import AskedFor, asked_for
from agent_fabric.domain.evidence.claims import PUT_RIGHT, Deeds, executed_of
from agent_fabric.domain.evidence.named_files import files_to_change, paths_in
from agent_fabric.domain.evidence.suite_files import decides_tests, importing_lines
from agent_fabric.domain.tools.findings import ProofKind
from agent_fabric.domain.tools.program_files import can_be_run

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
