"""When git only reads: with these options, in a repository whose settings name no programs."""

from agent_fabric.domain.policy.command_lines.invocation import Invocation
from agent_fabric.domain.policy.command_lines.names import names
from agent_fabric.domain.policy.read_only_options import ReadingOptions, reading

_BEFORE = names("--no-pager --no-optional-locks -P --literal-pathspecs --no-replace-objects")
_HISTORY = reading(
    "0123456789aB:bC:cDEFgG:iL:l:M:mPpqRrS:stU:uWwzn:",
    "abbrev abbrev-commit after all all-match ancestry-path author author-date-order before binary boundary branches "
    "cached check children cherry-mark cherry-pick color color-words committer compact-summary count date date-order "
    "decorate decorate-refs diff-algorithm diff-filter dirstat dst-prefix email encoding exclude exit-code find-copies "
    "find-renames first-parent fixed-strings follow format full-history full-index function-context glob graph grep "
    "histogram ignore-all-space ignore-blank-lines ignore-cr-at-eol ignore-space-at-eol ignore-space-change "
    "ignore-submodules inter-hunk-context invert-grep left-right max-count merge-base merges minimal name-only "
    "name-status no-abbrev-commit no-color no-decorate no-ext-diff no-index no-merges no-notes no-patch no-prefix "
    "no-relative no-renames no-textconv no-walk not numbered numstat objects oneline parents patch patience "
    "pickaxe-all pickaxe-regex pretty quiet raw regexp-ignore-case relative relative-date remotes reverse shortstat "
    "simplify-by-decoration since skip source src-prefix staged stat summary tags text topo-order unified until "
    "word-diff word-diff-regex",
)
_SUBCOMMANDS: dict[str, ReadingOptions] = {
    **dict.fromkeys(("diff", "log", "rev-list", "show", "whatchanged"), _HISTORY),
    "blame": reading("L:swefnptclbM:C:i", "porcelain line-porcelain show-email show-name show-number date root abbrev"),
    "cat-file": reading("ptse", "batch-check batch allow-unknown-type"),
    "check-ignore": reading("vqnz", "verbose quiet non-matching"),
    "count-objects": reading("vH", "verbose human-readable"),
    "describe": reading(
        "", "all tags contains abbrev candidates exact-match long match exclude always first-parent dirty"
    ),
    "for-each-ref": reading("", "count format sort points-to merged no-merged contains no-contains color"),
    "grep": reading(
        "inlLcwvEFPGhHoqaIrzA:B:C:e:f:m:Wp",
        "ignore-case line-number files-with-matches name-only files-without-match count word-regexp invert-match "
        "extended-regexp basic-regexp fixed-strings perl-regexp only-matching max-depth untracked no-index cached "
        "context after-context before-context show-function function-context and or not all-match quiet heading "
        "break color no-color column full-name exclude-standard",
    ),
    "ls-files": reading(
        "cdmoisuktvfzx:",
        "cached deleted modified others ignored stage unmerged killed directory no-empty-directory exclude "
        "exclude-standard error-unmatch full-name abbrev deduplicate eol",
    ),
    "ls-tree": reading("drtlz", "name-only name-status object-only full-name full-tree abbrev long"),
    "merge-base": reading("a", "all octopus independent is-ancestor fork-point"),
    "name-rev": reading("", "tags refs all name-only always"),
    "rev-parse": reading(
        "q",
        "abbrev-ref absolute-git-dir all branches git-common-dir git-dir is-bare-repository is-inside-git-dir "
        "is-inside-work-tree quiet remotes short show-cdup show-prefix show-toplevel symbolic-full-name tags verify",
    ),
    "shortlog": reading("nsec", "numbered summary email all since until no-merges group format"),
    "status": reading(
        "sbvzu:",
        "short branch porcelain long verbose untracked-files ignored ahead-behind no-ahead-behind renames no-renames "
        "show-stash column no-column",
    ),
    "version": reading("", "build-options"),
}
"""Subcommands that only read with these options."""
_LISTING = {
    "branch": names("-a -r -v -vv -av -rv --all --remotes --list --show-current --verbose --no-color"),
    "tag": names("-l --list -n --no-color"),
    "remote": names("-v --verbose"),
    "reflog": names("show --oneline"),
}
"""Subcommands that only read with nothing but these words behind them."""
_CONFIG = names("--get --get-all --get-regexp --list -l --show-origin --show-scope --name-only list get")
_STARTS_GPG = ("%G", "signature")
"""In a format they show who has signed, for which git starts gpg."""


def git_only_reads(invocation: Invocation) -> bool:
    """Tell whether a git command surely changes nothing and starts nothing else."""
    words, unknown = invocation.words, invocation.unknown
    at = 1
    while at < len(words) and at not in unknown and words[at] in _BEFORE:
        at += 1
    if at >= len(words) or at in unknown:
        return False
    action, rest = words[at], words[at + 1 :]
    if any(sign in word for word in rest for sign in _STARTS_GPG if word.startswith(("-", "%", "format:", "tformat:"))):
        return False
    if action in _SUBCOMMANDS:
        return _SUBCOMMANDS[action].operands(invocation, start=at + 1) is not None
    if unknown:
        return False
    match action:
        case "--version" | "--help":
            return not rest
        case "config":
            # `git config --get key` takes a name; `git config key value` writes.
            options = all(word in _CONFIG for word in rest if word.startswith("-"))
            return options and rest[:1] != () and rest[0] in _CONFIG and sum(word[:1] != "-" for word in rest) <= 2
        case "stash":
            return rest[:1] in {("list",), ("show",)} and _HISTORY.operands(invocation, start=at + 2) is not None
        case "worktree":
            return rest in {("list",), ("list", "--porcelain")}
        case _:
            return action in _LISTING and all(word in _LISTING[action] for word in rest)
