"""The only way any tool ever runs: resolve, check, ask the policy, ask a person, execute, cut to size, tell."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.file_origins import FileOrigins
from agent_fabric.application.ports.outside import OutsideCommands
from agent_fabric.application.ports.packs import SpecialistPack, StillRunning
from agent_fabric.application.ports.runs import Prepared
from agent_fabric.application.ports.secrets import SecretSource
from agent_fabric.application.ports.tools import ToolExecutor
from agent_fabric.application.time_limit import TimeLimit
from agent_fabric.application.tools.call_site import CallSite
from agent_fabric.application.tools.fit_output import fit, plain, words_in
from agent_fabric.application.tools.proposed_call import (
    STAYS_INSIDE,
    Agreement,
    acts_at,
    as_shown,
    command_that_leaves,
    is_from_outside,
    note_files,
    origin_of,
    private_source,
    propose,
    run_outside,
    seek_agreement,
)
from agent_fabric.domain.approvals.answers import Decision, Question
from agent_fabric.domain.approvals.events import ApprovalRequested
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.events import Body, SecurityViolated, ToolCalled, ToolErred, ToolReturned
from agent_fabric.domain.fleet.chosen_node import named_call
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.models.messages import ToolCallRequest
from agent_fabric.domain.policy.calls import Policy, ProposedCall, argument_hash
from agent_fabric.domain.policy.labels import WORKSPACE_FILES
from agent_fabric.domain.policy.outside_plan import CannotRunOutside, NothingToPush
from agent_fabric.domain.policy.programs import BOXES
from agent_fabric.domain.policy.verdicts import Ruling, Verdict
from agent_fabric.domain.secrets.references import KnownSecrets, defuse, secrets_in
from agent_fabric.domain.secrets.shapes import hide_shapes, placeholder_in
from agent_fabric.domain.tools.allowlists import NO_ALLOWLISTS, Allowlists
from agent_fabric.domain.tools.json_schema import problems_with
from agent_fabric.domain.tools.specs import BadArguments, Effect, ToolContext, ToolResult, ToolSpec, arguments_from

if TYPE_CHECKING:  # what reads command lines takes its time
    from agent_fabric.domain.policy.outside import OutsideCall

SANDBOX_VIOLATION = "sandbox_violation"
GRACE_S = 5.0
"""A tool that watches its own time may take this much longer to clean up and say so; then it is ended."""
MAX_KEPT_CHARS = 10_000_000
"""Of an output that is too long for the model, this much is kept for people."""
QUICKLY_READ_CHARS = 4_000
"""So much is looked through for signs of instructions in a millisecond."""
_LEAVE_IT = "change only other parts of the file, or read the value from the environment"
_GOES_ON = "and goes on: it is a plain function, which nothing can end. It was waited for"
_LOOK_FIRST = "what it does from now on is not seen, so look at what it has done before you call it again"
CHANGED_BY_PERSON = "A person changed the arguments of this call before it ran; these were used"


@dataclass(frozen=True, slots=True)
class InvokeTool:
    """Use case: let a tool run, if it may."""

    policy: Policy
    clock: Clock
    max_output_chars: int
    sandbox_level: str = "C"
    """Of the box that tools run in, unless their pack has another one."""
    approval_timeout_s: float = 24 * 3600.0
    """How long a person has to answer."""
    injection_signals: Callable[[str], tuple[str, ...]] = lambda _: ()
    """Finds signs that a text tries to give instructions; a signal for the record, never the defence."""
    allowlists: Allowlists = NO_ALLOWLISTS
    """What the policy allows by name, for tools to know."""
    secrets: SecretSource | None = None
    """Where the values of secrets come from that calls name; None: there are none."""
    known_secrets: KnownSecrets | None = None
    """Learns each value that is used, so that no later event holds it."""
    commands_reach: str = ""
    """The hosts that commands in the box may reach; empty: none."""
    hosts_reached: Callable[[RunId], str] = lambda _: ""
    """Names the hosts that commands of a run have reached through its proxy."""
    files: FileOrigins | None = None
    """Remembers whose text the files of project folders are."""
    limits_of: Callable[[str, tuple[Allowlists, ...]], tuple[Allowlists, ...]] = lambda _, own: own
    """Returns every allowlist that holds for an agent with allowlists of its own."""
    altered_programs: Callable[[str], frozenset[str]] = lambda _: frozenset()
    """Returns the programs that files of a workspace can make do something else than their name says."""
    outside: OutsideCommands | None = None
    """Runs commands outside the box that a person has agreed to; None: nothing runs there."""
    outside_allowed: bool = True
    """Whether any run may leave its box. If not, what would leave it is refused, and no person is asked."""

    def __call__(
        self,
        call: ToolCallRequest,
        *,
        site: CallSite,
        tools: Mapping[str, ToolSpec],
        pack: SpecialistPack,
        attempt: int,
        context: ToolContext,
        limit_chars: int | None = None,
    ) -> Prepared:
        """Make a call ready; one that may not run is answered at once, one that needs a person's agreement asks for it.

        `tools` are those that the run was given at its start, `pack` is what executes them today, `limit_chars` is how
        much of the output the model can take.
        """
        spec = tools.get(call.tool) or _hidden_tool(pack, call.tool)
        if spec is None:
            known = ", ".join(tools)
            return _refuse(call, {}, "UnknownTool", f"there is no tool {call.tool!r}; the tools are: {known}")
        for left in site.narrowed:
            if call.tool not in left.tools:
                problem = f"the skill {left.skill!r} allows only {', '.join(sorted(left.tools))}"
                return _refuse(call, {}, "NotAllowedBySkill", problem)
        try:
            args = arguments_from(call.arguments)
            if site.node:
                args = named_call(spec, args, site.node)
        except BadArguments as problem:
            return _refuse(call, {"unparsed": call.arguments}, "BadArguments", f"{problem}; send a JSON object")
        if site.asked is not None and site.asked.expires_at <= self.clock.now():
            site = site._replace(decided=None)  # agreed to in time, and about to run too late
        agreed = None if site.asked is None else _agreed_to(site)
        edited = agreed is not None and agreed != args
        args = args if agreed is None else agreed
        problems = problems_with(args, spec.parameters)
        if problems:
            return _refuse(call, args, "BadArguments", f"{'; '.join(problems)}")
        if spec.effect is Effect.CHANGES_WORKSPACE and (held := placeholder_in(call.arguments)):
            return _refuse(call, args, "BadArguments", f"{held} stands for a secret that you cannot see; {_LEAVE_IT}")
        sandbox = pack.sandbox_level or self.sandbox_level  # a container pack brings its own box
        reach = self.commands_reach if context.network_allowed else ""
        judged = self._propose(spec, args, site, sandbox, reach)
        ruling = self.policy.judge(judged)
        if ruling.verdict is Verdict.BLOCK:
            return _block(call, args, ruling)
        try:
            site = site if self.outside_allowed else site._replace(outside_allowed=False)
            asks = ruling.verdict is Verdict.ASK and self.outside is not None and not reach
            leaving = command_that_leaves(judged, site) if asks else None
        except CannotRunOutside as problem:
            return _refuse(call, args, "CannotRunOutside", str(problem), proposal=problem.proposal)
        site = as_shown(site) if leaving is not None and site.outside_allowed else site
        agreement: Agreement | None = None
        if ruling.verdict is Verdict.ASK or site.decided is not None:
            sought = self._seek(call, args, site, ruling, sandbox, Question.MAY_IT_RUN, judged.destination)
            if isinstance(sought, Agreement):
                agreement = sought
            elif leaving is not None:
                return Prepared(effect=partial(self._ask_to_leave, sought, call, leaving, site, ruling))
            elif ruling.verdict is Verdict.ASK:
                return Prepared((sought,))

        context = self._with_limits(context, site)
        terms = _Terms(
            limit_chars or self.max_output_chars,
            edited,
            sandbox in BOXES,
            judged,
            site,
            None if self.outside is None or leaving is None else run_outside(self.outside, leaving, site, context),
        )

        async def effect() -> Sequence[Body]:
            return await self._execute(call, spec, args, pack, context, terms)

        called = ToolCalled(
            tool=call.tool,
            args=args,
            call_id=call.call_id,
            attempt=attempt,
            rule=ruling.rule,
            args_hash=argument_hash(args),
            approval_id=agreement.approval_id if agreement else "",
            approved_by=agreement.by if agreement else "",
            outside=site.outside,
            leaves=acts_at(judged, site.outside, args, boxed=sandbox in BOXES),
        )
        return Prepared((called,), effect)

    async def _ask_to_leave(
        self, asking: ApprovalRequested, call: ToolCallRequest, leaving: "OutsideCall", site: CallSite, ruling: Ruling
    ) -> Sequence[Body]:
        """Work out what would run outside the box, and ask a person about exactly that."""
        assert self.outside is not None
        try:
            planned = await self.outside.plan(leaving, site.run_id, site.target)
        except NothingToPush as nothing:
            return _not_run(call, asking.args, ruling, str(nothing))
        except CannotRunOutside as problem:
            return _refuse(call, asking.args, "CannotRunOutside", str(problem), proposal=problem.proposal).bodies
        except Exception as problem:  # noqa: BLE001 - whatever the machine does, the model is told
            return _refuse(call, asking.args, type(problem).__name__, f"it could not be prepared: {problem}").bodies
        if planned is not None and not site.outside_allowed:
            return _refuse(call, asking.args, "CannotRunOutside", STAYS_INSIDE, proposal=" ".join(leaving.words)).bodies
        site = site._replace(asked=None, decided=None, outside=planned)
        asked = self._seek(call, asking.args, site, ruling, asking.sandbox, Question.MAY_IT_RUN, asking.destination)
        assert isinstance(asked, ApprovalRequested)  # no one has agreed to this yet
        return (replace(asked, alike=""),)

    def _propose(
        self, spec: ToolSpec, args: Mapping[str, Any], site: CallSite, sandbox: str, commands_reach: str
    ) -> ProposedCall:
        call = propose(spec, args, site, sandbox, commands_reach=commands_reach)
        # In a box it does not matter what a program is: the box is the boundary.
        is_contained = sandbox in BOXES and not site.plans  # a plan changes nothing in the box either
        return call if is_contained or not call.command else replace(call, altered=self.altered_programs(site.target))

    def _with_limits(self, context: ToolContext, site: CallSite) -> ToolContext:
        """Return the context with the user's scopes and the allowlists that hold for the call."""
        limits = self.limits_of(site.agent, site.limits)
        if not limits and not site.scopes and self.allowlists == NO_ALLOWLISTS:
            return context
        lists = (*reversed(limits), self.allowlists)
        return replace(
            context,
            user_scopes=site.scopes,
            command_allowlist=next((each.commands for each in lists if each.commands), ()),
            path_allowlist=next((each.paths for each in lists if each.paths), ()),
            domain_allowlist=next((each.domains for each in lists if each.domains), ()),
            limits=limits,
        )

    def _fetched_by_commands(self, site: CallSite) -> str:
        """Name the hosts that commands of a run have reached: what they brought may be in outputs and in files."""
        reached = self.hosts_reached(site.run_id)
        if reached and self.files is not None and WORKSPACE_FILES in site.flow.private:
            self.files.may_write(site.target, site.run_id, site.root or site.run_id)
        return f"hosts that commands reached: {reached}" if reached else ""

    async def remember_secrets(self, names: frozenset[str]) -> None:
        """Keep the values of secrets out of the log from now on, though no call uses them yet; some may be missing.

        For a run that goes on in another process: what was made with a secret then may show it now.
        """
        if self.secrets is None or self.known_secrets is None:
            return
        for name in names:
            value = await self.secrets.get(name)
            if value:
                self.known_secrets.learn({name: value})

    def ask_what_happened(self, call: ToolCallRequest, *, site: CallSite) -> ApprovalRequested:
        """Return the question about a call that left the box and was under way when the program was stopped."""
        ruling = Ruling(
            Verdict.ASK,
            "The program was stopped during this call, so it may have happened. Run it again, or count it as done?",
            "in_doubt",
            call.tool,
        )
        outside = site.asked.outside if site.asked is not None else None
        site = site._replace(asked=None, decided=None, grants=(), outside=outside)
        sought = self._seek(call, site.began_with, site, ruling, self.sandbox_level, Question.DID_IT_HAPPEN)
        assert isinstance(sought, ApprovalRequested)  # no one has agreed to anything yet
        return sought

    def _seek(
        self,
        call: ToolCallRequest,
        args: Mapping[str, Any],
        site: CallSite,
        ruling: Ruling,
        sandbox: str,
        question: Question,
        goes_to: str = "",
    ) -> Agreement | ApprovalRequested:
        sought = seek_agreement(
            site,
            call,
            args,
            ruling,
            policy_version=self.policy.version,
            sandbox=sandbox,
            expires_at=self.clock.now() + self.approval_timeout_s,
            question=question,
        )
        goes_to = goes_to if site.outside is None else site.outside.goes_to or goes_to
        return replace(sought, destination=goes_to) if isinstance(sought, ApprovalRequested) else sought

    async def _execute(
        self,
        call: ToolCallRequest,
        spec: ToolSpec,
        args: Mapping[str, Any],
        pack: SpecialistPack,
        context: ToolContext,
        terms: "_Terms",
    ) -> Sequence[Body]:
        limit_chars, edited, boxed, judged, site, run_outside = terms
        started, secrets, noted = self.clock.monotonic(), site.secrets, ""
        shown = _Shown()

        def exposes() -> str:
            return noted or (self._fetched_by_commands(site) if spec.command_argument else "")

        def error_event(error_type: str, message: str, *, vouched_for: bool = False) -> ToolErred:
            return ToolErred(
                tool=call.tool,
                error_type=error_type,
                error_message=hide_shapes(message),
                call_id=call.call_id,
                changed=spec.effect is Effect.CHANGES_WORKSPACE,
                origin="" if vouched_for else origin_of(spec, judged, exposes()),
                private=private_source(spec, judged, boxed=boxed),
                duration_s=self.clock.monotonic() - started,
            )

        try:
            if self.files is not None:
                noted = await note_files(self.files, spec, judged, site)
            given, context = (args, context) if not secrets else await self._reveal(spec, args, context, secrets, shown)
            with TimeLimit(context.timeout_s + GRACE_S):
                if run_outside is not None:
                    result = await run_outside()
                else:
                    result = await _executor_of(pack).execute_tool(call.tool, given, context)
            if secrets:
                result = shown.result(result)
            if not result.success:
                said = result.error[:limit_chars] or "it gave no reason"
                return (error_event("ToolFailed", said, vouched_for=result.vouched_for),)
            if edited:
                result = replace(result, output={CHANGED_BY_PERSON: dict(args), **result.output})
            took_s = self.clock.monotonic() - started
            if not result.exposes and (noted or spec.command_argument) and (exposed := exposes()):
                result = replace(result, exposes=exposed)
            return (await self._return_event(call, spec, result, took_s, terms),)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return (error_event("CancelledError", "the tool cancelled itself"),)
        except TimeoutError as problem:
            waited_s = self.clock.monotonic() - started
            goes_on = isinstance(problem.__cause__, StillRunning)
            message = (
                f"{call.tool} did not end by itself {_GOES_ON if goes_on else 'and was ended after'} {waited_s:.1f} s"
            )
            return (error_event("TimeoutError", message + (f"; {_LOOK_FIRST}" if goes_on else "")),)
        except PermissionError as problem:
            text = shown.text(str(problem)) or "permission denied"
            return (error_event("PermissionError", text), _violation(call, text))
        except KeyError as problem:
            if problem.args == (call.tool,):
                return (error_event("UnknownTool", f"the tool {call.tool!r} is no longer there"),)
            return (error_event("KeyError", shown.text(str(problem))),)
        except Exception as problem:  # noqa: BLE001 - a tool is third-party code: what it raises is told to the model
            return (error_event(type(problem).__name__, shown.text(str(problem))[:limit_chars] or "no message"),)

    async def _reveal(
        self, spec: ToolSpec, args: Mapping[str, Any], context: ToolContext, allowed: frozenset[str], shown: "_Shown"
    ) -> tuple[Mapping[str, Any], ToolContext]:
        """Return a call with the values of its secrets, which `shown` keeps to itself from now on.

        Raises:
            SecretMissing: one of them cannot be used.
            ValueError: one of them stands where it cannot be used.
        """
        # Few calls have any, so the others do not pay for what handles them.
        from agent_fabric.application.tools.reveal import SecretMissing, reveal, values_of  # noqa: PLC0415

        known = KnownSecrets() if self.known_secrets is None else self.known_secrets
        shown.hides = known
        names = secrets_in(args) & allowed
        if not names:
            return args, context
        if self.secrets is None:
            raise SecretMissing(f"there are no secrets here, so none is named {', '.join(map(repr, sorted(names)))}")
        values = await values_of(names, self.secrets)
        known.learn(values)
        revealed = reveal(args, spec, context, values)
        return revealed.args, revealed.context

    async def _signs_in(self, text: str) -> tuple[str, ...]:
        """Look through a text; a long one on a thread, since it would block the event loop."""
        if len(text) <= QUICKLY_READ_CHARS:
            return self.injection_signals(text)
        return await asyncio.to_thread(self.injection_signals, text)

    async def _return_event(
        self, call: ToolCallRequest, spec: ToolSpec, result: ToolResult, duration_s: float, terms: "_Terms"
    ) -> ToolReturned:
        judged = terms.judged
        output, text = plain(hide_shapes(result.output))
        shown, whole = fit(output, text, terms.limit_chars)
        origin = "" if result.vouched_for else origin_of(spec, judged, result.exposes, result.origin)
        signals = set[str]()
        for read in (words_in(output), result.unread):
            if read:
                signals.update(await self._signs_in(read))
        return ToolReturned(
            tool=call.tool,
            result=shown,
            call_id=call.call_id,
            whole=whole[:MAX_KEPT_CHARS],
            changed=result.changed,
            proved=result.proved,
            proof_kind=result.proof_kind,
            tests=result.tests,
            sources=result.sources,
            wrote=hide_shapes(result.wrote) if result.wrote else (),
            cites=hide_shapes(result.cites) if result.cites else {},
            trust=spec.trust,
            origin=hide_shapes(origin) if origin else "",
            from_outside=is_from_outside(spec),
            private=result.private or private_source(spec, judged, boxed=terms.boxed),
            signals=tuple(sorted(signals)),
            duration_s=duration_s,
        )


