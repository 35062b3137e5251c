"""What holds where there is no rule: the profiles.

Two kinds of built-in ruling. A *floor* holds whatever the rules say. A *default* holds only where no rule is about the
part.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from agent_fabric.domain.policy.allowlists import refuse_domain, refuse_path
from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.command_lines.invocation import Invocation
from agent_fabric.domain.policy.command_tools import hosts_of, use_of
from agent_fabric.domain.policy.dangers import catastrophe, hidden_program, odd_place
from agent_fabric.domain.policy.environment import poisoned_variable
from agent_fabric.domain.policy.globs import any_name, host_of, plain_path
from agent_fabric.domain.policy.labels import OutgoingLimits
from agent_fabric.domain.policy.outgoing import rule_command, rule_outgoing
from agent_fabric.domain.policy.outward import outward_effect, sends
from agent_fabric.domain.policy.parts import Part
from agent_fabric.domain.policy.places import UNKNOWN, is_quiet_device, join_path, plain_place
from agent_fabric.domain.policy.profiles import Profile
from agent_fabric.domain.policy.programs import BECOMES_SOMEBODY_ELSE, BOXES, SHELL_BUILTINS
from agent_fabric.domain.policy.protected import is_obeyed_later
from agent_fabric.domain.policy.read_only import only_reads
from agent_fabric.domain.policy.removals import Removal, names_catastrophe
from agent_fabric.domain.policy.verdicts import OUTSIDE_ROOTS, Ruling, Verdict
from agent_fabric.domain.tools.allowlists import Allowlists
from agent_fabric.domain.tools.specs import LOOKS_UP, Effect

_PLAINLY = "Write the command plainly: every program by its literal name, one command after the other."
_AGREE = "a person has to agree"


def floors(
    profile: Profile, call: ProposedCall, part: Part, outgoing: OutgoingLimits, trusted_domains: tuple[str, ...]
) -> Iterator[Ruling]:
    """Yield what holds whatever the rules say."""
    subject = part.subject
    if part.problem:
        if names_catastrophe(call.command):
            reason = f"{subject!r} is never run: it names a removal of everything, and is not understood. {_PLAINLY}"
            yield Ruling(Verdict.BLOCK, reason, "catastrophe", subject)
        yield Ruling(Verdict.ASK, f"The command is not understood: {part.problem}. {_PLAINLY}", "unparsable", subject)
        return
    invocation = part.invocation
    if invocation is None:
        yield from _git_floors(call, part)
        yield from rule_outgoing(call, part, outgoing, trusted_domains)
        return
    if reason := catastrophe(invocation):
        yield Ruling(Verdict.BLOCK, f"{subject!r} is never run: {reason}.", "catastrophe", subject)
    yield from _removal_floors(profile, call, part)
    if part.runs_download:
        reason = f"{subject!r} runs what the line downloads: {_AGREE}. Save it, read it, then run it."
        yield Ruling(Verdict.ASK, reason, "downloaded_code", subject)
    if invocation.dynamic:
        reason = f"Which program runs is only known at run time: {invocation.program}. {_PLAINLY}"
        yield Ruling(Verdict.ASK, reason, "dynamic_program", subject)
        return
    if hidden := hidden_program(invocation):
        yield Ruling(Verdict.ASK, f"In {subject!r} {hidden}: {_AGREE}.", "hidden_program", subject)
    if profile is not Profile.OPEN and (variable := poisoned_variable(invocation) or part.sets):
        reason = f"{subject!r} sets {variable}, which can make other programs run something: {_AGREE}."
        yield Ruling(Verdict.ASK, reason, "poisoned_environment", subject)
    if profile is Profile.WORKSPACE:
        yield from _workspace_floors(call, invocation, part)
    yield from rule_command(call, part, only_reads=only_reads(invocation), effect=sends(invocation))
    if call.sends_to:
        yield from rule_outgoing(call, part, outgoing, trusted_domains)


def unboxed_rulings(call: ProposedCall, part: Part) -> Iterator[Ruling]:
    """Yield what holds where there is no wall around commands, whatever the rules say: only reading needs no question.

    Tools that only touch files below the workspace have a wall of their own. Machines of the fleet have none at all,
    and are judged by a profile that asks by itself: there a rule that allows was written for exactly that.
    """
    if (part.invocation is None and not part.problem) or call.node or call.sandbox in BOXES:
        return
    if call.by_itself:
        reason = (
            f"There is no wall around commands here (level {call.sandbox}), and nobody watches a run that was started"
        )
        yield Ruling(Verdict.BLOCK, f"{reason} by itself: it has no shell.", "unattended_shell", part.subject)
        return
    if part.invocation is None:
        return  # not understood, which asks by itself
    no_wall = f"There is no wall around commands here (level {call.sandbox}), and"
    if not _reads(call, part, part.invocation):
        reason = f"{no_wall} {part.subject!r} may do more than read: {_AGREE}."
        yield Ruling(Verdict.ASK, reason, "no_sandbox", part.subject, part.alike)
    elif doubt := _doubtful_reading(call, part):
        yield Ruling(Verdict.ASK, f"{no_wall} {doubt.reason}", doubt.rule, part.subject)


def refuse_changes(call: ProposedCall, part: Part) -> Iterator[Ruling]:
    """Yield what holds for a run that only makes a plan, whatever the rules say: it reads."""
    if part.invocation is None:
        reads = not part.problem and (call.effect is Effect.READS or call.tool in LOOKS_UP)
    else:
        reads = _reads(call, part, part.invocation) and not part.removes
    if not reads:
        reason = f"This run only makes a plan: {part.subject!r} may do more than read. Put it into the plan."
        yield Ruling(Verdict.BLOCK, reason, "plan", part.subject)


def outside_roots(call: ProposedCall, part: Part, roots: Sequence[str]) -> Iterator[Ruling]:
    """Yield what holds for a command that names something outside of the folders that it may use."""
    if not roots or part.invocation is None:
        return
    named = [(each.place, each.shown) for each in part.reads] + [(each.place, each.shown) for each in part.removes]
    named += [("~", "a redirect")] if "~" in part.written else []
    for place, shown in named:
        absolute = plain_place(join_path(call.folder or "~", place))
        if not is_quiet_device(absolute) and not any(_lies_in(absolute, root) for root in roots):
            reason = f"{part.subject!r} names {shown!r}, which may lie outside of the roots of this machine: {_AGREE}."
            yield Ruling(
                Verdict.ASK, f"{reason} Use absolute paths below {', '.join(roots)}.", OUTSIDE_ROOTS, part.subject
            )
            return


def _lies_in(place: str, root: str) -> bool:
    top = root.rstrip("/")
    return UNKNOWN not in place and (place == top or place.startswith(f"{top}/"))


def _removal_floors(profile: Profile, call: ProposedCall, part: Part) -> Iterator[Ruling]:
    """Yield what holds for what a command removes; undo brings back neither the system nor a repository."""
    for removal in part.removes:
        place, shown, subject = call.from_workspace(removal.place), removal.shown, part.subject
        climbs = bool(call.workspace) and place.startswith("..")
        absolute = removal._replace(place=join_path(call.workspace, place)) if climbs else removal
        if place == removal.place and absolute.vital:
            reason = f"{subject!r} is never run: it would {removal.verb} everything in {shown!r}."
            yield Ruling(Verdict.BLOCK, reason, "catastrophe", subject)
        elif profile is Profile.WORKSPACE and removal.outside and place.startswith(("/", "~", "..")):
            if not place.startswith("/tmp/"):  # noqa: S108 - shared by all users
                reason = f"{subject!r} would remove {shown!r}, which is not in the workspace. Use paths inside of it."
                yield Ruling(Verdict.BLOCK, reason, "removes_outside", subject)
        elif removal.tree and removal.verb == "remove" and _holds_workspace(call, absolute.place if climbs else place):
            reason = f"{subject!r} would remove {shown!r}, a folder that the workspace lies in: {_AGREE}."
            yield Ruling(Verdict.ASK, reason, "removes_parent", subject)
        elif removal.unclear:
            unknown = f"What {subject!r} would {removal.verb} is only known at run time"
            reason = f"{unknown}: {_AGREE}. Name it, or begin it with a folder."
            yield Ruling(Verdict.ASK, reason, "unclear_removal", subject)
        elif profile is not Profile.OPEN and removal._replace(place=place).takes_git:
            reason = (
                f"{subject!r} would {removal.verb} the repository's own folder, which undo cannot restore: {_AGREE}."
            )
            yield Ruling(Verdict.ASK, reason, "not_undoable", subject)


def _holds_workspace(call: ProposedCall, place: str) -> bool:
    """Tell whether the workspace lies in a folder, or, seen from outside, is it."""
    folder = re.sub(r"(?:/[.?*!\[\]]*\*)+$", "", place) or "/"
    if folder.startswith(".."):
        return not folder.strip("./")  # where the workspace is, is not known
    root = call.workspace.rstrip("/")
    return bool(root) and folder.startswith("/") and (f"{root}/".startswith(f"{folder.rstrip('/')}/"))


def _git_floors(call: ProposedCall, part: Part) -> Iterator[Ruling]:
    """Yield what holds for files that a tool writes into a repository's own folder."""
    for path in call.paths if call.effect is not Effect.READS else ():
        removal = Removal(plain_path(call.from_workspace(path)), path, verb="overwrite")
        if removal.place != "." and removal.takes_git:
            reason = f"{part.subject!r} writes into the repository's own folder, which undo cannot restore: {_AGREE}."
            yield Ruling(Verdict.ASK, reason, "not_undoable", part.subject)


