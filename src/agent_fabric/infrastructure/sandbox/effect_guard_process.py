"""Ends what runs have started below its parent when the parent's lease has lapsed. A program that needs only Python.

The parent writes deadlines to our standard input, one in a line, on the clock that goes on while a machine sleeps. A
parent that was frozen writes none. Its commands and tool servers would go on while another machine drives its runs.
"""

import os
import select
import signal
import time

CONTAINER, SEPARATOR = b"FABRIC_CONTAINER=", b"\x1f"
VARIABLES = (b"FABRIC_RUN_ID=", b"FABRIC_BOX_OF=", CONTAINER)
LIMIT = b"1000003"
"""See `process_environments`, `bubblewrap_build`, `podman_engine` and `run_processes`, of which nothing is imported
here: a test compares them."""
LOOK_S = 0.5
"""How often the clock is looked at: a wait does not go on while the machine sleeps, but the lease does."""
PASSES = 50
"""How often is looked for processes that were started while others were ended."""
LAPSED_LOOK_S = 0.05
"""How often is looked whether a frozen parent goes on, and what it starts before it knows how late it is."""
LATE_START_S = 2.0
"""For how long after it went on."""


def boot_time() -> float:
    """Return a time that goes on while the machine sleeps, where there is one."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def below(parent: int) -> list[int]:
    """Return the living processes of runs below one: those that bear a mark of a run, and all below these."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib would be imported for this alone
        if name.isdigit():
            fields = read(f"/proc/{name}/stat").rpartition(b")")[2].split()  # the name before may hold anything
            if fields and fields[0] != b"Z":
                children.setdefault(int(fields[1]), []).append(int(name))
    inherited = marks_of(parent)
    found = list[int]()
    new = [(parent, False)]
    while new:
        new = [
            (child, is_of_run or bool(marks_of(child) - inherited))
            for each, is_of_run in new
            for child in children.get(each, ())
        ]
        found += [pid for pid, is_of_run in new if is_of_run]
    return found


def marks_of(pid: int) -> set[bytes]:
    """Return the marks of runs that a process bears: variables of boxes and commands, the limit of tool servers."""
    entries = read(f"/proc/{pid}/environ").split(b"\0")
    found = {each for each in entries if each.startswith(VARIABLES)}
    for line in read(f"/proc/{pid}/limits").splitlines():
        if line.startswith(b"Max file locks") and line.split()[4] == LIMIT:
            found.add(LIMIT)
    return found


def read(path: str) -> bytes:
    """Return what is in a file; nothing if its process has ended, or is another user's."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - see above
            return file.read()
    except OSError:
        return b""


def end_container(pid: int) -> None:
    """Have the container killed to which a process is attached: it is not below ours, and outlives that process."""
    for mark in marks_of(pid):
        if mark.startswith(CONTAINER):
            words = mark.removeprefix(CONTAINER).split(SEPARATOR)
            try:
                os.posix_spawn(words[0], words, os.environ)
            except OSError:
                continue  # the next driver of the run on this machine removes it


def reap_children() -> None:
    """Let go of the commands that have killed containers."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def end_all_below(parent: int) -> None:
    """End the processes of runs below one, and those that they start meanwhile, until there is word of the parent."""
    for _ in range(PASSES):
        reap_children()
        living = below(parent)
        if not living or select.select([0], [], [], 0)[0]:
            return
        for pid in living:
            end_container(pid)
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue  # it has ended, or is another user's
        time.sleep(0.01)


def is_stopped(pid: int) -> bool:
    """Tell whether a process is frozen, so that it cannot start anything."""
    fields = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return bool(fields) and fields[0] in (b"T", b"t")


def end_late_starts(parent: int) -> None:
    """Wait until the parent has a lease again, or ends, and end what it starts until then.

    It may have been frozen just before it started something, and starts it before it looks at the clock again.
    """
    goes_on_since: float | None = None
    while os.getppid() == parent:
        is_early = goes_on_since is None or boot_time() < goes_on_since + LATE_START_S
        if select.select([0], [], [], LAPSED_LOOK_S if is_early else LOOK_S)[0]:
            return
        if is_stopped(parent):
            goes_on_since = None
        else:
            goes_on_since = boot_time() if goes_on_since is None else goes_on_since
            end_all_below(parent)


def main() -> None:
    """Guard the parent until it ends."""
    parent, text = os.getppid(), b""
    deadline: float | None = None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the parent may take its time to stop, and is guarded until then
    while os.getppid() == parent:
        left = None if deadline is None else min(LOOK_S, max(0.0, deadline - boot_time()))
        if select.select([0], [], [], left)[0]:
            data = os.read(0, 4096)
            if not data:
                return
            *lines, text = (text + data).split(b"\n")
            deadline = float(lines[-1]) if lines else deadline
        elif deadline is not None and boot_time() >= deadline:
            end_all_below(parent)
            end_late_starts(parent)
            deadline = None  # until the parent has a lease again


if __name__ == "__main__":
    main()
