"""Ends the processes below its parent when the parent's lease has lapsed. Run as a program, with nothing but Python.

The parent writes deadlines to our standard input, one in a line, on the clock that goes on while a machine sleeps. A
parent that was frozen writes none. Its commands and tool servers would go on while another machine drives its runs.
"""

import os
import select
import signal
import time

PASSES = 50
"""How often is looked for processes that were started while others were ended."""


def boot_time() -> float:
    """Return a time that goes on while the machine sleeps, where there is one."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def below(parent: int) -> list[int]:
    """Return the living processes below one, without us."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib would be imported for this alone
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - as above
                fields = file.read().rpartition(b")")[2].split()  # the name before may hold anything
        except OSError:
            continue  # it has ended
        if fields[0] != b"Z":
            children.setdefault(int(fields[1]), []).append(int(name))
    found, new = list[int](), [parent]
    while new:
        new = [child for each in new for child in children.get(each, ()) if child != os.getpid()]
        found += new
    return found


def end_all_below(parent: int) -> None:
    """End the processes below one, and those that they start meanwhile."""
    for _ in range(PASSES):
        living = below(parent)
        if not living:
            return
        for pid in living:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue  # it has ended, or is another user's
        time.sleep(0.01)


def main() -> None:
    """Guard the parent until it ends."""
    parent, text = os.getppid(), b""
    deadline: float | None = None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the parent may take its time to stop, and is guarded until then
    while os.getppid() == parent:
        left = None if deadline is None else max(0.0, deadline - boot_time())
        if select.select([0], [], [], left)[0]:
            data = os.read(0, 4096)
            if not data:
                return
            *lines, text = (text + data).split(b"\n")
            deadline = float(lines[-1]) if lines else deadline
        elif deadline is not None and boot_time() >= deadline:
            end_all_below(parent)
            deadline = None  # until the parent has a lease again


if __name__ == "__main__":
    main()
