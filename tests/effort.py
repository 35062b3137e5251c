"""How much a test tries: little per commit, much in `make soak`."""

import json
import os
from pathlib import Path

SOAK = os.environ.get("FABRIC_TEST_EFFORT") == "soak"
_LEAST, _SHARE, _TIMES = 20, 10, 10


def effort(commit: int, soak: int) -> int:
    """Return how often to try: `commit` times in `make test`, `soak` times in `make soak`."""
    return soak if SOAK else commit


def examples(usual: int) -> int:
    """Return how many examples hypothesis tries: a share of the usual number per commit, a multiple in a soak."""
    return effort(max(_LEAST, usual // _SHARE), usual * _TIMES)


def report(what: str, count: int) -> None:
    """Write down what was tried, for the table of `make soak`."""
    print(f"{what}: {count}")
    table = os.environ.get("FABRIC_SOAK_TABLE")
    if table:
        with Path(table).open("a") as file:
            file.write(json.dumps([what, count]) + "\n")
