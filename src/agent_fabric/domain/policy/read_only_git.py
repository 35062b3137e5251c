"""When git only looks."""

from agent_fabric.domain.commands.invocation import Invocation
from agent_fabric.domain.commands.names import names

_FREE = names(
    "blame cat-file check-ignore count-objects describe diff for-each-ref grep log ls-files ls-tree merge-base "
    "name-rev rev-list rev-parse shortlog show status version whatchanged"
)
"""Subcommands that only read whatever else is said, but for the options below."""
_NEVER = (
    "--ext-diff",
    "--extcmd",
    "--filters",
    "--open-files-in-pager",
    "--output",
    "--output-directory",
    "--sequence-editor",
    "--textconv",
    "--exec-path",
)
_BEFORE = names("--no-pager --no-optional-locks -P --literal-pathspecs --no-replace-objects")
_LISTING: dict[str, tuple[frozenset[str], bool]] = {
    "branch": (names("-a -r -v -vv -av -rv --all --remotes --list --show-current --verbose --no-color"), False),
    "tag": (names("-l --list -n --no-color"), False),
    "remote": (names("-v --verbose"), False),
    "stash": (names("list show"), True),
    "reflog": (names("show --oneline"), False),
    "worktree": (names("list --porcelain"), True),
    "submodule": (names("status --recursive"), True),
    "config": (names("--get --get-all --get-regexp --list -l --show-origin --show-scope --name-only list get"), True),
}
"""Subcommands that only read with nothing but these words behind them; and whether one of them must be there."""


def git_only_reads(invocation: Invocation) -> bool:
    """Tell whether a git command surely changes nothing and runs nothing else."""
    words, unknown = invocation.words, invocation.unknown
    at = 1
    while at < len(words) and at not in unknown and words[at] in _BEFORE:
        at += 1
    if at >= len(words) or at in unknown:
        return False
    action, rest = words[at], words[at + 1 :]
    if action in {"--version", "--help"}:
        return not rest
    if unknown:
        # It may turn out to be `--output=…`, unless it stands behind `--`.
        end = words.index("--") if "--" in words else len(words)
        if any(n < end for n in unknown):
            return False
    if action in _FREE:
        options = [word.partition("=")[0] for word in rest if word.startswith("--") and word != "--"]
        if any(never.startswith(option) for option in options for never in _NEVER):
            return False
        return action != "grep" or not any(
            word.startswith("-") and not word.startswith("--") and "O" in word for word in rest
        )
    if action not in _LISTING:
        return False
    allowed, needed = _LISTING[action]
    if action == "config":
        # `git config --get key` takes a name; `git config key value` writes.
        return bool(rest) and rest[0] in allowed and len([word for word in rest if not word.startswith("-")]) <= 2
    if action in {"stash", "worktree", "submodule"}:
        return rest[:1] != () and rest[0] in allowed and not any(word.startswith("--ext") for word in rest)
    return all(word in allowed for word in rest) and (bool(rest) or not needed)