def _workspace_floors(call: ProposedCall, invocation: Invocation, part: Part) -> Iterator[Ruling]:
    if reason := odd_place(call.from_workspace(invocation.program)):
        yield Ruling(Verdict.BLOCK, reason, "program_path", part.subject)
    if invocation.name in BECOMES_SOMEBODY_ELSE:
        reason = f"{part.subject!r} would act as another user. Do without it."
        yield Ruling(Verdict.BLOCK, reason, "other_user", part.subject)


def default(profile: Profile, call: ProposedCall, part: Part, allowed_commands: frozenset[str]) -> Ruling:
    """Return what holds if no rule is about the part."""
    if part.invocation is None:
        return _call_default(profile, call, part)
    if profile is Profile.OPEN:
        nothing = Ruling(Verdict.ALLOW, "Nothing forbids it.", "open_profile", part.subject, part.alike)
        return _outward_default(part, part.invocation) or nothing
    if profile is Profile.NODE:
        return _node_default(call, part, part.invocation)
    return _workspace_default(call, part.invocation, part, allowed_commands)


def _workspace_default(
    call: ProposedCall, invocation: Invocation, part: Part, allowed_commands: frozenset[str]
) -> Ruling:
    subject, name = part.subject, invocation.name
    for removal in part.removes:
        if removal.verb in {"remove", "overwrite"} and is_obeyed_later(call.from_workspace(removal.place)):
            return _obeyed_later(part, removal.shown)
    if asks := _outward_default(part, invocation):
        return asks
    program = call.from_workspace(invocation.program)
    elsewhere = any(call.from_workspace(folder) == folder for folder in part.left_for)
    in_workspace = "/" in invocation.program and not program.startswith("/") and not elsewhere
    if not invocation.words or in_workspace or name in SHELL_BUILTINS or name in allowed_commands:
        return Ruling(Verdict.ALLOW, f"{name!r} is allowed.", "command_allowlist", subject, part.alike)
    reason = f"{name!r} is not on the list of allowed commands: {_AGREE}. Use an allowed one if there is one."
    return Ruling(Verdict.ASK, reason, "unknown_program", subject, part.alike)


