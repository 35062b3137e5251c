"""Runs a command that ends when the one who started it does. Run as a script: `python leash.py COMMAND…`.

The starter holds the other end of our standard input and never writes. When it is gone, however it ended, reading comes
back, and the whole process group is killed; so start this in a session of its own.
"""

import os
import signal
import sys
import threading


def _watch() -> None:
    os.read(0, 1)
    os.killpg(0, signal.SIGKILL)


def _main(command: list[str]) -> int:
    threading.Thread(target=_watch, daemon=True).start()
    nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    child = os.posix_spawnp(command[0], command, os.environ, file_actions=[nothing])
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]) & 0xFF)
