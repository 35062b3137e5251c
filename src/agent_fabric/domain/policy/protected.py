"""Files of a project that other programs take as orders: protected, or asked about before they are written.

*Protected* is what a program obeys as soon as it is started in the folder, or in a home that the folder is linked into:
a run may read it, but never write it. It would be executed outside the box, with the rights of the person: by git, by
the shell, by the editor, by package managers, by interactive interpreters and debuggers, by other agents, by us. *Asked
about* is what takes effect with the next everyday step of a person, or on another machine: that is work, too. The
project's own code and build files are neither.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

PROTECTED_NAMES = frozenset(
    {
        *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc"),
        *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login"),
        *(".envrc", "config.fish", ".gitconfig", ".gitmodules", ".ripgreprc", ".tmux.conf", ".screenrc"),
        *(".netrc", ".curlrc", ".wgetrc", ".psqlrc", ".sqliterc"),
        *(".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".pnpmfile.mjs", ".bunfig.toml", "bunfig.toml"),
        *("pip.conf", "pip.ini", ".pypirc", "uv.toml", ".condarc", ".gemrc", "sitecustomize.py", "usercustomize.py"),
        *(".exrc", ".vimrc", ".gvimrc", ".nvimrc", ".nvim.lua", ".emacs", ".dir-locals.el", ".dir-locals-2.el"),
        *(".gdbinit", ".lldbinit", ".pdbrc", ".irbrc", ".pryrc", ".iex.exs", ".ghci", ".ocamlinit", ".octaverc"),
        *(".rprofile", ".renviron"),
        *(".mcp.json", "mcp.json", "opencode.json", "opencode.jsonc", ".aider.conf.yml"),
        *("fabric.json", "fabric.yaml", "fabric.yml", "fabric.toml"),
    }
)
"""Files with these names in lower case, wherever they lie."""

PROTECTED_FOLDERS = frozenset(
    {
        *(".fabric", ".agent-fabric", ".vscode", ".idea", ".cursor", ".claude", ".direnv", ".ssh"),
        *(".zed", ".helix", ".fleet", ".codex", ".gemini", ".opencode", ".windsurf", ".roo", ".kilocode", ".kiro"),
        *(".junie", ".amazonq", ".continue", ".cargo", ".bundle", ".mvn", ".husky"),
    }
)
"""Folders with these names, wherever they lie, with everything in them."""

ASKED_NAMES = frozenset(
    {
        *(".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yml", ".overcommit.yml"),
        *("mise.toml", ".mise.toml", ".tool-versions", "rust-toolchain", "rust-toolchain.toml", ".devcontainer.json"),
        *(".gitlab-ci.yml", ".travis.yml", ".drone.yml", ".woodpecker.yml", "appveyor.yml", ".appveyor.yml"),
        *("jenkinsfile", "azure-pipelines.yml", "bitbucket-pipelines.yml", "cloudbuild.yaml"),
    }
)
"""Files with these names in lower case, wherever they lie."""
ASKED_FOLDERS = frozenset(
    {
        *(".devcontainer", ".circleci", ".buildkite", ".woodpecker", ".teamcity"),
        *(f"{host}/{name}" for host in (".github", ".gitea", ".forgejo") for name in ("workflows", "actions")),
    }
)
"""Folders, wherever they lie, with everything in them."""

HIDDEN = frozenset({b".fabric"})
"""At the top of a project: not even seen by runs. The log, the approvals and what runs changed are in there."""

GIT_FOLDER = ".git"
PROTECTED_INSIDE: Final[Mapping[str, frozenset[str]]] = {
    GIT_FOLDER: frozenset({"hooks", "config", "config.worktree", "info", "modules", "worktrees", "commondir"}),
    ".hg": frozenset({"hgrc", "hgrc-not-shared", "sharedpath"}),
    ".yarn": frozenset({"plugins", "releases"}),
    ".config": frozenset({"autostart", "direnv", "fish", "git", "mise", "nvim", "systemd"}),
}
"""What git, Mercurial, yarn and others execute or obey in their folders. The rest is data that every commit needs."""


PROTECTED_AT_TOP = (
    *(f"{folder}/{name}" for folder, names in PROTECTED_INSIDE.items() for name in sorted(names)),
    *sorted(PROTECTED_NAMES),
    *(".Rprofile", ".Renviron"),
    *sorted(PROTECTED_FOLDERS - {".fabric"}),
)
"""The same for a box that can only cover paths, not patterns: as they lie at the top of a project."""


def is_protected(path: str) -> bool:
    """Tell whether a run must not write here; the path is from the project's folder on, with slashes.

    Upper and lower case are the same, since some file systems say so. `.git` itself is protected as a file: a file of
    that name points git to another folder. So is `HEAD`, which makes the folder around it a bare repository of its own.
    """
    names = [name for name in path.casefold().split("/") if name not in {"", "."}]
    for nth, name in enumerate(names):
        if name in PROTECTED_FOLDERS:
            return True
        if name == GIT_FOLDER and nth + 1 == len(names):
            return True
        if nth + 1 < len(names) and names[nth + 1] in PROTECTED_INSIDE.get(name, ()):
            return True
    makes_repository = path.endswith("HEAD") and names[-1:] == ["head"] and GIT_FOLDER not in names
    return makes_repository or (bool(names) and names[-1] in PROTECTED_NAMES)


def is_obeyed_later(path: str) -> bool:
    """Tell whether a file takes effect with the next everyday step of a person, or on another machine."""
    names = [name for name in path.casefold().split("/") if name not in {"", "."}]
    pairs = (f"{outer}/{inner}" for outer, inner in pairwise(names))
    return bool(names) and (names[-1] in ASKED_NAMES or not ASKED_FOLDERS.isdisjoint((*names, *pairs)))
