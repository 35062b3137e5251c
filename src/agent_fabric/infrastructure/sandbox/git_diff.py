"""What has changed in the git repository of a person, as a diff.

Programs that its settings name for showing diffs are not run.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.own_path import own_path

_TIMEOUT_S = 60.0
_SAFE: Final = ("--no-pager", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false")
_PLAIN: Final = ("--no-ext-diff", "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/", "--unified=8")


def read_git_diff(folder: Path, base: str) -> str:
    """Return what differs from where a branch left `base`, or without one from the last commit; files of git only.

    Raises:
        ConfigError: there is no repository or no such branch, or git is not installed.
    """
    if base.startswith("-"):
        raise ConfigError(f"No branch is called {base!r}", hint="For example: --base main")
    since = _git(folder, "merge-base", base, "HEAD").strip() if base else "HEAD"
    return _git(folder, "diff", *_PLAIN, since, "--")


def _git(folder: Path, *arguments: str) -> str:
    git = shutil.which("git", path=own_path(os.environ.get("PATH")))
    if git is None:
        raise ConfigError("git is not installed", hint="Give the diff on standard input: fabric review - < FILE")
    try:
        done = subprocess.run(
            [git, *_SAFE, *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise ConfigError(f"git could not tell what has changed: {problem}", hint="Try: git diff") from None
    if done.returncode:
        # The first line says what is wrong; what follows may be how git is used.
        said = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise ConfigError(
            f"git could not tell what has changed: {said or f'exit code {done.returncode}'}",
            hint="Run it in a git repository that has a commit; --base names a branch or a commit.",
        )
    return done.stdout.decode(errors="replace")
