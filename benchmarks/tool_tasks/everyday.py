"""Everyday tasks with files and a shell, of one step or two or three, on which a plain loop does well.

Thirty were written before any was run, and the plain loop did all of them once with each model. The set is ten that
both models did there, six that only the 1.5B did and four that neither did; of each kind those of two or three steps
first, then in the order of writing. So the plain loop's 16 and 10 of 20 are so by construction; what agent-fabric makes
of the tasks had no part in choosing them.
"""

import json
import os
import subprocess
from pathlib import Path

from tool_tasks.tasks import ToolTask, python, text_of

NAMES = "Mira\nJonas\nAda\nZoe\n"
PETS = "A cat sleeps.\nThe cat eats.\nA bird sings.\n"
DIARY = "Monday: swimming with Kim\nTuesday: dentist at nine\nWednesday: nothing\n"


def _is_moved(workspace: Path, old: str, new: str, text: str) -> bool:
    return not (workspace / old).exists() and text_of(workspace, new) == text


def _lists(workspace: Path) -> bool:
    return text_of(workspace, "list.txt").split("\n") == ["one", "two", "three"]


def _only_kept(workspace: Path) -> bool:
    return sorted(path.name for path in workspace.iterdir()) == ["new.log"]


def _prints(workspace: Path, program: str, wanted: str) -> bool:
    ran = python(workspace, program)
    return ran.returncode == 0 and ran.stdout.strip() == wanted


def _squares_a_number(workspace: Path) -> bool:
    return _prints(workspace, "square.py", "") and (
        python(workspace, "-c", "from square import square; assert square(4) == 16; assert square(-3) == 9").returncode
        == 0
    )


def _says_hi(workspace: Path) -> bool:
    ran = subprocess.run(["bash", "hi.sh"], cwd=workspace, capture_output=True, text=True, timeout=20, check=False)
    return ran.stdout.strip() == "hi" and os.access(workspace / "hi.sh", os.X_OK)


def _gathered(workspace: Path) -> bool:
    return (
        _is_moved(workspace, "a.txt", "texts/a.txt", "first")
        and _is_moved(workspace, "b.txt", "texts/b.txt", "second")
        and text_of(workspace, "c.md") == "third"
    )


