"""Commands that only look: which programs, and with which options they stop doing so.

Where there is no wall around commands (level C), and on nodes, only these run without a question. When in doubt a
command is not on this list.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from agent_fabric.domain.commands.invocation import Invocation, Redirect, UnparsableCommand
from agent_fabric.domain.commands.names import names
from agent_fabric.domain.commands.variables import assigned
from agent_fabric.domain.commands.wrappers import wrapped
from agent_fabric.domain.policy.environment import poisoned
from agent_fabric.domain.policy.programs import DEFAULT_ALLOWED_COMMANDS
from agent_fabric.domain.policy.read_only_git import git_only_reads

_QUIET_TARGETS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})
_SECRETS = re.compile(
    r"(?:^|[/=~])(?:\.ssh|\.gnupg|\.aws|\.azure|\.kube|\.netrc|\.pgpass|\.docker/config\.json|\.config/gcloud|\.fabric"
    r"|\.git-credentials|\.npmrc|\.pypirc)(?:/|$)|^/etc/(?:shadow|gshadow|sudoers)|/proc/[^/]+/(?:environ|mem|maps)|^/dev/"
)
_HARMLESS_VARIABLE = re.compile(r"LC_[A-Z]+|LANG|LANGUAGE|TZ|COLUMNS|LINES|NO_COLOR|[a-z_][a-z0-9_]*")
_SHELL_LETTERS = frozenset("ceux")


def only_reads(invocation: Invocation) -> bool:
    """Tell whether a command surely changes nothing; what it starts in turn is judged by itself."""
    if poisoned(invocation) or not all(map(_is_quiet, invocation.redirects)):
        return False
    if not all(_HARMLESS_VARIABLE.fullmatch(name) for name, _ in assigned(invocation)):
        return False
    words = invocation.words
    if not words:
        return True
    if invocation.dynamic or ("/" in invocation.program and not invocation.program.startswith(("/usr/bin/", "/bin/"))):
        # Another folder may hold another program of the same name.
        return False
    if any(_SECRETS.search(word) for word in words[1:]):
        return False
    name = invocation.name
    if words[1:] in {("--version",), ("--help",)} and name in DEFAULT_ALLOWED_COMMANDS:
        return True
    if name in _STARTERS:
        return _only_starts(invocation)
    check = _CHECKS.get(name)
    return check is not None and check(invocation)


def _is_quiet(redirect: Redirect) -> bool:
    """Tell whether a redirect writes no file."""
    if redirect.operator.startswith("<<"):
        return True
    if redirect.unknown:
        return False
    if redirect.operator == "<":
        return redirect.target == "/dev/null" or not _SECRETS.search(redirect.target)
    if redirect.operator in {">&", "<&"}:
        return redirect.target.rstrip("-").isdigit() or redirect.target == "-"
    return redirect.target in _QUIET_TARGETS


# ── programs that start others ────────────────────────────────────────────────────────────────────────────────────────

_STARTERS = frozenset(
    {"bash", "builtin", "command", "dash", "env", "eval", "ionice", "nice", "sh", "stdbuf", "time"}
) | {
    "timeout",
    "xargs",
}


def _only_starts(invocation: Invocation) -> bool:
    """Tell whether a program does nothing itself but start what is judged apart."""
    words, name = invocation.words, invocation.name
    try:
        inner = wrapped(invocation)
    except UnparsableCommand:
        return False
    if name == "command" and words[1:2] in {("-v",), ("-V",)}:
        return True
    if not inner:
        return name == "eval"
    if name in {"bash", "sh", "dash"}:
        return len(words) > 2 and words[1].startswith("-") and set(words[1][1:]) <= _SHELL_LETTERS
    if name == "time":
        return not any(word.startswith(("-o", "--o", "-a", "--a")) for word in words[1:])
    return True


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unless:
    """A program that only reads unless one of these is said."""

    letters: str = ""
    """Short options that make it do more, also in a bundle."""
    long: tuple[str, ...] = ()
    """Long options that do; the beginning of one counts as well."""
    words: frozenset[str] = frozenset()
    """Whole words that do."""
    most: int | None = None
    """More operands than this, and it writes one of them."""
    valued: str = ""
    """Short options whose value may follow directly, so that what looks like a bundle is none."""

    def __call__(self, invocation: Invocation) -> bool:
        operands = 0
        for n, word in enumerate(invocation.words[1:], start=1):
            if n in invocation.unknown and not word.startswith("-") and self.most is None and not self._strict:
                continue
            if n in invocation.unknown and self._strict:
                # It may turn out to be one of the options.
                return False
            if word in self.words:
                return False
            if word.startswith("--") and word != "--":
                option = word.partition("=")[0]
                if any(known.startswith(option) for known in self.long):
                    return False
            elif word.startswith("-") and len(word) > 1:
                if self._bundle_does(word[1:]):
                    return False
            else:
                operands += 1
        return self.most is None or operands <= self.most

    @property
    def _strict(self) -> bool:
        return bool(self.letters or self.long or self.words or self.most is not None)

    def _bundle_does(self, bundle: str) -> bool:
        for letter in bundle:
            if letter in self.letters:
                return True
            if letter in self.valued:
                return False
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Only:
    """A program that only reads with these subcommands, and without these options."""

    actions: frozenset[str]
    alone: bool = False
    """Also without a subcommand."""
    never: tuple[str, ...] = ()
    """Options with which it does more, or what others see."""
    second: frozenset[str] | None = None
    """If a second word follows, it must be one of these."""

    def __call__(self, invocation: Invocation) -> bool:
        words = invocation.words
        if any(word.startswith(self.never) for word in words[1:]) if self.never else False:
            return False
        said = [(n, word) for n, word in enumerate(words[1:], start=1) if not word.startswith("-")]
        if not said:
            return self.alone and not invocation.unknown
        first = said[0][0]
        if any(n <= first for n in invocation.unknown) or said[0][1] not in self.actions:
            return False
        if self.second is None or len(said) < 2:
            return True
        return said[1][0] not in invocation.unknown and said[1][1] in self.second


def _sed(invocation: Invocation) -> bool:
    words = invocation.words[1:]
    if invocation.unknown or any(word.startswith("-") and word not in {"-n", "-E", "-r", "-e", "-u"} for word in words):
        return False
    scripts = [word for before, word in zip(("", *words), words, strict=False) if before == "-e"]
    if not scripts:
        scripts = [word for word in words if not word.startswith("-")][:1]
    return bool(scripts) and all(_SED_SCRIPT.fullmatch(script) for script in scripts)


_SED_SCRIPT = re.compile(
    r"(?:\d+|\$)?(?:,\+?(?:\d+|\$))?(?:[pdq=]|s([/|#,])(?:(?!\1)[^\\\n]|\\[^\n])*\1(?:(?!\1)[^\\\n]|\\[^\n])*\1[gpiI0-9]*)"
)


def _tar(invocation: Invocation) -> bool:
    letters = invocation.words[1].lstrip("-") if len(invocation.words) > 1 else ""
    others = invocation.words[2:]
    return (
        "t" in letters
        and set(letters) <= set("tvfzjJ")
        and not invocation.unknown
        and not any(word.startswith("-") for word in others)
    )


def _date(invocation: Invocation) -> bool:
    options = _Unless(letters="s", long=("--set",), valued="dfrI")
    said = [
        word
        for before, word in zip(invocation.words, invocation.words[1:], strict=False)
        if not word.startswith("-") and before not in {"-d", "-f", "-r", "--date", "--file", "--reference"}
    ]
    return options(invocation) and all(word.startswith("+") for word in said)


def _printf(invocation: Invocation) -> bool:
    return invocation.words[1:2] != ("-v",) and 1 not in invocation.unknown


_ANY = _Unless()

_CHECKS: dict[str, Callable[[Invocation], bool]] = {
    **dict.fromkeys(
        names(
            # builtins
            ": [ break cd continue dirs echo exit false getopts popd pushd pwd read return set shift test true type "
            "times umask unset wait "
            # text and files
            "arch basename bzcat cat cksum cmp column comm cut df diff diff3 dirname du egrep expand expr fgrep "
            "fmt fold free getconf grep groups head hexdump id iconv join jq ls lsblk lscpu lsof lspci lsusb md5sum "
            "nl nproc numfmt od paste pathchk pgrep pidof pr printenv ps readlink realpath rev seq sha1sum sha256sum "
            "sha512sum "
            "sleep ss stat strings sum tac tail tr tsort tty uname unexpand uptime users vdir vmstat w wc which who "
            "whoami xzcat zcat zipinfo"
        ),
        _ANY,
    ),
    "iconv": _Unless(letters="o", long=("--output",), valued="ft"),
    "printf": _printf,
    "hostname": _Unless(letters="Fb", long=("--file", "--boot"), most=0),
    "file": _Unless(letters="CzZ", long=("--compile", "--uncompress", "--uncompress-noreport"), valued="mFP"),
    "sort": _Unless(letters="oT", long=("--output", "--compress-program", "--temporary-directory"), valued="ktS"),
    "uniq": _Unless(most=1, valued="fsw"),
    "xxd": _Unless(letters="r", most=1, valued="cglos"),
    "tree": _Unless(letters="oR", long=("--output",), valued="LPI"),
    "find": _Unless(
        words=names("-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls -files0-from"),
    ),
    "fd": _Unless(letters="xX", long=("--exec", "--exec-batch"), valued="dteEScgj"),
    "fdfind": _Unless(letters="xX", long=("--exec", "--exec-batch"), valued="dteEScgj"),
    "rg": _Unless(letters="z", words=names("--pre --search-zip --hostname-bin"), long=("--pre=", "--hostname-bin=")),
    "base64": _ANY,
    "date": _date,
    "sed": _sed,
    "tar": _tar,
    "yq": _Unless(letters="is", long=("--inplace", "--split-exp", "--in-place", "--yaml-fix-merge-anchor-to-spec")),
    "git": git_only_reads,
    # looking after machines
    "systemctl": _Only(
        actions=names(
            "cat get-default is-active is-enabled is-failed list-dependencies list-timers list-unit-files list-units "
            "show status"
        ),
        alone=True,
        never=("-H", "-M", "--host", "--machine", "--ho", "--mach"),
    ),
    "journalctl": _Unless(
        letters="M",
        long=(
            "--cursor-file",
            "--flush",
            "--machine",
            "--relinquish-var",
            "--rotate",
            "--setup-keys",
            "--smart-relinquish-var",
            "--sync",
            "--update-catalog",
            "--vacuum-files",
            "--vacuum-size",
            "--vacuum-time",
        ),
        valued="nuptgoSUbD",
    ),
    "ip": _Only(
        actions=names("a addr address l link r route n neigh rule"),
        never=("-b", "-f", "-n"),
        second=names("show list ls get"),
    ),
    "dmesg": _Unless(
        letters="CcDEn", long=("--clear", "--read-clear", "--console-on", "--console-off", "--console-level")
    ),
    "mount": _Unless(
        most=0, letters="abBMRoOLUnrwT", long=("--all", "--bind", "--move", "--options", "--rbind", "--fstab")
    ),
    "sysctl": _Unless(letters="wpf", long=("--write", "--load", "--system"), most=1),
    "crontab": lambda invocation: invocation.words[1:] == ("-l",),
    "dpkg": _Unless(
        most=None, letters="iarPbBxXeRU", long=("--install", "--unpack", "--configure", "--remove", "--purge")
    ),
    "rpm": lambda invocation: invocation.words[1:2] != () and invocation.words[1].startswith(("-q", "--query")),
    "apt": _Only(actions=names("list policy search show"), never=("-o", "-c", "--opt", "--conf")),
    "docker": _Only(
        actions=names("diff history images info inspect logs port ps version"), never=("-H", "--host", "-c")
    ),
    "podman": _Only(
        actions=names("diff history images info inspect logs port ps version"), never=("-r", "--url", "-c")
    ),
    "kubectl": _Only(
        actions=names("api-resources cluster-info describe explain get logs top version"),
        never=("--kubeconfig", "-s", "--server", "--token", "--user"),
    ),
    "pip": _Only(actions=names("freeze list show"), never=("--log", "--python", "--path", "-")),
    "pip3": _Only(actions=names("freeze list show"), never=("--log", "--python", "--path", "-")),
}
