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
    seconds,
    text,
    texts,
    whole,
)
from agent_fabric.domain.definitions.schema import DRAFT, group_schema
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
    name="file",
    doc="A file, if plain text is not enough to describe it.",
    fields={
        "text": Field(kind=_CONTENT, doc="What it holds, as text."),
        "base64": Field(kind=_CONTENT, doc="What it holds, in base64."),
        "executable": Field(kind=FLAG, doc="Whether it can be executed.", default=False),
    },
)
_FILES: Final = Entries(
    of=Either(short=_CONTENT, full=FILE, hint="Write the text of the file, or {base64: …}."),
    keys=Leaf(
        words="a file name inside the workspace",
        schema={"type": "string", "minLength": 1, "maxLength": MAX_PATH_CHARS},
        fits=is_inside,
        hint="Write it as seen from the workspace, without `..` and without a / in front: src/app.py",
    ),
    hint="Write `files: {name.txt: the text}`.",
)

CASE: Final = Group(
    name="case",
    doc="One task, and how to tell whether it was done right.",
    aliases={"name": "id", "task": "prompt", "test": "check", "command": "check"},
    fields={
        "id": Field(
            kind=text("an id of letters, digits, . _ and -, at most 64", pattern=CASE_ID, hint=_case_id_hint),
            doc="Unique in the file. Results are compared case by case, so keep it when the case stays the same.",
            required=True,
            example="id: my-case",
        ),
        "prompt": Field(kind=text(), doc="What a person would type.", required=True, example="prompt: What to do."),
        "files": Field(kind=_FILES, doc="The workspace at the start.", nullable=True),
        "folder": Field(
            kind=text(most=MAX_PATH_CHARS),
            doc="A folder beside the file whose content is the workspace at the start; for binary files, for many.",
            nullable=True,
        ),
        "check": Field(
            kind=text(most=100_000),
            doc="A bash command line; exit code 0 means right. It runs on a copy of the workspace, offline.",
            required=True,
            example='check: test "$(cat answer.txt)" = 42',
        ),
        "check_files": Field(
            kind=_FILES, doc="Files for the check only, which the model never sees: a hidden test.", nullable=True
        ),
    },
)

EVAL: Final = Group(
    name="eval",
    doc="An evaluation of agent-fabric: tasks with checks, tried on models and packs.",
    aliases={"model": "models", "pack": "packs", "repeats": "k", "tasks": "cases", "tests": "cases"},
    fields={
        "name": Field(kind=text(most=200), doc="What it is called; by default as the file.", nullable=True),
        "description": Field(kind=text(least=0), doc="What it is for, for people.", nullable=True),
        "models": Field(
            kind=texts("model keys", "models: [fast]"),
            doc="Keys of configured models; by default the default model.",
            nullable=True,
        ),
        "packs": Field(
            kind=texts("packs", "packs: [engineering]"),
            doc="Packs to try, each by itself; by default they are chosen as for any task.",
            nullable=True,
        ),
        "k": Field(kind=whole(1, MAX_REPEATS), doc="How often each case is tried.", default=1, nullable=True),
        "at_once": Field(
            kind=whole(1, MAX_AT_ONCE), doc="Trials under way at the same time.", default=1, nullable=True
        ),
        "max_steps": Field(
            kind=whole(1, 1_000), doc="Most model answers of a trial; by default as configured.", nullable=True
        ),
        "check_timeout_s": Field(
            kind=seconds(above_zero=True, most=MAX_CHECK_TIMEOUT_S),
            doc="How long a check may take; one that takes longer has failed.",
            default=DEFAULT_CHECK_TIMEOUT_S,
            nullable=True,
        ),
        "network": Field(
            kind=FLAG, doc="Whether the tools of trials may use the network.", default=False, nullable=True
        ),
        "cases": Field(
            kind=Items(
                of=lambda: CASE,
                what="cases",
                least=1,
                most=MAX_CASES,
                hint="Write `cases:` and below it one `- id: …` for each.",
                example="- {id: my-case, prompt: …, check: …}",
            ),
            doc="The tasks.",
            required=True,
            example="cases: [{id: my-case, prompt: …, check: …}]",
        ),
    },
)


def eval_schema() -> dict[str, Any]:
    """Return the JSON Schema. What it cannot say, such as whether ids are unique, `fabric eval run` does."""
    return {"$schema": DRAFT, "title": "Eval", **group_schema(EVAL)}
