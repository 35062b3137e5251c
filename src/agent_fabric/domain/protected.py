"""Files of a project that a run may read but never write: other programs take them as orders.

What a run puts there would be executed later, outside the box, with the rights of the person: by git, by the shell, by
the editor, by package managers, by interactive interpreters and debuggers, by other agents, by us.
"""

from collections.abc import Mapping
from typing import Final

PROTECTED_NAMES = frozenset(
    {
        *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc"),
        *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login"),
        *(".envrc", "config.fish", ".gitconfig", ".gitmodules", ".ripgreprc"),
        *(".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".pnpmfile.mjs", ".bunfig.toml", "bunfig.toml"),
        *("pip.conf", "pip.ini", ".pypirc", "uv.toml", ".condarc", ".gemrc", "sitecustomize.py", "usercustomize.py"),
        *(".exrc", ".vimrc", ".nvimrc", ".nvim.lua", ".dir-locals.el", ".dir-locals-2.el"),
        *(".gdbinit", ".lldbinit", ".pdbrc", ".irbrc", ".pryrc", ".iex.exs", ".ghci", ".ocamlinit", ".octaverc"),
        ".rprofile",
        *(".mcp.json", "mcp.json", "opencode.json", "opencode.jsonc"),
        *("fabric.json", "fabric.yaml", "fabric.yml", "fabric.toml"),
    }
)
"""Files with these names in lower case, wherever they lie."""

PROTECTED_FOLDERS = frozenset(
    {
        *(".fabric", ".agent-fabric", ".vscode", ".idea", ".cursor", ".claude", ".direnv"),
        *(
            ".zed",
            ".helix",
            ".fleet",
            ".codex",
            ".gemini",
            ".opencode",
            ".windsurf",
            ".roo",
            ".kilocode",
            ".kiro",
            ".junie",
        ),
        *(".amazonq", ".continue"),
        *(".cargo", ".bundle", ".mvn", ".husky"),
    }
)
"""Folders with these names, wherever they lie, with everything in them."""

HIDDEN = frozenset({b".fabric"})
"""At the top of a project: not even seen by runs. The log, the approvals and what runs changed are in there."""

GIT_FOLDER = ".git"
PROTECTED_INSIDE: Final[Mapping[str, frozenset[str]]] = {
    GIT_FOLDER: frozenset({"hooks", "config", "config.worktree", "info", "modules", "worktrees", "commondir"}),
    ".hg": frozenset({"hgrc", "hgrc-not-shared", "sharedpath"}),
    ".yarn": frozenset({"plugins", "releases"}),
}
"""What git, Mercurial and yarn execute or obey in their folders. The rest of these is data, without which nobody could
commit."""

PROTECTED_AT_TOP = (
    *(f"{folder}/{name}" for folder, names in PROTECTED_INSIDE.items() for name in sorted(names)),
    *sorted(PROTECTED_NAMES),
    ".Rprofile",
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
        if name == GIT_FOLDER and nth + 1 == len(names):
            return True
        if nth + 1 < len(names) and names[nth + 1] in PROTECTED_INSIDE.get(name, ()):
            return True
    return bool(names) and names[-1] in PROTECTED_NAMES