class _Terms(NamedTuple):
    """How a call is carried out and told."""

    limit_chars: int
    edited: bool
    """A person has changed its arguments."""
    boxed: bool
    judged: ProposedCall
    site: CallSite
    run_outside: Callable[[], Coroutine[Any, Any, ToolResult]] | None
    """Runs it outside the box; None: it runs in the box."""


@dataclass(slots=True)
class _Shown:
    """What is recorded of a call's outcome: all of it, but no secrets and nothing that names one."""

    hides: KnownSecrets | None = None
    """Set for steps of workflows that use secrets."""

    def text(self, text: str) -> str:
        return text if self.hides is None else str(defuse(self.hides.hide(text)))

    def result(self, result: ToolResult) -> ToolResult:
        if self.hides is None:
            return result
        result = self.hides.hide(replace(result, output=plain(result.output)[0]))
        return replace(result, output=defuse(result.output), error=self.text(result.error))


def _agreed_to(site: CallSite) -> dict[str, Any] | None:
    """Return the arguments that a person has agreed to: as they changed them, else as they were asked."""
    asked, decided = site.asked, site.decided
    if asked is None or decided is None or decided.decision is not Decision.APPROVE:
        return None
    return dict(asked.args if decided.args is None else decided.args)


def _hidden_tool(pack: SpecialistPack, name: str) -> ToolSpec | None:
    """Find a tool that is not offered but answers all the same, such as a web tool while the network is off."""
    return next((spec for spec in pack.hidden_tools if spec.name == name), None)


