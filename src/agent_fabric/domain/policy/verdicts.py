"""What a policy says about a call."""

from enum import StrEnum
from typing import Final

from agent_fabric.domain.dataclass import dataclass

EXACTLY = "exactly "
"""Begins the words for the same command line, and nothing else."""


class Verdict(StrEnum):
    """What happens with a call; the strictest verdict on any part of it wins."""

    ALLOW = "allow"
    ASK = "ask"
    """A person has to agree."""
    BLOCK = "block"


@dataclass(frozen=True, slots=True)
class Ruling:
    """A verdict and what led to it."""

    verdict: Verdict
    reason: str
    """A sentence for the model or a person, with what to do instead."""
    rule: str
    """The name of the rule that decided."""
    subject: str
    """The part of the call that the rule is about."""
    alike: str = ""
    """What a person agrees to who agrees for the whole run, in words; calls with the same words are covered, and no
    others. Empty: only this very call."""


# Names of built-in rules that are used elsewhere: a run's log counts most of them.
ADDRESS_READ: Final = "address_read"
"""A call went to an address that stood in what the run had read, while it was exposed and private."""
ADDRESS_IN_TASK: Final = "address_in_task"
"""A call went to an address that stands in the task, while it was."""
ARGUMENTS_IN_TASK: Final = "arguments_in_task"
"""A call with arguments that stand in the task went to a tool server, while it was."""
ARGUMENTS_SENT_BEFORE: Final = "arguments_sent_before"
"""A call went to a machine with arguments that were sent before the run had read anything private."""
SEARCHED: Final = "search_while_private"
"""A search went unasked while it was."""
OUTSIDE_ROOTS: Final = "outside_roots"
"""A command names what lies outside of the folders that a node's own file names."""
