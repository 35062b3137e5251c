"""May this command run? Decided on the parsed command line, before anything starts.

This is comfort and audit: it keeps honest mistakes from happening and says why. What a command can reach is limited by
the sandbox, not here.
"""

import re
from dataclasses import dataclass
from itertools import pairwise

from agent_fabric.domain.commands.invocation import Invocation, UnparsableCommand
from agent_fabric.domain.commands.wrappers import started_by
from agent_fabric.domain.policy.verdicts import Ruling, Verdict


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


SHELL_BUILTINS = _names(
    ". : [ alias bg bind break builtin caller cd command compgen complete compopt continue declare dirs disown "
    "echo enable eval exec exit export false fc fg getopts hash help history jobs kill let local logout mapfile "
    "popd printf pushd pwd read readarray readonly return set shift shopt source suspend test times trap true "
    "type typeset ulimit umask unalias unset wait"
)
"""Part of bash itself: always allowed, whatever the allowlist says."""

DEFAULT_ALLOWED_COMMANDS = (
    # files and text
    _names(
        "awk base64 basename bc bzip2 cat chmod cksum cmp column comm cp csplit cut date dd df diff diff3 "
        "dirname du egrep expand expr fgrep file find fmt fold gawk getconf getopt grep groups gunzip gzip head "
        "hexdump hostname iconv id install join jq less link ln ls lsof m4 mawk md5sum mkdir mkfifo mktemp more "
        "mv nl nproc numfmt od paste patch pathchk pgrep pr printenv ps readlink realpath rev rg rm rmdir rsync "
        "sed seq sha1sum sha256sum sha512sum shuf sleep sort split stat strings sum sync tac tail tar tee touch "
        "tput tr tree truncate tsort tty uname unexpand uniq unlink unxz unzip uptime users uuidgen vdir wc "
        "which whoami xxd xz xzcat yes yq zcat zip zipinfo zstd"
    )
    # programs that start others; what they start is judged as well
    | _names("bash dash env ionice nice nohup npx setsid sh stdbuf time timeout uvx xargs")
    # languages, build and test tools
    | _names(
        "ar as bandit black bun cargo cc clang clang++ clang-format clang-tidy cmake coverage cpp ctest deno "
        "dotnet eslint flake8 g++ gcc gcov gdb git go gofmt gradle hatch isort java javac javap jest ld lua "
        "make meson mocha mvn mypy ninja nm node nox npm objdump pdm perl php pip pip3 pipenv pkg-config pnpm "
        "poetry pre-commit prettier pylint pyright pytest py.test python python2 python3 python3.11 python3.12 "
        "python3.13 python3.14 R Rscript rake ranlib readelf ruby ruff rustc rustfmt shellcheck sphinx-build "
        "sqlite3 strip tox tsc uv valgrind vitest yarn"
    )
)
"""Programs an agent may start unless the configuration says otherwise: nothing that talks to other machines."""

_REMOVERS = frozenset({"rm", "rmdir", "shred", "unlink"})
_SYSTEM_FOLDERS = frozenset({"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin"})
_PLAINLY = "Write the command plainly: every program by its literal name, one command after the other."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outward:
    """Commands whose effect leaves this machine."""

    programs: frozenset[str]
    actions: frozenset[str] = frozenset()
    """Its subcommands that do so; all of them if empty. May be several words."""
    valued: frozenset[str] = frozenset()
    """Options before the subcommand whose value is the next word."""
    effect: str

    def matches(self, words: tuple[str, ...], unknown: frozenset[int]) -> bool:
        if not self.actions:
            return True
        operands = _operands(words, self.valued)
        said = tuple(words[n] for n in operands)
        for action in self.actions:
            parts = tuple(action.split())
            if said[: len(parts)] == parts:
                return True
            undecided = next((k for k, n in enumerate(operands[: len(parts)]) if n in unknown), None)
            if undecided is not None and said[:undecided] == parts[:undecided]:
                return True
        return False


