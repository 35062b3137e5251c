"""The description of an eval file; the check and the JSON Schema are both made from it."""

from typing import Any, Final

from agent_fabric.domain.definitions.fields import (
    FLAG,
    Either,
    Entries,
    Field,
    Group,
    Items,
    Leaf,
    optional,
    schema_of_file,
    seconds,
    text,
    texts,
    whole,
)
from agent_fabric.domain.evals.definition import (
    CASE_ID,
    DEFAULT_CHECK_TIMEOUT_S,
    MAX_AT_ONCE,
    MAX_CASE_BYTES,
    MAX_CASES,
    MAX_CHECK_TIMEOUT_S,
    MAX_PATH_CHARS,
    MAX_REPEATS,
    is_inside,
)

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
