"""Files of a project that a run may read but never write: other programs take them as orders.

What a run puts there would be executed later, outside the box, with the rights of the person: by git, by the shell, by
the editor, by package managers, by us.
"""

PROTECTED_NAMES = frozenset(
    {
        *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc"),
        *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login"),
        *(".envrc", "config.fish", ".gitconfig", ".gitmodules", ".ripgreprc"),
        *(".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".pnpmfile.mjs", ".bunfig.toml", "bunfig.toml"),
        *("pip.conf", "pip.ini", ".pypirc", "uv.toml", ".condarc", ".gemrc", "sitecustomize.py", "usercustomize.py"),
        *(".mcp.json", "mcp.json"),
        *("fabric.json", "fabric.yaml", "fabric.yml", "fabric.toml"),
    }
)
"""Files with these names, wherever they lie."""

PROTECTED_FOLDERS = frozenset(
    {
        *(".fabric", ".agent-fabric", ".vscode", ".idea", ".cursor", ".claude", ".direnv"),
        *(".cargo", ".bundle", ".mvn", ".husky"),
    }
)
"""Folders with these names, wherever they lie, with everything in them."""

HIDDEN = frozenset({b".fabric"})
"""At the top of a project: not even seen by runs. The log, the approvals and what runs changed are in there."""

GIT_FOLDER = ".git"
PROTECTED_IN_GIT = frozenset({"hooks", "config", "config.worktree", "info", "modules", "worktrees", "commondir"})
"""What git executes or obeys. The rest of its folder is data, without which nobody could commit."""
YARN_FOLDER = ".yarn"
PROTECTED_IN_YARN = frozenset({"plugins", "releases"})
"""What yarn starts in place of itself. The rest of its folder are packages."""

PROTECTED_AT_TOP = (
    *(f"{GIT_FOLDER}/{name}" for name in sorted(PROTECTED_IN_GIT)),
    *(f"{YARN_FOLDER}/{name}" for name in sorted(PROTECTED_IN_YARN)),
    *sorted(PROTECTED_NAMES),
    *sorted(PROTECTED_FOLDERS - {".fabric"}),
)
"""The same for a box that can only cover paths, not patterns: as they lie at the top of a project."""


def is_protected(path: str) -> bool:
    """Tell whether a run must not write here; the path is from the project's folder on, with slashes.

    Upper and lower case are the same, since some file systems say so. `.git` itself is protected as a file: a file of
    that name points git to another folder.
    """
    names = [name for name in path.casefold().split("/") if name not in {"", "."}]
    for nth, name in enumerate(names):
        if name in PROTECTED_FOLDERS:
            return True
        if name == GIT_FOLDER and (nth + 1 == len(names) or names[nth + 1] in PROTECTED_IN_GIT):
            return True
        if name == YARN_FOLDER and nth + 1 < len(names) and names[nth + 1] in PROTECTED_IN_YARN:
            return True
    return bool(names) and names[-1] in PROTECTED_NAMES
