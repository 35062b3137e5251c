"""This machine, seen by someone who wants to know whether a task can run on it."""

from typing import Protocol

from agent_fabric.domain.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """What was found without starting or asking anything."""

    python: str
    platform: str
    """Such as `Linux x86_64`."""
    extras: dict[str, str | None]
    """Optional parts of the package by name, each with the version of what it needs; None: not installed."""
    has_avx2: bool | None
    """Whether the processor has the instructions that llama.cpp was built for; None: not a question here."""
    memory_bytes: int | None
    """What this process may use at most: of the machine, or of its container."""
    memory_free_bytes: int | None
    proxies: dict[str, str]
    """By scheme, without passwords."""


class Machine(Protocol):
    """Looks at this machine."""

    def facts(self) -> MachineFacts:
        """Return what is known about it."""
        ...

    def free_bytes(self, path: str) -> int | None:
        """Return how much fits on the disk of a folder, which need not exist yet; None: no one knows."""
        ...

    def may_write(self, path: str) -> bool:
        """Tell whether a folder can be written to, or made where it is not yet."""
        ...