def _executor_of(pack: SpecialistPack) -> ToolExecutor:
    if not _executes(type(pack)):
        raise TypeError("its pack cannot execute tools")
    return cast("ToolExecutor", pack)


@lru_cache
def _executes(kind: type) -> bool:
    # Asked for every call, and a runtime protocol takes its time.
    return issubclass(kind, ToolExecutor)


def _refuse(
    call: ToolCallRequest, args: Mapping[str, Any], error_type: str, message: str, *, proposal: str = ""
) -> Prepared:
    called = ToolCalled(tool=call.tool, args=args, call_id=call.call_id)
    erred = ToolErred(
        tool=call.tool, error_type=error_type, error_message=message, call_id=call.call_id, proposal=proposal
    )
    return Prepared((called, erred))


def _not_run(call: ToolCallRequest, args: Mapping[str, Any], ruling: Ruling, why: str) -> Sequence[Body]:
    """Answer a call that had nothing to do. Without an exit code: it is no proof that anything succeeded."""
    called = ToolCalled(
        tool=call.tool, args=args, call_id=call.call_id, rule=ruling.rule, args_hash=argument_hash(args)
    )
    return called, ToolReturned(tool=call.tool, result={"not_run": why}, call_id=call.call_id)


def _block(call: ToolCallRequest, args: Mapping[str, Any], ruling: Ruling) -> Prepared:
    called = ToolCalled(
        tool=call.tool, args=args, call_id=call.call_id, rule=ruling.rule, args_hash=argument_hash(args)
    )
    erred = ToolErred(
        tool=call.tool,
        error_type="PermissionError",
        error_message=ruling.reason,
        call_id=call.call_id,
        rule=ruling.rule,
    )
    return Prepared((called, erred, _violation(call, ruling.reason)))


def _violation(call: ToolCallRequest, message: str) -> SecurityViolated:
    return SecurityViolated(event_type=SANDBOX_VIOLATION, tool=call.tool, error_message=message, call_id=call.call_id)
