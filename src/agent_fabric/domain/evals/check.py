"""The description of an eval file, from which the JSON Schema is made, and what is wrong with one, all at once."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from agent_fabric.domain.definitions.fields import (
    FLAG,
    Either,
    Entries,
    Field,
    Group,
    Items,
    Leaf,
    amount,
    optional,
    schema_of_file,
    seconds,
    text,
    texts,
    whole,
)
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
    CASE_ID,
    DEFAULT_CHECK_TIMEOUT_S,
    MAX_AT_ONCE,
    MAX_CASE_BYTES,
    MAX_CASES,
    MAX_CHECK_TIMEOUT_S,
    MAX_FILES,
    MAX_PATH_CHARS,
    MAX_REPEATS,
    MAX_TOTAL_BYTES,
    MAX_TRIALS,
    decode_base64,
    is_inside,
)
from agent_fabric.domain.models.messages import MAX_COST

_CONTENT: Final = text(least=0, most=MAX_CASE_BYTES)


def _case_id_hint(value: Any) -> str:
    if not isinstance(value, str):
        return 'Put quotes around it: id: "1"' if value is not None else ""
    near = "-".join("".join(char if char.isascii() and char.isalnum() else " " for char in value).split())[:64]
    return f"Write {near!r}." if CASE_ID.fullmatch(near) else "An id is like: fix-crash"


FILE: Final = Group(
    "file",
    "A file, if plain text is not enough to describe it.",
    {
        "text": Field(_CONTENT, "What it holds, as text."),
        "base64": Field(_CONTENT, "What it holds, in base64."),
        "executable": Field(FLAG, "Whether it can be executed.", default=False),
    },
)
_FILES: Final = Entries(
    Either(_CONTENT, FILE, "Write the text of the file, or {base64: …}."),
    Leaf(
        "a file name inside the workspace",
        {"type": "string", "minLength": 1, "maxLength": MAX_PATH_CHARS},
        is_inside,
        "Write it as seen from the workspace, without `..` and without a / in front: src/app.py",
    ),
    "Write `files: {name.txt: the text}`.",
)

CASE: Final = Group(
    "case",
    "One task, and how to tell whether it was done right.",
    {
        "id": Field(
            text("an id of letters, digits, . _ and -, at most 64", pattern=CASE_ID, hint=_case_id_hint),
            "Unique in the file. Results are compared case by case, so keep it when the case stays the same.",
            "id: my-case",
        ),
        "prompt": Field(text(), "What a person would type.", "prompt: What to do."),
        "files": optional(_FILES, "The workspace at the start."),
        "folder": optional(
            text(most=MAX_PATH_CHARS),
            "A folder beside the file whose content is the workspace at the start; for binary files, for many.",
        ),
        "check": Field(
            text(),
            "A bash command line; exit code 0 means right. It runs on a copy of the workspace, offline.",
            'check: test "$(cat answer.txt)" = 42',
        ),
        "check_files": optional(_FILES, "Files for the check only, which the model never sees: a hidden test."),
    },
    {"name": "id", "task": "prompt", "test": "check", "command": "check"},
)

EVAL: Final = Group(
    "eval",
    "An evaluation of agent-fabric: tasks with checks, tried on models and packs.",
    {
        "name": optional(text(most=200), "What it is called; by default as the file."),
        "description": optional(text(least=0), "What it is for, for people."),
        "models": optional(
            texts("model keys", "models: [fast]"), "Keys of configured models; by default the default model."
        ),
        "packs": optional(
            texts("packs", "packs: [engineering]"),
            "Packs to try, each by itself; by default they are chosen as for any task.",
        ),
        "k": optional(whole(1, MAX_REPEATS), "How often each case is tried.", 1),
        "at_once": optional(whole(1, MAX_AT_ONCE), "Trials under way at the same time.", 1),
        "max_steps": optional(whole(1, 1_000), "Most model answers of a trial; by default as configured."),
        "max_cost": optional(
            amount(MAX_COST), "What the answers of models may cost in a trial; by default as configured."
        ),
        "require_proof": optional(FLAG, "Whether a trial whose result nothing bears out counts as wrong.", False),
        "check_timeout_s": optional(
            seconds(above_zero=True, most=MAX_CHECK_TIMEOUT_S),
            "How long a check may take; one that takes longer has failed.",
            DEFAULT_CHECK_TIMEOUT_S,
        ),
        "network": optional(FLAG, "Whether the tools of trials may use the network.", False),
        "cases": Field(
            Items(
                lambda: CASE,
                "cases",
                "Write `cases:` and below it one `- id: …` for each.",
                "- {id: my-case, prompt: …, check: …}",
                most=MAX_CASES,
            ),
            "The tasks.",
            "cases: [{id: my-case, prompt: …, check: …}]",
        ),
    },
    {"model": "models", "pack": "packs", "repeats": "k", "tasks": "cases", "tests": "cases"},
)


def eval_schema() -> dict[str, Any]:
    """Return the JSON Schema. What it cannot say, such as whether ids are unique, `fabric eval run` does."""
    return schema_of_file("Eval", EVAL)


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
        *(len(plain.get(key) or ()) or 1 for key in ("models", "packs") if isinstance(plain.get(key), list)),
    ]
    number = cases
    for count in counts:
        number *= count if isinstance(count, int) else 1
    if number > MAX_TRIALS:
        message = f"this makes {number:,} trials, more than {MAX_TRIALS:,}"
        findings.add(CheckPosition(("cases",)), message, "Take fewer cases, models, packs or repeats.")


def _check_twice(values: object, place: CheckPosition, findings: ProblemCollector) -> None:
    if not isinstance(values, list):
        return
    for index, value in enumerate(values):
        if value in values[:index]:
            findings.add(place.below(index), f"{place.name} names {value!r} twice", "Leave one out.")