def _outward_default(part: Part, invocation: Invocation) -> Ruling | None:
    """Return that push, deploy and their like ask; None: it is none of them."""
    if not (effect := outward_effect(invocation)):
        return None
    reason = f"{part.subject!r} {effect}: {_AGREE}."
    return Ruling(Verdict.ASK, reason, "outward_effect", part.subject, part.alike)


def _obeyed_later(part: Part, path: str) -> Ruling:
    reason = f"{part.subject!r} changes {path!r}, which takes effect later, outside of the box: {_AGREE}."
    return Ruling(Verdict.ASK, reason, "obeyed_later", part.subject)


def _reads(call: ProposedCall, part: Part, invocation: Invocation) -> bool:
    """Tell whether a command only reads here; in another folder, or on another machine, git has other settings."""
    return only_reads(invocation, call.altered | {"git"} if part.moved or call.node else call.altered)


def _doubtful_reading(call: ProposedCall, part: Part) -> Ruling | None:
    """Return why what a command reads without a wall around it has to be asked about; None: it need not.

    A machine of the fleet has no workspace: there only keys, and what is known at run time only, are in doubt.
    """
    begins = call.folder or "."
    for reading in (each._replace(place=join_path(begins, each.place)) for each in part.reads):
        place, subject = call.from_workspace(reading.place), part.subject
        if not reading.content or reading.public:
            continue
        if reading.unclear:
            reason = f"what {subject!r} reads is only known at run time: {_AGREE}. Name the file."
            return Ruling(Verdict.ASK, reason, "unclear_reading", subject)
        if reading.secret:
            reason = f"{subject!r} reads {reading.shown!r}, which may hold keys or passwords: {_AGREE}."
            return Ruling(Verdict.ASK, reason, "reads_secret", subject)
        if not call.node and place.startswith(("/", "~", "..")):
            reason = f"{subject!r} reads {reading.shown!r}, which is not in the workspace: {_AGREE}."
            return Ruling(Verdict.ASK, reason, "reads_outside", subject)
    return None