_PUBLISHES = "publishes a package"
_OUTWARD = (
    _Outward(
        programs=_names("git"),
        actions=frozenset(
            {"push", "send-email", "send-pack", "subtree push", "lfs push", "svn dcommit", "p4 submit", "imap-send"}
        ),
        valued=_names("-C -c --git-dir --work-tree --namespace --super-prefix --config-env --attr-source"),
        effect="sends commits to another place",
    ),
    _Outward(
        programs=_names("npm pnpm yarn bun"),
        actions=frozenset(
            {"publish", "unpublish", "deprecate", "dist-tag", "owner", "access", "npm publish", "npm tag", "deploy"}
        ),
        valued=_names("--prefix -C --dir -w --workspace --cwd -F --filter --registry --userconfig --tag --otp"),
        effect=_PUBLISHES,
    ),
    _Outward(
        programs=_names("cargo"),
        actions=frozenset({"publish", "yank", "owner", "release"}),
        valued=_names("-C -Z --config --color --manifest-path"),
        effect=_PUBLISHES,
    ),
    _Outward(
        programs=_names("uv poetry pdm hatch flit rye maturin"),
        actions=frozenset({"publish", "upload"}),
        valued=_names("--directory --project --config-file --color -C -P -p -e --env --cache-dir --data-dir --config"),
        effect=_PUBLISHES,
    ),
    _Outward(programs=_names("twine"), actions=frozenset({"upload", "register"}), effect=_PUBLISHES),
    _Outward(programs=_names("gem"), actions=frozenset({"push", "yank", "owner"}), effect=_PUBLISHES),
    _Outward(programs=_names("dotnet"), actions=frozenset({"nuget push", "nuget delete"}), effect=_PUBLISHES),
    _Outward(programs=_names("goreleaser semantic-release release-it lerna changeset"), effect=_PUBLISHES),
    _Outward(
        programs=_names("docker podman nerdctl buildah skopeo"),
        actions=frozenset({"push", "image push", "compose push", "manifest push", "stack deploy", "copy", "login"}),
        valued=_names("-H --host -c --context --config -l --log-level --connection --url"),
        effect="pushes an image",
    ),
    _Outward(
        programs=_names("kubectl oc"),
        actions=_names(
            "annotate apply autoscale cordon cp create debug delete drain edit exec expose label patch replace "
            "rollout run scale set taint uncordon"
        ),
        valued=_names("-n --namespace --context --cluster --user --kubeconfig -s --server --token --request-timeout"),
        effect="changes a cluster",
    ),
    _Outward(
        programs=_names("helm helmfile"),
        actions=frozenset(
            {"install", "upgrade", "uninstall", "delete", "rollback", "push", "apply", "sync", "destroy"}
        ),
        valued=_names("-n --namespace --kube-context --kubeconfig -f --file -e --environment"),
        effect="changes a cluster",
    ),
    _Outward(
        programs=_names("terraform tofu terragrunt pulumi cdk serverless sls"),
        actions=_names("apply bootstrap deploy destroy import refresh remove state taint untaint up update"),
        valued=_names("-C --cwd -s --stack --profile -a --app"),
        effect="changes infrastructure",
    ),
    _Outward(programs=_names("aws gcloud gsutil az doctl oci ibmcloud heroku"), effect="acts on a cloud account"),
    _Outward(programs=_names("fly flyctl vercel netlify wrangler firebase surge railway eb"), effect="deploys"),
    _Outward(
        programs=_names("ansible ansible-playbook ansible-pull salt puppet chef-client fab cap"), effect="deploys"
    ),
    _Outward(programs=_names("gh glab hub"), effect="acts on a code host"),
    _Outward(programs=_names("ssh scp sftp mosh rclone lftp ftp telnet"), effect="reaches another machine"),
    _Outward(programs=_names("mail mailx mutt sendmail msmtp"), effect="sends mail"),
)
"""Deploy, push and their like (AF-125): a person decides, whether or not the program is on the allowlist."""

_RUNNERS = {
    "make": "-C -f -I -j -l -o -W --directory --file --makefile",
    "gmake": "-C -f -I -j -l -o -W --directory --file --makefile",
    "just": "-f -d --justfile --working-directory",
    "task": "-d -t --dir --taskfile",
    "rake": "-f -C --rakefile",
    "invoke": "-c -r",
    "npm": "--prefix -w --workspace",
    "pnpm": "-C --dir -F --filter",
    "yarn": "--cwd",
    "bun": "--cwd",
    "mvn": "-f -P -pl --file",
    "gradle": "-p -b -P",
    "tox": "-c",
    "nox": "-f",
    "bash": "-o -O",
    "sh": "-o",
    "python": "-W -X",
}
"""Programs that run a target, a task or a script by its name, and their options whose value is the next word."""

