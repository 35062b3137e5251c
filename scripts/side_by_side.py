"""Runs parts of the Makefile side by side, and says at the end what failed and how long each took.

    python scripts/side_by_side.py [--jobs 2] PART...

Parts begin in the order given, as soon as there is room. What one says is shown whole when it has ended. All of them
run, also after one failed: one look shows all there is to mend.
"""

import argparse
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import NamedTuple


class Ended(NamedTuple):
    """How a part ended."""

    part: str
    passed: bool
    seconds: float
    said: str


def run(part: str) -> Ended:
    """Make one part."""
    print(f".. {part}", flush=True)
    begun = time.monotonic()
    done = subprocess.run(
        ["make", "--no-print-directory", part],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    return Ended(part, done.returncode == 0, time.monotonic() - begun, done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", metavar="PART", nargs="+")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    all_ended: list[Ended] = []
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for future in as_completed([pool.submit(run, part) for part in arguments.parts]):
            ended = future.result()
            all_ended.append(ended)
            print(f"== {ended.part}: {'passed' if ended.passed else 'FAILED'}\n{ended.said}", flush=True)
    for ended in sorted(all_ended, key=lambda each: -each.seconds):
        print(f"{ended.seconds:6.0f} s  {ended.part}")
    failed = [ended.part for ended in all_ended if not ended.passed]
    print(f"FAILED: {' '.join(failed)}" if failed else f"All passed: {' '.join(arguments.parts)}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
