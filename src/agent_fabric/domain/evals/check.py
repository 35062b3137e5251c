"""Says what is wrong with an eval file, all at once."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from agent_fabric.domain.definitions.problems import (
    CheckPosition,
    DefinitionInvalid,
    Path,
    Problem,
    ProblemCollector,
    show_value,
)
from agent_fabric.domain.definitions.validate import check_kind, is_plain
from agent_fabric.domain.evals.definition import (
    MAX_CASE_BYTES,
    MAX_FILES,
    MAX_TOTAL_BYTES,
    MAX_TRIALS,
    decode_base64,
)
from agent_fabric.domain.evals.shape import EVAL

_FILE_KEYS: Final = ("files", "check_files")


class EvalInvalid(DefinitionInvalid):
    """An evaluation that cannot be run."""

    code = "eval_invalid"
    what = "The eval"


def problems_in_eval(plain: object, *, with_folders: bool = True) -> list[Problem]:
    """Return what must be changed before this can be run; an empty list means nothing.

    `with_folders` tells whether cases may name a folder beside the file; what came over the network may not.
    """
    findings = ProblemCollector()
    if not is_plain(plain, findings):
        return findings.all()
    if not isinstance(plain, dict):
        findings.add(CheckPosition(), f"an eval must be a mapping, not {show_value(plain)}", "Begin with `cases:`.")
        return findings.all()
    check_kind(plain, EVAL, CheckPosition(), findings)
    cases = plain.get("cases")
    if isinstance(cases, list):
        _check_ids(cases, findings)
        sizes = [
            _check_files(case, CheckPosition(("cases", index)), findings, with_folders)
            for index, case in enumerate(cases)
            if isinstance(case, dict)
        ]
        if sum(sizes) > MAX_TOTAL_BYTES:
            message = f"the files of all cases have {sum(sizes):,} bytes, more than {MAX_TOTAL_BYTES:,}"
            findings.add(CheckPosition(("cases",)), message, "Split the cases into several files.")
        _check_number(plain, len(cases), findings)
    for key in ("models", "packs"):
        _check_twice(plain.get(key), CheckPosition((key,)), findings)
    return findings.all()


def _check_ids(cases: Iterable[Any], findings: ProblemCollector) -> None:
    first: dict[str, Path] = {}
    for index, case in enumerate(cases):
        name = case.get("id") if isinstance(case, dict) else None
        if not isinstance(name, str):
            continue
        place = CheckPosition(("cases", index, "id"))
        if name in first:
            findings.add(place, f"the id {name!r} is used twice", "Give each case its own.", other=first[name])
        else:
            first[name] = place.path


def _check_files(case: Mapping[str, Any], place: CheckPosition, findings: ProblemCollector, with_folders: bool) -> int:
    if case.get("folder") is not None and not with_folders:
        message = f"{place.below('folder').name}: a folder can be named in a file only"
        findings.add(place.below("folder"), message, "Send its files under `files`.")
    size = 0
    for key in _FILE_KEYS:
        files = case.get(key)
        if not isinstance(files, dict):
            continue
        if len(files) > MAX_FILES:
            findings.add(place.below(key), f"{place.below(key).name} has more than {MAX_FILES} files")
            continue
        _check_nesting([name for name in files if isinstance(name, str)], place.below(key), findings)
        for name, file in files.items():
            size += _check_file(file, place.below(key, name), findings)
    if size > MAX_CASE_BYTES:
        message = f"the files of {place.name} have {size:,} bytes, more than {MAX_CASE_BYTES:,}"
        findings.add(place, message, "A case is for files that a model reads, not for data.")
    return size


def _check_file(file: Any, place: CheckPosition, findings: ProblemCollector) -> int:
    if isinstance(file, str):
        return len(file.encode(errors="replace"))
    if not isinstance(file, dict):
        return 0
    contents = [key for key in ("text", "base64") if isinstance(file.get(key), str)]
    if len(contents) != 1:
        findings.add(place, f"{place.name} needs either `text` or `base64`", "Give one of them.")
        return 0
    content = str(file[contents[0]])
    if contents == ["base64"] and decode_base64(content) is None:
        findings.add(place.below("base64"), f"{place.name} is not base64", "Encode the file with: base64 FILE")
    return len(content)


def _check_nesting(names: Iterable[str], place: CheckPosition, findings: ProblemCollector) -> None:
    """Note a name that would have to be a file and a folder at once."""
    known = set(names)
    for name in known:
        parts = name.split("/")
        for depth in range(1, len(parts)):
            above = "/".join(parts[:depth])
            if above in known:
                findings.add(
                    place.below(name), f"{above!r} is a file and the folder of {name!r}", "Rename one of them."
                )


def _check_number(plain: Mapping[str, Any], cases: int, findings: ProblemCollector) -> None:
    counts = [
        plain.get("k") or 1,
        *(len(plain.get(key) or ()) or 1 for key in ("models", "packs") if _is_list(plain, key)),
    ]
    number = cases
    for count in counts:
        number *= count if isinstance(count, int) else 1
    if number > MAX_TRIALS:
        message = f"this makes {number:,} trials, more than {MAX_TRIALS:,}"
        findings.add(CheckPosition(("cases",)), message, "Take fewer cases, models, packs or repeats.")


def _is_list(plain: Mapping[str, Any], key: str) -> bool:
    return isinstance(plain.get(key), list)


def _check_twice(values: object, place: CheckPosition, findings: ProblemCollector) -> None:
    if not isinstance(values, list):
        return
    for index, value in enumerate(values):
        if value in values[:index]:
            findings.add(place.below(index), f"{place.name} names {value!r} twice", "Leave one out.")
