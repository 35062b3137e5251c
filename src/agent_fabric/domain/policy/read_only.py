"""Commands that only read: which programs, and with which options.

Where there is no wall around commands (level C), and on nodes, only these run without a question. Nothing is on this
list that a file, an option or a variable can make start another program. When in doubt a command is not on it.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from itertools import pairwise
from typing import NamedTuple

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.policy.command_lines.invocation import Invocation, Redirect, UnparsableCommand
from agent_fabric.domain.policy.command_lines.names import names
from agent_fabric.domain.policy.command_lines.wrappers import wrapped_commands
from agent_fabric.domain.policy.environment import changes_programs, poisoned_variable
from agent_fabric.domain.policy.places import is_secret


class Word(NamedTuple):
    """One operand of a command."""

    at: int
    text: str


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """The options of a program that neither write a file nor start another program."""

    letters: str = ""
    """As getopt takes them: `:` behind a letter means that a value follows."""
    long: frozenset[str] = frozenset()
    """Long options, without their dashes and values. An abbreviation is none of them."""
    words: frozenset[str] = field(default_factory=frozenset[str], kw_only=True)
    """Whole words that begin with a dash, for programs with options such as `-name`; `:` as with letters."""
    max_operands: int | None = field(default=None, kw_only=True)
    """With more operands the program writes one of them."""
    bad_operands: str = field(default="", kw_only=True)
    """Characters by which an operand means more than a file or a name."""

    def __call__(self, invocation: Invocation) -> bool:
        """Tell whether a command has only these options."""
        operands = self.operands(invocation)
        return operands is not None and not any(set(self.bad_operands) & set(word.text) for word in operands)

    def operands(self, invocation: Invocation, *, start: int = 1) -> list[Word] | None:
        """Return the operands from a word on; None if there is another option, or a word is only known at run time."""
        found: list[Word] = []
        words, ended, value = invocation.words, False, False
        for at in range(start, len(words)):
            word = words[at]
            if at in invocation.unknown and not ended:
                return None  # it may turn out to be an option
            if word == "--" and not ended:
                ended = True
            elif ended or not word.startswith("-") or word == "-":
                if not value:
                    found.append(Word(at, word))
                value = False
            elif not self.allows(word):
                return None
            else:
                value = self._wants_value(word)
        too_many = self.max_operands is not None and len(found) > self.max_operands
        return None if too_many else found

    def allows(self, option: str) -> bool:
        """Tell whether a word with a dash is one of these options."""
        if option in self.words or f"{option}:" in self.words:
            return True
        if option.startswith("--"):
            return option[2:].partition("=")[0] in self.long
        return all(letter in self.letters and letter != ":" for letter, _ in self._bundle_letters(option))

    def _wants_value(self, option: str) -> bool:
        if option.startswith("--") or option in self.words or f"{option}:" in self.words:
            return f"{option}:" in self.words
        return any(wants for _, wants in self._bundle_letters(option))

    def _bundle_letters(self, option: str) -> Iterator[tuple[str, bool]]:
        """Yield the letters of a bundle, and whether the next word is the value of the last one."""
        for at, letter in enumerate(option[1:], start=1):
            valued = f"{letter}:" in self.letters and letter != ":"
            yield letter, valued and at == len(option) - 1
            if valued:
                return


def reading(letters: str = "", long: str = "", *, words: str = "", max_operands: int | None = None) -> ReadingOptions:
    """Return options written as texts."""
    return ReadingOptions(letters, names(long), words=names(words), max_operands=max_operands)


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


_QUIET_TARGETS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})
_SHELL_LETTERS = frozenset("ceux")


def only_reads(invocation: Invocation, altered: frozenset[str] = frozenset()) -> bool:
    """Tell whether a command surely changes nothing; what it starts in turn is judged by itself.

    `altered` are programs that files of the workspace can make do something else.
    """
    if poisoned_variable(invocation) or changes_programs(invocation) or not all(map(_is_quiet, invocation.redirects)):
        return False
    words = invocation.words
    if not words:
        return True
    if invocation.dynamic or ("/" in invocation.program and not invocation.program.startswith(("/usr/bin/", "/bin/"))):
        # Another folder may hold another program of the same name.
        return False
    name = invocation.name
    if name in altered or any(map(is_secret, words[1:])):
        return False
    if words[1:] in {("--version",), ("--help",)} and (name in _VERSIONED or name in _CHECKS):
        return True
    if name in _STARTERS:
        return _only_starts(invocation)
    if name in ANY_OPTION:
        return True
    check = _CHECKS.get(name)
    return check is not None and check(invocation)


def _is_quiet(redirect: Redirect) -> bool:
    """Tell whether a redirect writes no file."""
    if redirect.operator.startswith("<<"):
        return True
    if redirect.unknown:
        return False
    if redirect.operator == "<":
        return redirect.target == "/dev/null" or not is_secret(redirect.target)
    if redirect.operator in {">&", "<&"}:
        return redirect.target.rstrip("-").isdigit() or redirect.target == "-"
    return redirect.target in _QUIET_TARGETS


# ── programs that start others ────────────────────────────────────────────────────────────────────────────────────────

_STARTERS = names("bash builtin command dash env eval ionice nice sh stdbuf time timeout xargs")


def _only_starts(invocation: Invocation) -> bool:
    """Tell whether a program does nothing itself but start what is judged apart."""
    words, name = invocation.words, invocation.name
    try:
        inner = wrapped_commands(invocation)
    except UnparsableCommand:
        return False
    if name == "command" and words[1:2] in {("-v",), ("-V",)}:
        return True
    if not inner:
        return name == "eval"
    if name in {"bash", "sh", "dash"}:
        return len(words) > 2 and words[1].startswith("-") and set(words[1][1:]) <= _SHELL_LETTERS
    if name == "xargs" and any(word.startswith("--p") for word in words):
        return False  # `--process-slot-var` sets a variable
    if name == "time":
        return not any(word.startswith(("-o", "--o", "-a", "--a")) for word in words[1:])
    return True


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────

ANY_OPTION = names(
    # builtins
    ": [ break cd continue dirs echo exit false getopts popd pushd pwd read return set shift test true type times "
    "umask unset wait "
    # text and files
    "b2sum basename cal cat cksum cmp column comm cut df dirname du egrep expand expr factor fgrep fmt fold "
    "free grep groups head hexdump id join jq ls lsblk lscpu md5sum nl nproc numfmt od paste pathchk pgrep pidof pr "
    "printenv readlink realpath rev seq sha1sum sha224sum sha256sum sha384sum sha512sum sleep stat sum tac tail tr "
    "tsort tty uname unexpand uptime users vdir vmstat w wc which who whoami"
)
"""Programs none of whose options writes a file or starts a program, so that words may be known at run time only."""

_VERSIONED = names(
    "bash clang cmake cpp g++ gawk gcc java less make man node openssl perl python python3 python3.11 "
    "python3.12 python3.13 python3.14 ruby sh sqlite3 tar"
)
"""Programs that say their version without reading a file of the workspace first, as `yarn` and `cargo` do."""


def _sed(invocation: Invocation) -> bool:
    words = invocation.words[1:]
    if invocation.unknown or any(word.startswith("-") and word not in {"-n", "-E", "-r", "-e", "-u"} for word in words):
        return False
    scripts = [word for before, word in zip(("", *words), words, strict=False) if before == "-e"]
    if not scripts:
        scripts = [word for word in words if not word.startswith("-")][:1]
    return bool(scripts) and all(_SED_SCRIPT.fullmatch(script) for script in scripts)


_SED_SCRIPT = re.compile(
    r"(?:\d+|\$|/[^/\\\n]*/)?(?:,\+?(?:\d+|\$)|,/[^/\\\n]*/)?"
    r"(?:[pdq=]|s([/|#,])(?:(?!\1)[^\\\n]|\\[^\n])*\1(?:(?!\1)[^\\\n]|\\[^\n])*\1[gpiI0-9]*)"
)


def _tar(invocation: Invocation) -> bool:
    """`tar -tf x`; an archive whose name holds a colon is fetched by another program."""
    letters = invocation.words[1].lstrip("-") if len(invocation.words) > 1 else ""
    others = invocation.words[2:]
    return (
        "t" in letters
        and set(letters) <= set("tvfzjJ")
        and not invocation.unknown
        and not any(word.startswith("-") or ":" in word for word in others)
    )


def _date(invocation: Invocation) -> bool:
    operands = reading("d:I:r:Ru", "date iso-8601 reference rfc-3339 rfc-email utc universal").operands(invocation)
    return operands is not None and all(
        word.text.startswith("+") or invocation.words[word.at - 1] in {"--date", "--reference"} for word in operands
    )


_PS_VALUED = names("-C -p -q -u -U -g -G -o -O -t -s --sort --format --pid --ppid --user --User --group --Group --tty")
_PS_SHOWS_VARIABLES = re.compile(r"[A-Za-z]*[eE][A-Za-z]*|-[A-Za-z]*E[A-Za-z]*|-(?=[A-Za-z]*[uxU])[A-Za-z]*e[A-Za-z]*")
"""`ps e`, `ps auxe`, and `ps -auxe`, which is taken for the same: with the variables of every process."""


def _ps(invocation: Invocation) -> bool:
    words = invocation.words
    asked = [word for before, word in pairwise(words) if before not in _PS_VALUED]
    shows = any(map(_PS_SHOWS_VARIABLES.fullmatch, asked)) or any("environ" in word for word in words)
    known = all(words[at - 1] in _PS_VALUED and at not in invocation.splits for at in invocation.unknown)
    return not shows and known


def _printf(invocation: Invocation) -> bool:
    return invocation.words[1:2] != ("-v",) and 1 not in invocation.unknown


def _rpm(invocation: Invocation) -> bool:
    return not invocation.unknown and _RPM_QUERY.fullmatch(" ".join(invocation.words[1:])) is not None


_RPM_QUERY = re.compile(r"-q[ailcdpR]*(?: [A-Za-z0-9][\w.+-]*)*")
_FIND_VALUE = re.compile(r"-[0-9]+[bcwkMG]?|-[ugoa]*[+=][rwxst]*")
"""Values of `-mtime`, `-size` and `-perm` that begin with a dash."""


def _find(invocation: Invocation) -> bool:
    plain = tuple("." if _FIND_VALUE.fullmatch(word) else word for word in invocation.words)
    return _FIND(replace(invocation, words=plain))


_FIND = reading(
    words="-L -P -H -E -a -amin -and -anewer -atime -cmin -cnewer -ctime -d -daystart -depth -empty -executable -false "
    "-follow -fstype -gid -group -ignore_readdir_race -ilname -iname -inum -ipath -iregex -iwholename -links -lname "
    "-ls -maxdepth -mindepth -mmin -mount -mtime -name -newer -newermt -nogroup -noleaf -not -nouser -o -or -path "
    "-perm -print -print0 -printf -prune -quit -readable -regex -regextype -samefile -size -true -type -uid -used "
    "-user -wholename -writable -xdev -xtype"
)
_FD = reading(
    "HIuspFat:Ld:e:E:c:g0iS:1qj:",
    "hidden no-ignore case-sensitive ignore-case glob regex fixed-strings absolute-path follow full-path "
    "print0 max-depth min-depth exact-depth type extension exclude size changed-within changed-before owner color "
    "max-results quiet unrestricted no-ignore-vcs",
)


def _subcommand(
    actions: str, options: ReadingOptions, *, alone: bool = False, second: str = "", letters: str = ""
) -> Callable[[Invocation], bool]:
    """Return a check for a program that only reads with these subcommands and options."""
    known, following = names(actions), names(second)
    options = replace(options, letters=options.letters + letters)

    def check(invocation: Invocation) -> bool:
        said = options.operands(invocation)
        if not said:
            return said is not None and alone
        if said[0].text not in known:
            return False
        return not following or len(said) < 2 or said[1].text in following

    return check


_CONTAINERS = _subcommand(
    "diff history images info inspect logs port ps version",
    reading("aqsn:f:t", "all quiet no-trunc format filter tail since until timestamps size last latest human digests"),
)
_PIP = _subcommand("freeze list show", reading("", "format outdated uptodate user local not-required all files"))
_BASE64 = reading("dDi:w:", "decode ignore-garbage wrap")
_QUERY_PACKAGES = reading("lLsSp", "list listfiles status search print-avail print-architecture get-selections")

_CHECKS: dict[str, Callable[[Invocation], bool]] = {
    "apt": _subcommand("list policy search show", reading("a", "all-versions installed names-only upgradable")),
    "arch": reading(max_operands=0),
    "base32": _BASE64,
    "base64": _BASE64,
    "bzcat": reading(),
    "crontab": lambda invocation: invocation.words[1:] == ("-l",),
    "date": _date,
    "diff": reading(
        "abBcC:dDeEiI:L:nNpqrstTuU:wW:x:X:yZ",
        "brief report-identical-files recursive unified context side-by-side width ignore-case ignore-all-space "
        "ignore-space-change ignore-blank-lines ignore-trailing-space ignore-tab-expansion new-file exclude "
        "exclude-from text strip-trailing-cr color label minimal suppress-common-lines show-c-function normal",
    ),
    "dmesg": reading("tTxukl:f:", "ctime kernel level facility notime userspace decode time-format"),
    "docker": _CONTAINERS,
    "dpkg": _QUERY_PACKAGES,
    "dpkg-query": _QUERY_PACKAGES,
    "fd": _FD,
    "fdfind": _FD,
    "file": reading("bhikLnNrs0F:", "brief mime mime-type mime-encoding dereference no-dereference keep-going raw"),
    "find": _find,
    "getconf": reading("a"),
    "git": git_only_reads,
    "hostname": reading("fsidAI", "fqdn short ip-address all-ip-addresses domain all-fqdns", max_operands=0),
    "iconv": reading("clsf:t:", "from-code to-code list silent"),
    "ip": _subcommand(
        "a addr address l link r route n neigh rule",
        reading(words="-4 -6 -br -brief -c -color -d -details -h -human -j -json -o -oneline -p -pretty -s -stats"),
        second="show list ls get",
    ),
    "journalctl": reading(
        "abefFklmNno:p:qrSTu:U:xgt:",
        "all boot catalog dmesg facility grep identifier lines list-boots merge no-full no-hostname no-pager no-tail "
        "output output-fields pager-end priority quiet reverse since system unit until user user-unit utc disk-usage",
    ),
    "kubectl": _subcommand(
        "api-resources cluster-info describe explain get logs top version",
        reading(
            "n:Ao:l:wLc:p",
            "namespace all-namespaces output selector watch show-labels field-selector sort-by no-headers tail since "
            "since-time timestamps container previous all-containers prefix client containers recursive show-kind",
        ),
    ),
    "lsof": reading("ai:Pnp:u:tc:d:lUN"),
    "lspci": reading("vknmtDs:d:"),
    "lsusb": reading("vts:d:"),
    "mount": reading("lt:", "show-labels types", max_operands=0),
    "pip": _PIP,
    "pip3": _PIP,
    "podman": _CONTAINERS,
    "printf": _printf,
    "ps": _ps,
    "rg": reading(
        "abce:E:FhHiIlLm:nNoPqr:sSuUvwxA:B:C:g:t:T:d:f:j:M:0.",
        "after-context before-context context count count-matches case-sensitive smart-case ignore-case column "
        "crlf context-separator encoding engine field-match-separator file files files-with-matches "
        "files-without-match fixed-strings follow glob glob-case-insensitive heading no-heading hidden iglob "
        "invert-match json line-number no-line-number line-regexp max-columns max-count max-depth max-filesize "
        "multiline multiline-dotall no-config no-filename no-ignore no-ignore-vcs no-messages null null-data "
        "only-matching passthru path-separator pcre2 pretty quiet regexp replace sort sortr stats text threads "
        "trim type type-list type-not unrestricted vimgrep with-filename word-regexp color colors binary",
    ),
    "rpm": _rpm,
    "sed": _sed,
    "sort": reading(
        "bcCdfghiMmnRrsuVzk:S:t:",
        "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort ignore-nonprinting month-sort "
        "human-numeric-sort numeric-sort random-sort reverse version-sort sort check merge stable unique "
        "zero-terminated key field-separator buffer-size parallel",
    ),
    "ss": reading("46aeHilmnoOpstuwx", "tcp udp raw unix all listening numeric processes summary extended info"),
    "strings": reading("afn:t:e:", "all bytes radix encoding print-file-name"),
    "sysctl": replace(reading("aAbenNr:", "all binary ignore names values pattern"), bad_operands="="),
    "systemctl": _subcommand(
        "cat get-default is-active is-enabled is-failed list-dependencies list-timers list-unit-files list-units show "
        "status",
        reading(
            "alqn:o:p:t:",
            "all full failed lines no-legend no-pager output plain property quiet recursive reverse state system type "
            "user value",
        ),
        alone=True,
    ),
    "tar": _tar,
    "tree": reading("adfilpsughDFqNQrtUvAxXJCnL:P:I:", "dirsfirst du noreport prune si gitignore filelimit filesfirst"),
    "uniq": reading(
        "cdDiuzf:s:w:",
        "count repeated all-repeated ignore-case unique zero-terminated skip-fields skip-chars check-chars group",
        max_operands=1,
    ),
    "xxd": reading(words="-a -b -C -c: -d -e -E -g: -h -i -l: -n: -o: -p -ps -s: -u -v", max_operands=1),
    "xzcat": reading(),
    "yq": reading("rceyj"),
    "zcat": reading(),
    "zipinfo": reading("12smlvhtzT"),
}
CHECKED_PROGRAMS = frozenset(_CHECKS)
"""Programs that only read with some of their options."""
