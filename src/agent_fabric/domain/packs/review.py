"""The review of a diff: what is asked, and the findings that come of it."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from agent_fabric.domain.ids import SpecialistId

REVIEWER: Final = SpecialistId("review")
"""The pack that reviews; it is never chosen by itself."""
MAX_DIFF_CHARS: Final = 200_000
FINDINGS: Final = "findings"
_FILE: Final = re.compile(r"^(?:\+\+\+|---) (?:[ab]/)?([^\t\n]+)", re.MULTILINE)


class Severity(StrEnum):
    """How bad a finding is, the worst first."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"

    @property
    def is_serious(self) -> bool:
        """Whether it has to be dealt with before the change is taken in."""
        return self in (Severity.CRITICAL, Severity.HIGH)


class Finding(NamedTuple):
    """Something that is wrong with a change."""

    file: str
    line: int
    """In the file as it is after the change; 0: the finding is about the whole file."""
    severity: Severity
    problem: str
    patch: str
    """What to change, as a diff or as new lines; empty: no suggestion."""
    in_diff: bool
    """Whether the diff changes the file; a finding elsewhere may be made up."""


def review_task(diff: str) -> str:
    """Return the task to review a diff."""
    return f"Review this change.\n\n```diff\n{diff.rstrip()}\n```"


def findings_in(payload: Mapping[str, Any], diff: str) -> list[Finding]:
    """Return what a review found, the worst first; what is no finding is left out."""
    changed = set(_FILE.findall(diff))
    listed = payload.get(FINDINGS)
    found = (
        [_finding(each, changed) for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
    )
    return sorted(filter(None, found), key=lambda each: ([*Severity].index(each.severity), each.file, each.line))


def _finding(told: Mapping[str, Any], changed: set[str]) -> Finding | None:
    name, problem = str(told.get("file") or ""), str(told.get("problem") or "").strip()
    if not problem:
        return None
    file = next((each for each in (name, name.removeprefix("./"), name[2:]) if each in changed), name)
    line, severity = told.get("line"), str(told.get("severity") or "").lower()
    return Finding(
        file=file,
        line=line if isinstance(line, int) and not isinstance(line, bool) and line > 0 else 0,
        severity=Severity(severity) if severity in [*Severity] else Severity.MEDIUM,
        problem=problem,
        patch=str(told.get("patch") or "").strip("\n"),
        in_diff=file in changed,
    )