def _node_default(call: ProposedCall, part: Part, invocation: Invocation) -> Ruling:
    if _reads(call, part, invocation):
        if call.node and (doubt := _doubtful_reading(call, part)):
            return replace(doubt, reason=doubt.reason[0].upper() + doubt.reason[1:])
        return Ruling(Verdict.ALLOW, f"{part.subject!r} only reads.", "read_only", part.subject, part.alike)
    reason = f"{part.subject!r} may change something: {_AGREE}."
    return Ruling(Verdict.ASK, reason, "not_read_only", part.subject, part.alike)


def _call_default(profile: Profile, call: ProposedCall, part: Part) -> Ruling:
    reads = call.effect is Effect.READS or (bool(call.urls) and call.effect is Effect.IDEMPOTENT)
    if profile is Profile.NODE and not reads:
        reason = f"{call.tool!r} may change something: {_AGREE}."
        return Ruling(Verdict.ASK, reason, "not_read_only", part.subject, part.alike)
    if profile is Profile.WORKSPACE and call.effect is not Effect.READS:
        for path in call.paths:
            if is_obeyed_later(call.from_workspace(path)):
                return _obeyed_later(part, path)
    # A tool server is configured so that its tools are used; an address is judged by what it carries.
    expected = (bool(call.urls) and not call.sends) or call.tool.startswith("mcp__")
    if profile is Profile.WORKSPACE and call.effect is Effect.LEAVES_SANDBOX and not expected:
        reason = f"What {call.tool!r} does leaves the box: {_AGREE}."
        return Ruling(Verdict.ASK, reason, "leaves_sandbox", part.subject, part.alike)
    return Ruling(Verdict.ALLOW, f"{call.tool!r} is allowed.", "tools", part.subject, part.alike)


# Holds a call against the allowlists of the configuration and of its agent.
COMMANDS, PATHS, DOMAINS = "allowlist:commands", "allowlist:paths", "allowlist:domains"
_LISTED_BUT_UNKNOWN = "is only known at run time, and the {kind} allowlist of {owner} limits it: a person has to agree."


def refuse_unlisted(call: ProposedCall, part: Part, limits: Sequence[Allowlists]) -> Iterator[Ruling]:
    """Yield a ruling for everything in a part of a call that is not on an allowlist."""
    invocation = part.invocation
    if not limits:
        return
    if part.problem:
        yield from _refuse(COMMANDS, part, (_refuse_unread(each, part) for each in limits if each.commands))
        return
    if invocation is None:
        yield from _refuse(PATHS, part, (refuse_path(limits, call.from_workspace(path)) for path in call.paths))
        yield from _refuse(DOMAINS, part, (refuse_domain(limits, host_of(url)) for url in call.urls))
        return
    yield from _refuse(COMMANDS, part, (_refuse_command(each, invocation) for each in limits if each.commands))
    if any(each.paths for each in limits):
        use = use_of(invocation)
        yield from _refuse(PATHS, part, (_refuse_operand(limits, call, part, path) for path in use.paths))
        if use.hidden:
            yield _ask(PATHS, part, "path", limits)
    if any(each.domains for each in limits):
        hosts, hidden = hosts_of(invocation)
        yield from _refuse(DOMAINS, part, (refuse_domain(limits, host) for host in hosts))
        if hidden:
            yield _ask(DOMAINS, part, "domain", limits)


def _refuse(rule: str, part: Part, reasons: Iterable[str]) -> Iterator[Ruling]:
    for reason in reasons:
        if reason:
            yield Ruling(Verdict.BLOCK, reason, rule, part.subject)


def _refuse_command(limit: Allowlists, invocation: Invocation) -> str:
    name = invocation.name
    if not name or invocation.dynamic or name in SHELL_BUILTINS or any_name(limit.commands, name):
        return ""  # a program that is only known at run time asks anyway
    listed = ", ".join(limit.commands[:10])
    return f"{name!r} is not on the command allowlist of {limit.owner}: {listed}. Use only what is on it."


def _refuse_unread(limit: Allowlists, part: Part) -> str:
    reason = f"The command is not understood ({part.problem}), so it is not on the command allowlist of {limit.owner}."
    return f"{reason} Write it plainly."


def _refuse_operand(limits: Sequence[Allowlists], call: ProposedCall, part: Part, path: str) -> str:
    reason = refuse_path(limits, call.from_workspace(path))
    if reason and part.moved:
        return f"{reason} Name paths from the top of the workspace, without `cd`."
    return reason


def _ask(rule: str, part: Part, kind: str, limits: Sequence[Allowlists]) -> Ruling:
    owner = next(each.owner for each in limits if (each.paths if kind == "path" else each.domains))
    reason = f"A {kind} in {part.subject!r} {_LISTED_BUT_UNKNOWN.format(kind=kind, owner=owner)}"
    return Ruling(Verdict.ASK, reason, rule, part.subject)
