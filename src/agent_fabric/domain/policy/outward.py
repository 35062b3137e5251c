"""Deploy, push, publish and their like, told by what a command means (AF-125)."""

import re
from typing import NamedTuple

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.policy.command_lines.invocation import Invocation
from agent_fabric.domain.policy.command_lines.names import names
from agent_fabric.domain.policy.subcommands import PYTHON, VALUED, as_plain, operands


@dataclass(frozen=True, slots=True)
class _Outward:
    """Commands whose effect leaves this machine."""

    effect: str
    programs: str
    actions: str = ""
    """The subcommands that do so, with commas between; all of them if empty. May be several words."""

    def told_by(self, invocation: Invocation) -> tuple[str, ...]:
        """Return the words of a command that make it one of these; none: it is not."""
        if not self.actions:
            return (invocation.name,)
        words, unknown = invocation.words, invocation.unknown
        places = operands(words, VALUED.get(invocation.name, frozenset()))
        # What follows a word that may be several words, or none, may be anything.
        doubtful = (n for n in range(1, len(words)) if n in invocation.splits or (n in unknown and n in places))
        last = next(doubtful, len(words))
        known = [words[n] for n in places if n < last]
        for parts in map(str.split, self.actions.split(",")):
            if known[: len(parts)] == parts:
                return tuple(parts)
            if last < len(words) and len(known) < len(parts) and known == parts[: len(known)]:
                return tuple(parts)
        return ()


LOOKS_LIKE_DEPLOYMENT = "looks like a deployment"
"""By its name alone; what it does is not known."""
_PUBLISHES = "publishes a package"
_OUTWARD = (
    _Outward(
        "sends commits to another place",
        "git",
        "push, send-email, send-pack, subtree push, lfs push, svn dcommit, p4 submit, imap-send, http-push, daemon, "
        "instaweb",
    ),
    _Outward(
        _PUBLISHES,
        "npm pnpm yarn bun",
        "publish, unpublish, deprecate, dist-tag, owner, access, npm publish, npm tag, deploy",
    ),
    _Outward(_PUBLISHES, "cargo", "publish, yank, owner, release"),
    _Outward(_PUBLISHES, "uv poetry pdm hatch flit rye maturin", "publish, upload"),
    _Outward(_PUBLISHES, "twine", "upload, register"),
    _Outward(_PUBLISHES, "gem", "push, yank, owner"),
    _Outward(_PUBLISHES, "dotnet", "nuget push, nuget delete"),
    _Outward(_PUBLISHES, "goreleaser semantic-release release-it lerna changeset"),
    _Outward(
        "pushes an image",
        "docker podman nerdctl buildah skopeo",
        "push, image push, compose push, manifest push, stack deploy, copy, login",
    ),
    _Outward(
        "changes a cluster",
        "kubectl oc",
        "annotate, apply, autoscale, cordon, cp, create, debug, delete, drain, edit, exec, expose, label, patch, "
        "replace, rollout, run, scale, set, taint, uncordon",
    ),
    _Outward(
        "changes a cluster",
        "helm helmfile",
        "install, upgrade, uninstall, delete, rollback, push, apply, sync, destroy",
    ),
    _Outward(
        "changes infrastructure",
        "terraform tofu terragrunt pulumi cdk serverless sls",
        "apply, bootstrap, deploy, destroy, import, refresh, remove, state, taint, untaint, up, update",
    ),
    _Outward("acts on a cloud account", "aws gcloud gsutil az doctl oci ibmcloud heroku"),
    _Outward("deploys", "fly flyctl vercel netlify wrangler firebase surge railway eb"),
    _Outward("deploys", "ansible ansible-playbook ansible-pull salt puppet chef-client fab cap"),
    _Outward("acts on a code host", "gh glab hub"),
    _Outward("reaches another machine", "ssh scp sftp mosh rclone lftp ftp telnet"),
    _Outward("sends mail", "mail mailx mutt sendmail msmtp"),
)
"""Deploy, push and their like (AF-125): a person decides, whether or not the program is on the allowlist."""
_BY_PROGRAM = {program: row for row in _OUTWARD for program in row.programs.split()}

