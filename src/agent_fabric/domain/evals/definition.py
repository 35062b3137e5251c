"""An evaluation as its author wrote it: cases with a prompt, files and a check, and what to try them on."""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, Final, Self

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.deserialize import reader_of

MAX_CASES: Final = 1_000
MAX_FILES: Final = 1_000
"""Files of one case, those of its check not counted."""
MAX_CASE_BYTES: Final = 10_000_000
MAX_TOTAL_BYTES: Final = 50_000_000
MAX_REPEATS: Final = 100
MAX_AT_ONCE: Final = 64
MAX_TRIALS: Final = 10_000
DEFAULT_CHECK_TIMEOUT_S: Final = 60.0
MAX_CHECK_TIMEOUT_S: Final = 3_600.0
CASE_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
MAX_PATH_CHARS: Final = 500
_MAX_PART_BYTES: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFile:
    """A file that is put into a workspace."""

    data: bytes
    executable: bool = False

    @classmethod
    def from_plain(cls, plain: str | Mapping[str, Any]) -> Self:
        """Return a file of a checked definition: text, or a mapping with `text` or `base64`."""
        if isinstance(plain, str):
            return cls(data=plain.encode())
        encoded = plain.get("base64")
        data = str(plain.get("text") or "").encode() if encoded is None else decode_base64(encoded) or b""
        return cls(data=data, executable=bool(plain.get("executable")))


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalCase:
    """One task, and how to tell whether it was done right."""

    case_id: str = field(metadata={"key": "id"})
    prompt: str
    check: str
    """A bash command line; exit code 0 means right. It runs in a copy of the workspace, in the box, offline."""
    files: Mapping[str, CaseFile] = field(default_factory=dict)
    """The workspace at the start."""
    check_files: Mapping[str, CaseFile] = field(default_factory=dict)
    """Put in place for the check only: the model never sees them, and cannot change them."""

    @property
    def digest(self) -> str:
        """Short hash of the whole case. Results of two evaluations are comparable where it is the same."""
        plain = json.dumps(plain_case(self), sort_keys=True, ensure_ascii=True).encode()
        return hashlib.sha256(plain).hexdigest()[:16]

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(len(each.data) for each in (*self.files.values(), *self.check_files.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalDefinition:
    """What is tried, on what, and how often."""

    name: str = "eval"
    cases: tuple[EvalCase, ...]
    description: str = ""
    models: tuple[str, ...] = ()
    """Keys of configured models; none: the default one."""
    packs: tuple[str, ...] = ()
    """Packs to compare, each entry one specialist or several with commas; none: recruitment chooses."""
    k: int = 1
    """How often each case is tried with each model and pack."""
    at_once: int = 1
    """Trials under way at the same time."""
    max_steps: int | None = None
    """Model answers of a trial; None: as configured."""
    max_cost: float | None = None
    """What the answers of models may cost in a trial; None: as configured."""
    require_proof: bool = False
    """Whether a trial whose result nothing bears out counts as wrong, whatever the check says."""
    check_timeout_s: float = DEFAULT_CHECK_TIMEOUT_S
    network: bool = False
    """Whether the tools of trials may use the network. Checks never do."""

    def case(self, case_id: str) -> EvalCase:
        """Return the case of an id."""
        return next(each for each in self.cases if each.case_id == case_id)


def is_inside(path: object) -> bool:
    """Tell whether a file name stays inside the workspace, whatever the system: relative, no `..`, no odd parts."""
    if not isinstance(path, str) or not 0 < len(path) <= MAX_PATH_CHARS or "\0" in path or "\\" in path:
        return False
    parts = path.split("/")
    if any(part in {"", ".", ".."} or part != part.strip() for part in parts):
        return False
    try:
        return all(len(part.encode()) <= _MAX_PART_BYTES for part in parts) and parts[0] != ".fabric"
    except UnicodeEncodeError:
        return False


def decode_base64(text: str) -> bytes | None:
    """Return what a text encodes; None: it is not base64. Line breaks and blanks are left out."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None


def plain_file(file: CaseFile) -> str | dict[str, Any]:
    """Return a file as a definition holds it: as text where it is text."""
    try:
        text = file.data.decode()
        readable = "\0" not in text and "\r" not in text
    except UnicodeDecodeError:
        text, readable = "", False
    if readable and not file.executable:
        return text
    content = {"text": text} if readable else {"base64": base64.b64encode(file.data).decode()}
    return {**content, **({"executable": True} if file.executable else {})}


def plain_case(case: EvalCase) -> dict[str, Any]:
    """Return a case as a definition holds it."""
    plain: dict[str, Any] = {"id": case.case_id, "prompt": case.prompt}
    if case.files:
        plain["files"] = {name: plain_file(each) for name, each in case.files.items()}
    plain["check"] = case.check
    if case.check_files:
        plain["check_files"] = {name: plain_file(each) for name, each in case.check_files.items()}
    return plain


def plain_definition(definition: EvalDefinition) -> dict[str, Any]:
    """Return a definition as plain data, from which `definition_from` makes the same one."""
    plain = {each.name: getattr(definition, each.name) for each in fields(definition)}
    plain |= {"models": list(definition.models), "packs": list(definition.packs)}
    plain["cases"] = [plain_case(case) for case in definition.cases]
    if not definition.require_proof:
        del plain["require_proof"]  # older servers do not know it
    return {name: value for name, value in plain.items() if value is not None}


def definition_from(plain: Mapping[str, Any]) -> EvalDefinition:
    """Return the definition of plain data in which `problems_in_eval` found nothing."""
    definition: EvalDefinition = reader_of(EvalDefinition, of_file=True)(plain)
    return definition
