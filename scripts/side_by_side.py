"""Runs parts of the Makefile side by side, and says at the end what failed and what each took: time and processor.

    python scripts/side_by_side.py [--jobs 2] [--first PART] PART...

Parts begin in the order given, as soon as there is room. With `--first`, all but the first of them wait until that part
has ended. What one says is shown whole when it has ended. All of them run, also after one failed: one look shows all
there is to mend.
"""

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from typing import NamedTuple


class Ended(NamedTuple):
    """How a part ended."""

    part: str
    passed: bool
    seconds: float
    cpu_s: float
    """Processor time of the part and of everything that it started and waited for."""
    said: str


def run(part: str) -> Ended:
    """Make one part."""
    print(f".. {part}", flush=True)
    begun = time.monotonic()
    with subprocess.Popen(
        ["make", "--no-print-directory", part],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        said = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    cpu_s = used.ru_utime + used.ru_stime
    return Ended(part, process.returncode == 0, time.monotonic() - begun, cpu_s, said)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", metavar="PART", nargs="+")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--first", metavar="PART", help="prepares what all parts but the first of them need")
    arguments = parser.parse_args()
    all_ended: list[Ended] = []
    begun = time.monotonic()
    with ThreadPoolExecutor(arguments.jobs) as pool:
        independent, *others = arguments.parts
        begun_parts = [pool.submit(run, independent)]
        if arguments.first:
            begun_parts.append(pool.submit(run, arguments.first))
            wait(begun_parts[1:])
        begun_parts += [pool.submit(run, part) for part in others]
        for future in as_completed(begun_parts):
            ended = future.result()
            all_ended.append(ended)
            print(f"== {ended.part}: {'passed' if ended.passed else 'FAILED'}\n{ended.said}", flush=True)
    for ended in sorted(all_ended, key=lambda each: -each.seconds):
        print(f"{ended.seconds:6.0f} s {ended.cpu_s:6.0f} s CPU  {ended.part}")
    seconds, cpu_s = time.monotonic() - begun, sum(ended.cpu_s for ended in all_ended)
    print(f"{seconds:6.0f} s {cpu_s:6.0f} s CPU  together")
    failed = [ended.part for ended in all_ended if not ended.passed]
    print(f"FAILED: {' '.join(failed)}" if failed else f"All passed: {' '.join(arguments.parts)}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