_RUNNERS = {
    name: names(options)
    for name, options in {
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
    }.items()
}
"""Programs that run a target, a task or a script by its name, and their options whose value is the next word."""

_SOCKETS = ("/dev/tcp/", "/dev/udp/")
"""Bash opens a connection where a redirect names one of these."""
_SENDERS = names(
    "aria2c axel curl dig drill finger ftp host http https httpie irssi nc ncat netcat nslookup openssl ping socat "
    "tftp traceroute wget whois xh"
)
"""Programs that can carry text to another machine."""

_OUTWARD_NAMES = names("deploy deployment publish push release rollout ship upload")
_HARMLESS_NAMES = names("test tests check lint build dry mock fake")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_REMOTE = re.compile(r"[^/]*:|rsync://")


class OutwardEffect(NamedTuple):
    """What a command does to the world outside."""

    effect: str
    """In words."""
    told_by: tuple[str, ...]
    """The words of the command that say so; a rule that allows it has to name them."""


def outward_effect(invocation: Invocation) -> str:
    """Say what a command does to the world outside, or nothing."""
    found = find_outward_effect(invocation)
    return found.effect if found else ""


def find_outward_effect(invocation: Invocation) -> OutwardEffect | None:
    """Return what a command does to the world outside, and which of its words tell; None: nothing."""
    if sockets := tuple(each.target for each in invocation.redirects if each.target.startswith(_SOCKETS)):
        return OutwardEffect("opens a connection", sockets)
    if not invocation.words:
        return None
    inner = as_plain(invocation)
    row = _BY_PROGRAM.get(inner.name)
    if row is not None and (told_by := row.told_by(inner)):
        return OutwardEffect(row.effect, told_by)
    if told_by := _outward_words(inner):
        return OutwardEffect("reaches out of this machine", told_by)
    told_by = _outward_names(inner)
    return OutwardEffect(LOOKS_LIKE_DEPLOYMENT, told_by) if told_by else None


def sends(invocation: Invocation) -> str:
    """Say what a command may send out, or nothing: more than deploys and pushes."""
    return outward_effect(invocation) or ("reaches another machine" if invocation.name in _SENDERS else "")


def _outward_words(invocation: Invocation) -> tuple[str, ...]:
    """Return options or operands that tell, where the subcommand does not."""
    words = invocation.words
    match invocation.name:
        case "git":
            # Transport helpers, which `git push` starts: `git remote-https`.
            first = operands(words, VALUED["git"])[:1]
            return tuple(words[n] for n in first if words[n].startswith("remote-"))
        case "docker" | "podman":
            return tuple(word for word in words if word.startswith("--push"))
        case "rsync":
            return tuple(word for word in words[1:] if not word.startswith("-") and _REMOTE.match(word))
        case _:
            return ()


def _outward_names(invocation: Invocation) -> tuple[str, ...]:
    """`make deploy`, `npm run publish`, `./release.sh`: the name of what runs is all there is to go by."""
    words, name = invocation.words, invocation.name
    if "/" in invocation.program and not invocation.program.startswith("/") and _is_outward_name(name):
        return (invocation.program,)
    name = "python" if PYTHON.fullmatch(name) else name
    if name not in _RUNNERS or "-c" in words:
        return ()
    run = [words[n] for n in operands(words, _RUNNERS[name]) if "=" not in words[n]]
    if name in {"npm", "pnpm", "bun", "yarn"}:
        run = run[1:2] if run[:1] in (["run"], ["run-script"]) else run[: name == "yarn"]
    elif name in {"bash", "sh", "python"}:
        run = run[:1]
    return tuple(target for target in run if _is_outward_name(target.rpartition("/")[2]))


def _is_outward_name(name: str) -> bool:
    parts = re.split(r"[-_.:]", _HUMP.sub("-", name).lower())
    if parts[0] in _HARMLESS_NAMES or parts[-1] == "local":
        return False
    return parts[0] in _OUTWARD_NAMES or bool({"deploy", "publish", "push"} & set(parts))
