"""What a task of the evaluation is: what a person would type, the files before, and a check of the files after.

Each is judged by what is on disk, never by what is said.
"""

import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ToolTask:
    """One task."""

    name: str
    prompt: str
    check: Callable[[Path], bool]
    """Looks at the workspace; anything that it raises means no."""
    files: Mapping[str, str] = field(default_factory=dict)
    """What is in the workspace at the start."""

    def lay_out(self, workspace: Path) -> None:
        """Make the workspace as the task finds it."""
        for name, text in self.files.items():
            path = workspace / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def done_in(self, workspace: Path) -> bool:
        """Tell whether the task has been done."""
        try:
            return self.check(workspace)
        except Exception:  # noqa: BLE001 - a model may leave anything behind; whatever cannot be read is not right
            return False


def text_of(workspace: Path, name: str) -> str:
    """Return the content of a file, without space around it."""
    return (workspace / name).read_text().strip()


def python(workspace: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the workspace."""
    return subprocess.run(
        [sys.executable, *words], cwd=workspace, capture_output=True, text=True, timeout=20, check=False
    )


def numbers_in(text: str) -> list[str]:
    """Return the numbers that a text consists of."""
    return [word for word in text.replace(",", " ").replace("[", " ").replace("]", " ").split() if word.isdigit()]
