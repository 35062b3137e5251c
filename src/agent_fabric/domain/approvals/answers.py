"""Does a person agree? What is asked, what may be answered, and what an answer is good for.

An approval is bound to the exact call: who wants it, where, with which arguments and under which rules. Whatever of
this is not as it was when the person agreed makes the answer worthless.
"""

import hashlib
import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import CallId, LaneId, RunId
from agent_fabric.domain.policy.verdicts import Ruling

ID_LENGTH = 12
HASH_CHARS = 12
"""Of the hash of a call, as people see it."""
MIN_HASH_CHARS = 8
"""Of the hash of a call, an answer has to say so much."""


class OnDoubt(StrEnum):
    """What becomes of a call that a crash has cut off, if only a person can tell whether it has happened."""

    ASK = "ask"
    """A person is asked, and the run waits."""
    SKIP = "skip"
    """It is left as it is, and the run goes on without it."""
    RETRY = "retry"
    """Nothing of the run needs a person: every step says that twice is the same as once."""


class Question(StrEnum):
    """What a person is asked."""

    MAY_IT_RUN = "may_it_run"
    DID_IT_HAPPEN = "did_it_happen"
    """A call that leaves the sandbox was under way when the program was stopped: run it again, or count it as done?"""
    ANSWER = "answer"
    """A workflow asks on purpose, perhaps with a form to be filled in."""


class Decision(StrEnum):
    """How a question was answered."""

    APPROVE = "approve"
    """Run it; after a crash: run it again."""
    DENY = "deny"
    """Do not run it; after a crash: leave it be."""
    DONE = "done"
    """After a crash: it has happened, go on from there."""
    EXPIRED = "expired"
    """No answer came in time."""


class Reach(StrEnum):
    """How far an agreement goes."""

    ONCE = "once"
    RUN = "run"
    """For every call of this kind until the run ends."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a person has agreed to for the rest of a run."""

    tool: str
    rule: str
    alike: str
    approval_id: str
    by: str

    def covers(self, tool: str, ruling: Ruling) -> bool:
        """Tell whether a call that needs agreement has it already."""
        return bool(self.alike) and (self.tool, self.rule, self.alike) == (tool, ruling.rule, ruling.alike)


def binding(
    *,
    run_id: RunId,
    lane: LaneId,
    step: int,
    call_id: CallId,
    tool: str,
    args: Mapping[str, Any],
    target: str,
    policy_version: str,
) -> str:
    """Return the hash that ties an approval to one call."""
    parts = (run_id, lane, step, call_id, tool, args, target, policy_version)
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def short_hash(bound: str) -> str:
    """Return the hash of a call as people see it."""
    return bound[:HASH_CHARS]


def approval_id(bound: str, question: Question, attempt: int) -> str:
    """Return the id of a question about an attempt at a call; the same one after every crash."""
    return hashlib.sha256(f"{question.value}/{attempt}/{bound}".encode()).hexdigest()[:ID_LENGTH]
