import pytest

from agent_fabric.domain.policy.protected import (
    ASKED_FOLDERS,
    ASKED_NAMES,
    PROTECTED_AT_TOP,
    PROTECTED_FOLDERS,
    PROTECTED_NAMES,
    is_obeyed_later,
    is_protected,
)


@pytest.mark.parametrize(
    "path",
    [
        *(".git/hooks/pre-commit", ".git/config", ".GIT/Config", "sub/.git/hooks/x", ".git", ".git/", "./.git//config"),
        *(".git/modules/sub/config", ".git/info/attributes", ".bashrc", "home/.zshrc", ".envrc", ".mcp.json"),
        *(".npmrc", "sub/.npmrc", ".yarnrc.yml", ".pnpmfile.cjs", "pip.conf", ".venv/pip.conf", ".pypirc", "uv.toml"),
        *(
            ".cargo/config.toml",
            "sub/.cargo/config",
            ".bundle/config",
            ".gemrc",
            ".mvn/jvm.config",
            ".husky/pre-commit",
        ),
        *("sitecustomize.py", "src/sitecustomize.py", ".yarn/releases/yarn.cjs", ".yarn/plugins/x.cjs"),
        *(".hg/hgrc", "sub/.hg/sharedpath", ".exrc", ".nvim.lua", ".dir-locals.el", ".gdbinit", ".pdbrc", ".Rprofile"),
        *(".irbrc", ".iex.exs", ".zed/tasks.json", ".codex/config.toml", ".gemini/settings.json", "opencode.json"),
        *(".config/git/config", "dotfiles/.config/git/config", ".config/fish/config.fish", ".ssh/config", ".netrc"),
        *(".vimrc", ".tmux.conf", ".rprofile", ".Renviron", ".aider.conf.yml"),
        *("sub/fabric.yaml", "FABRIC.JSON", ".vscode/tasks.json", ".vscode", "a/.idea/x/y", ".fabric/fabric.db"),
        *("HEAD", "sub/HEAD"),
    ],
)
def test_what_other_programs_take_as_orders_is_protected(path: str) -> None:
    assert is_protected(path)


@pytest.mark.parametrize(
    "path",
    [
        *("", ".", "a.py", ".gitignore", ".github/workflows/x.yml", ".git/HEAD", ".git/objects/ab/cd", ".git/index"),
        *(
            ".hg/store/data/x",
            ".hg/dirstate",
            ".devcontainer/devcontainer.json",
            "AGENTS.md",
            ".pre-commit-config.yaml",
        ),
        *(".yarn/cache/x.zip", "package.json", "pyproject.toml", "Cargo.toml", "cargo/config", "gradle.properties"),
        *("git/hooks/x", "docs/config", "src/hooks/use.ts", "bashrc", "fabric.py", "vscode/tasks.json"),
        *("head", "bin/head", "HEAD.md", "OVERHEAD", "HEAD/x"),
    ],
)
def test_the_rest_of_a_project_is_not(path: str) -> None:
    assert not is_protected(path)


def test_whatever_a_box_covers_is_protected_by_name_as_well() -> None:
    assert all(is_protected(path) for path in PROTECTED_AT_TOP)


def placed(name: str, *, inside: str = "") -> list[str]:
    """Return paths at which a name may lie, in spellings that lead to the same file."""
    ends = f"/{inside}" if inside else ""
    return [f"{start}{spelled}{ends}" for start in ("", "./", "sub/", "a//b/") for spelled in (name, name.upper())]


def test_each_class_holds_in_every_folder_and_spelling_and_no_file_is_in_two() -> None:
    protected = [path for name in PROTECTED_NAMES for path in placed(name)]
    protected += [path for name in PROTECTED_FOLDERS for path in placed(name, inside="x/y")]
    asked = [path for name in ASKED_NAMES for path in placed(name)]
    asked += [path for name in ASKED_FOLDERS for path in placed(name, inside="x/y")]
    assert [path for path in protected if not is_protected(path) or is_obeyed_later(path)] == []
    assert [path for path in asked if not is_obeyed_later(path) or is_protected(path)] == []


@pytest.mark.parametrize(
    "path",
    [
        *("", ".", "Makefile", "package.json", "conftest.py", "Dockerfile", "AGENTS.md", ".github/CODEOWNERS"),
        *("workflows/x.yml", "docs/.github.md", ".github", "src/actions/x.ts", ".config/nextest.toml", "config/git/x"),
    ],
)
def test_the_code_of_a_project_is_neither_protected_nor_asked_about(path: str) -> None:
    assert not is_protected(path)
    assert not is_obeyed_later(path)
