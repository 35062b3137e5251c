"""What a command outside has around it: the user's environment and programs, nothing of the workspace or of ours."""

import getpass
import os
import re
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path

from agent_fabric.config.variable_names import OURS
from agent_fabric.domain.policy.outside_plan import CannotRunOutside
from agent_fabric.infrastructure.own_path import own_path

_PLACES_OF_GIT = re.compile(
    r"GIT_(?:DIR|WORK_TREE|INDEX_FILE|OBJECT_DIRECTORY|ALTERNATE_OBJECT_DIRECTORIES|COMMON_DIR|NAMESPACE|PREFIX|CONFIG.*)"
)
"""Variables that would make git work on another repository, or obey further settings."""
_OF_SHELLS = re.compile(r"BASH_ENV|ENV|SHELLOPTS|BASHOPTS|BASH_FUNC_.*")
"""Variables that a shell obeys before it starts a program."""
_GIT_SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.commitGraph": "false",  # it could tell another history than the commits
    "push.recurseSubmodules": "no",
    "safe.bareRepository": "explicit",
}
_GIT = {"GIT_CONFIG_COUNT": str(len(_GIT_SETTINGS))} | {
    f"GIT_CONFIG_{part}_{n}": text
    for n, setting in enumerate(_GIT_SETTINGS.items())
    for part, text in zip(("KEY", "VALUE"), setting, strict=True)
}
"""No hook runs and no program of a repository is started, whatever other settings say."""
_NO_QUESTIONS = {"GIT_TERMINAL_PROMPT": "0", "SSH_ASKPASS_REQUIRE": "never", "GCM_INTERACTIVE": "never"}
"""No one is there to answer."""
_NO_SCRIPTS = {"npm_config_ignore_scripts": "true"}


def users_environment(environment: Mapping[str, str], workspace: str) -> dict[str, str]:
    """Return the user's environment as a command outside sees it."""
    kept = {
        name: value
        for name, value in environment.items()
        if name not in OURS
        and not name.startswith("FABRIC_")
        and not _PLACES_OF_GIT.fullmatch(name)
        and not _OF_SHELLS.fullmatch(name)
    }
    root = Path(os.path.realpath(workspace))
    entries = own_path(environment.get("PATH")).split(os.pathsep)
    path = [entry for entry in entries if not Path(os.path.realpath(entry)).is_relative_to(root)]
    return kept | _GIT | _NO_QUESTIONS | _NO_SCRIPTS | {"PATH": os.pathsep.join(path)}


def find_program(word: str, environment: Mapping[str, str], workspace: str) -> str:
    """Return the path of a program.

    Raises:
        CannotRunOutside: it is not installed, or belongs to the workspace.
    """
    found = shutil.which(word.rpartition("/")[2], path=environment["PATH"])
    if found is None or (word.startswith("/") and os.path.realpath(word) != os.path.realpath(found)):
        raise CannotRunOutside(
            f"{word} is not on the PATH of this machine, outside of the workspace and its environments."
        )
    if Path(os.path.realpath(found)).is_relative_to(os.path.realpath(workspace)):
        raise CannotRunOutside(f"{word} belongs to the workspace, and no file of it is executed outside the box.")
    return found


def account() -> str:
    """Return whose rights a command outside has."""
    return f"{getpass.getuser()}@{socket.gethostname()}"