_OUTWARD_NAMES = _names("deploy deployment publish push release rollout ship upload")
_HARMLESS_NAMES = _names("test tests check lint build dry mock fake")
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*")
_REMOTE = re.compile(r"[^/]*:|rsync://")
_GIT_HANDLERS = ("alias.", "core.sshcommand", "remote.", "url.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPolicy:
    """Rules for commands; the strictest one that matches any part of a command line wins."""

    version: str = "builtin-1"
    """Recorded with a run, so that it can be told which rules held."""
    allowed_commands: frozenset[str] = DEFAULT_ALLOWED_COMMANDS

    def judge(self, command: str) -> Ruling:
        """Decide about one command line; never raises."""
        try:
            invocations = started_by(command)
        except UnparsableCommand as error:
            return Ruling(Verdict.BLOCK, f"The command is not understood: {error}. {_PLAINLY}", "unparsable", command)
        asked: Ruling | None = None
        for invocation in invocations:
            ruling = self._judge_one(invocation)
            if ruling.verdict is Verdict.BLOCK:
                return ruling
            if ruling.verdict is Verdict.ASK:
                asked = asked or ruling
        return asked or Ruling(Verdict.ALLOW, "Every program in it is allowed.", "command_allowlist", command)

    def _judge_one(self, invocation: Invocation) -> Ruling:
        subject = " ".join(invocation.words)
        if invocation.dynamic:
            reason = f"Which program runs is only known at run time: {invocation.program}. {_PLAINLY}"
            return Ruling(Verdict.BLOCK, reason, "dynamic_program", subject)
        known_place, reason = _known_place(invocation.program)
        if not known_place:
            return Ruling(Verdict.BLOCK, reason, "program_path", subject)
        if invocation.name in _REMOVERS and (target := _outside(invocation)):
            reason = f"{subject!r} would remove {target!r}, which is not in the workspace. Use paths inside of it."
            return Ruling(Verdict.BLOCK, reason, "removes_outside", subject)
        if effect := _outward_effect(invocation):
            reason = f"{subject!r} {effect}: a person has to agree. Propose it instead of running it."
            return Ruling(Verdict.ASK, reason, "outward_effect", subject)
        name = invocation.name
        in_workspace = "/" in invocation.program and not invocation.program.startswith("/")
        if not invocation.words or in_workspace or name in SHELL_BUILTINS or name in self.allowed_commands:
            return Ruling(Verdict.ALLOW, f"{name!r} is allowed.", "command_allowlist", subject)
        reason = f"{name!r} is not an allowed command. Use an allowed one, or ask for it to be added to the allowlist."
        return Ruling(Verdict.BLOCK, reason, "command_allowlist", subject)


def _known_place(program: str) -> tuple[bool, str]:
    """Tell whether a program's folder is the workspace or the system's; if not, say why."""
    folder, slash, _ = program.rpartition("/")
    if not slash:
        return True, ""
    if program.startswith("/"):
        return folder in _SYSTEM_FOLDERS, f"{program!r} is in no folder of the system. Call the program by its name."
    return ".." not in program.split("/"), f"{program!r} leads out of the workspace. Use a path inside of it."


def _outside(invocation: Invocation) -> str:
    """Return the first target of a removal that is plainly not in the workspace, or nothing."""
    for word in invocation.words[1:]:
        if word.startswith(("/", "~", "$HOME", "${HOME")) and not word.startswith("/tmp/"):  # noqa: S108 - anybody's
            return word
        if ".." in word.split("/"):
            return word
    return ""


def _outward_effect(invocation: Invocation) -> str:
    """Say what the command does to the world outside, or nothing."""
    words, unknown = invocation.words, invocation.unknown
    if not words:
        return ""
    if _PYTHON.fullmatch(invocation.name) and "-m" in words[:-1]:
        # `python -m twine upload` is `twine upload`.
        at = words.index("-m") + 1
        words, unknown = words[at:], frozenset(n - at for n in unknown if n >= at)
    name = words[0].rpartition("/")[2]
    for row in _OUTWARD:
        if name in row.programs and row.matches(words, unknown):
            return row.effect
    if _is_outward_otherwise(name, words):
        return "reaches out of this machine"
    return "looks like a deployment" if _runs_outward_name(invocation, name, words) else ""


def _is_outward_otherwise(name: str, words: tuple[str, ...]) -> bool:
    """Where not the subcommand but an option or operand tells."""
    match name:
        case "git":
            return any(word.lower().startswith(_GIT_HANDLERS) for word in _values_of(words, "-c", "--config-env"))
        case "docker" | "podman":
            return "--push" in words
        case "rsync":
            return any(_REMOTE.match(word) for word in words[1:] if not word.startswith("-"))
        case _:
            return False


def _values_of(words: tuple[str, ...], *options: str) -> list[str]:
    return [value for option, value in pairwise(words) if option in options]


def _runs_outward_name(invocation: Invocation, name: str, words: tuple[str, ...]) -> bool:
    """`make deploy`, `npm run publish`, `./release.sh`: the name of what runs is all there is to go by."""
    if "/" in invocation.program and not invocation.program.startswith("/"):
        return _is_outward_name(name)
    name = "python" if _PYTHON.fullmatch(name) else name
    if name not in _RUNNERS or "-c" in words:
        return False
    run = [words[n] for n in _operands(words, _names(_RUNNERS[name])) if "=" not in words[n]]
    if name in {"npm", "pnpm", "bun", "yarn"}:
        run = run[1:2] if run[:1] in (["run"], ["run-script"]) else run[: name == "yarn"]
    elif name in {"bash", "sh", "python"}:
        run = run[:1]
    return any(_is_outward_name(target.rpartition("/")[2]) for target in run)


def _is_outward_name(name: str) -> bool:
    parts = re.split(r"[-_.:]", name.lower())
    if parts[0] in _HARMLESS_NAMES:
        return False
    return parts[0] in _OUTWARD_NAMES or bool({"deploy", "publish", "push"} & set(parts))


def _operands(words: tuple[str, ...], valued: frozenset[str]) -> list[int]:
    """Positions of the words that are neither options nor their values."""
    found: list[int] = []
    at = 1
    while at < len(words):
        if words[at] in valued:
            at += 1
        elif not words[at].startswith(("-", "+")):
            found.append(at)
        at += 1
    return found
