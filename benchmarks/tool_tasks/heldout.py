"""Ten more everyday tasks, to be run once, when prompts and tools are settled: nothing may be tuned on them."""

import json
from pathlib import Path

from tool_tasks.tasks import ToolTask, python, text_of

TEMPERATURES = "city,degrees\nOslo,4\nRome,19\nCairo,27\n"


def _cleared(workspace: Path) -> bool:
    return sorted(path.name for path in workspace.iterdir()) == ["letter.txt", "photo.raw"]


def _sorted_away(workspace: Path) -> bool:
    moved = text_of(workspace, "notes/plan.md") == "# Plan" and text_of(workspace, "notes/ideas.md") == "# Ideas"
    left = not any((workspace / name).exists() for name in ("plan.md", "ideas.md"))
    return moved and left and text_of(workspace, "budget.csv") == "1,2"


def _counts_down(workspace: Path) -> bool:
    return python(workspace, "countdown.py").stdout.split() == ["5", "4", "3", "2", "1"]


HELDOUT = (
    ToolTask(
        "motto",
        "Create the file motto.txt. It says: Slow and steady",
        lambda here: text_of(here, "motto.txt") == "Slow and steady",
    ),
    ToolTask(
        "remove",
        "Remove cache.dat and cache.idx.",
        _cleared,
        dict.fromkeys(("cache.dat", "cache.idx", "letter.txt", "photo.raw"), "something\n"),
    ),
    ToolTask(
        "duplicate",
        "Put a copy of invoice.txt into the folder sent.",
        lambda here: text_of(here, "sent/invoice.txt") == text_of(here, "invoice.txt") == "42 euros",
        {"invoice.txt": "42 euros\n", "sent/older.txt": "7 euros\n"},
    ),
    ToolTask(
        "last",
        "Write the last line of queue.txt into next.txt.",
        lambda here: text_of(here, "next.txt") == "Priya",
        {"queue.txt": "Tom\nLena\nPriya\n"},
    ),
    ToolTask(
        "menu",
        'Create menu.json: {"soup": 4, "salad": 6}',
        lambda here: bool(json.loads(text_of(here, "menu.json")) == {"soup": 4, "salad": 6}),
    ),
    ToolTask(
        "sort_away",
        "Make a folder notes and move plan.md and ideas.md into it.",
        _sorted_away,
        {"plan.md": "# Plan\n", "ideas.md": "# Ideas\n", "budget.csv": "1,2\n"},
    ),
    ToolTask(
        "year",
        "In licence.txt, change 2024 to 2026.",
        lambda here: text_of(here, "licence.txt") == "Copyright 2026 Ada\nAll rights reserved",
        {"licence.txt": "Copyright 2024 Ada\nAll rights reserved\n"},
    ),
    ToolTask(
        "warm",
        "Write the line of temperatures.csv that is about Rome into rome.txt.",
        lambda here: text_of(here, "rome.txt") == "Rome,19",
        {"temperatures.csv": TEMPERATURES},
    ),
    ToolTask(
        "countdown",
        "Write countdown.py, which prints the numbers from 5 down to 1, one per line. Run it.",
        _counts_down,
    ),
    ToolTask(
        "log",
        "Add the line 'Friday: cleaned' to chores.txt, then copy chores.txt to chores.bak.",
        lambda here: text_of(here, "chores.bak") == text_of(here, "chores.txt") == "Thursday: cooked\nFriday: cleaned",
        {"chores.txt": "Thursday: cooked\n"},
    ),
)
