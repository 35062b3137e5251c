"""The sets of tasks by name."""

from collections.abc import Mapping, Sequence

from tool_tasks.everyday import CANDIDATES, EVERYDAY
from tool_tasks.hard import HARD
from tool_tasks.heldout import HELDOUT
from tool_tasks.tasks import ToolTask

SETS: Mapping[str, Sequence[ToolTask]] = {
    "everyday": EVERYDAY,
    "hard": HARD,
    "heldout": HELDOUT,
    "candidates": CANDIDATES,
}
"""`candidates` are those that `everyday` was chosen from."""