CANDIDATES = (
    # one step
    ToolTask(
        "note",
        "Create a file note.txt with the text: Buy milk",
        lambda here: text_of(here, "note.txt") == "Buy milk",
    ),
    ToolTask("folder", "Create a folder named reports.", lambda here: (here / "reports").is_dir()),
    ToolTask(
        "copy",
        "Copy config.ini to config.bak.",
        lambda here: text_of(here, "config.bak") == text_of(here, "config.ini") == "[main]\nsize = 3",
        {"config.ini": "[main]\nsize = 3\n"},
    ),
    ToolTask("delete", "Delete the file old.log.", _only_kept, {"old.log": "x\n", "new.log": "y\n"}),
    ToolTask(
        "move",
        "Move photo.txt into the folder archive.",
        lambda here: _is_moved(here, "photo.txt", "archive/photo.txt", "a beach"),
        {"photo.txt": "a beach\n", "archive/older.txt": "a hill\n"},
    ),
    ToolTask(
        "rename",
        "Rename todo.md to done.md.",
        lambda here: _is_moved(here, "todo.md", "done.md", "- water the plants"),
        {"todo.md": "- water the plants\n"},
    ),
    ToolTask(
        "program",
        "Create a file hello.py that prints: Hello",
        lambda here: _prints(here, "hello.py", "Hello"),
    ),
    ToolTask(
        "executable",
        "Make run.sh executable.",
        lambda here: os.access(here / "run.sh", os.X_OK) and text_of(here, "run.sh").endswith("echo running"),
        {"run.sh": "#!/bin/sh\necho running\n"},
    ),
    ToolTask(
        "shopping",
        "Create shopping.txt with three lines: apples, bread, cheese.",
        lambda here: text_of(here, "shopping.txt").split("\n") == ["apples", "bread", "cheese"],
    ),
    ToolTask("empty", "Create an empty file named marker.", lambda here: (here / "marker").read_bytes() == b""),
    ToolTask(
        "flag",
        'Create config.json with this content: {"debug": true, "level": 2}',
        lambda here: bool(json.loads(text_of(here, "config.json")) == {"debug": True, "level": 2}),
    ),
    ToolTask(
        "nested",
        "Create the file src/app/main.txt with the text: start",
        lambda here: text_of(here, "src/app/main.txt") == "start",
    ),
    ToolTask("append", "Append the line three to list.txt.", _lists, {"list.txt": "one\ntwo\n"}),
    ToolTask(
        "command",
        "Run this command: sort words.txt > sorted.txt",
        lambda here: text_of(here, "sorted.txt") == "ant\nbee\nfox" and text_of(here, "words.txt") == "fox\nant\nbee",
        {"words.txt": "fox\nant\nbee\n"},
    ),
    ToolTask(
        "table",
        "Create people.csv with the header name,age and one row: Ada,36",
        lambda here: text_of(here, "people.csv").split("\n") == ["name,age", "Ada,36"],
    ),
    # two or three steps
    ToolTask(
        "two_files",
        "Create a.txt with the text alpha and b.txt with the text beta.",
        lambda here: text_of(here, "a.txt") == "alpha" and text_of(here, "b.txt") == "beta",
    ),
    ToolTask(
        "readme",
        "Make a folder docs, and in it a file readme.txt with the text: Read me",
        lambda here: text_of(here, "docs/readme.txt") == "Read me",
    ),
    ToolTask(
        "copy_append",
        "Copy base.txt to new.txt. Then add the line end to new.txt.",
        lambda here: text_of(here, "new.txt") == "begin\nmiddle\nend" and text_of(here, "base.txt") == "begin\nmiddle",
        {"base.txt": "begin\nmiddle\n"},
    ),
    ToolTask(
        "save_output",
        "Write add.py, which prints 2 + 3. Run it and save its output in result.txt.",
        lambda here: _prints(here, "add.py", "5") and text_of(here, "result.txt") == "5",
    ),
    ToolTask(
        "count",
        "How many lines does data.txt have? Write the number into count.txt.",
        lambda here: text_of(here, "count.txt").removesuffix("data.txt").strip() == "14",
        {"data.txt": "".join(f"row {n}\n" for n in range(14))},
    ),
    ToolTask(
        "first",
        "Write the first line of names.txt into first.txt.",
        lambda here: text_of(here, "first.txt") == "Mira",
        {"names.txt": NAMES},
    ),
    ToolTask(
        "greet",
        "Read name.txt, then write a file greeting.txt that says Hello to that person, for example: Hello Kim",
        lambda here: text_of(here, "greeting.txt").replace(",", "").rstrip("!.") == "Hello Oskar",
        {"name.txt": "Oskar\n"},
    ),
    ToolTask(
        "replace",
        "Replace the word cat by dog in pets.txt.",
        lambda here: text_of(here, "pets.txt") == PETS.replace("cat", "dog").strip(),
        {"pets.txt": PETS},
    ),
    ToolTask(
        "capitals",
        "Write the content of quiet.txt in capital letters into loud.txt.",
        lambda here: text_of(here, "loud.txt") == "COME HERE NOW" and text_of(here, "quiet.txt") == "come here now",
        {"quiet.txt": "come here now\n"},
    ),
    ToolTask(
        "gather",
        "Make a folder texts and move a.txt and b.txt into it.",
        _gathered,
        {"a.txt": "first\n", "b.txt": "second\n", "c.md": "third\n"},
    ),
    ToolTask("script", "Write hi.sh, which prints hi. Make it executable and run it.", _says_hi),
    ToolTask(
        "join",
        "Join part1.txt and part2.txt, in this order, into whole.txt.",
        lambda here: text_of(here, "whole.txt") == "the beginning\nthe end",
        {"part1.txt": "the beginning\n", "part2.txt": "the end\n"},
    ),
    ToolTask(
        "diary",
        "Write the line of diary.txt that mentions the dentist into dentist.txt.",
        lambda here: text_of(here, "dentist.txt") == "Tuesday: dentist at nine",
        {"diary.txt": DIARY},
    ),
    ToolTask(
        "backup",
        "Copy colours.txt to colours.old. Then change blue to red in colours.txt.",
        lambda here: text_of(here, "colours.old") == "sky: blue" and text_of(here, "colours.txt") == "sky: red",
        {"colours.txt": "sky: blue\n"},
    ),
    ToolTask(
        "function",
        "Write square.py with a function square(x) that returns x * x. Then try it with: "
        "python3 -c 'from square import square; print(square(4))'",
        _squares_a_number,
    ),
)
_LEFT_OUT = frozenset(
    {
        *("command",),  # both did it
        *("program", "flag", "table"),  # only the 1.5B
        *("replace",),  # only the 0.5B
        *("append", "capitals", "script", "join", "diary"),  # neither
    }
)
EVERYDAY = tuple(task for task in CANDIDATES if task.name not in _LEFT_OUT)
