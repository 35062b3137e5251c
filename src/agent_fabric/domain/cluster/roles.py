"""What processes are to each other that share one store."""

from enum import StrEnum

OBJECT_HOME = "object"
"""Home of runs whose files are saved where every machine finds them."""


class Role(StrEnum):
    """What a process does beside what it is asked for."""

    PROCESS = "process"
    """Nothing: a command."""
    DOOR = "door"
    """Takes tasks on for others to drive: `fabric serve --no-drive`."""
    SERVER = "server"
    """Takes tasks on, and takes up runs that have no driver."""
    WORKER = "worker"
    """Takes up runs that have no driver."""
