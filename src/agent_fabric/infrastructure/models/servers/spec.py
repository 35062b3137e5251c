"""What a model server is asked to be."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from agent_fabric.domain.errors import ModelRefused

DEFAULT_CONTEXT_WINDOW = 8192
DEFAULT_IDLE_S = 300.0


def quiet(_: str) -> None:
    """Notice that tells no one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec:
    """One model file, served in one way. Callers that ask for the same share one server."""

    model: Path
    """The GGUF file."""
    label: str = ""
    """What people call the model; by default its file's name."""
    context_window: int = DEFAULT_CONTEXT_WINDOW
    """Tokens that fit into one conversation, prompt and answer together."""
    slots: int = 1
    """How many conversations are answered at once; each has a context window of its own."""
    threads: int | None = None
    """Threads that compute; by default one for each core at our disposal. The first who asks decides."""
    idle_s: float = DEFAULT_IDLE_S
    """How long the server waits for its next user before it ends. The first who asks decides."""

    @property
    def name(self) -> str:
        """Return what people call it."""
        return self.label or self.model.stem

    def key(self) -> str:
        """Return what tells this server from all others; a model file that was replaced has another key.

        Raises:
            ModelRefused: there is no such file.
        """
        try:
            path = self.model.resolve(strict=True)
            about = path.stat()
        except OSError as problem:
            raise ModelRefused(
                f"The model file {self.model} cannot be read: {problem.strerror or problem}",
                hint="Check the path, or download the model: fabric models pull",
            ) from None
        identity = f"{path}|{about.st_size}|{about.st_mtime_ns}|{self.context_window}|{self.slots}"
        return hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()[:16]
