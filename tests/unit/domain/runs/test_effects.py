"""A model that always claims success: what its result has to tell all the same, from events alone."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from agent_fabric.domain.approvals.answers import Decision, Question
from agent_fabric.domain.approvals.events import ApprovalDecided, ApprovalRequested
from agent_fabric.domain.events import (
    Body,
    Event,
    PackStarted,
    RunCancelled,
    RunCompleted,
    RunCreated,
    SpecialistsRecruited,
    ToolCalled,
    ToolErred,
    ToolReturned,
)
from agent_fabric.domain.ids import CallId, LaneId, RunId, SpecialistId
from agent_fabric.domain.packs.contents import FinishSpec
from agent_fabric.domain.policy.outside_plan import Outside
from agent_fabric.domain.runs.effects import (
    MAX_LISTED,
    Effects,
    NotedCall,
    Outcome,
    join_effects,
    mark_answer,
    marked_line,
)
from agent_fabric.domain.runs.evolve import evolve, fold
from agent_fabric.domain.runs.ledger import MAX_KEPT
from agent_fabric.domain.runs.state import RunState, result_of
from agent_fabric.domain.runs.task import Budget, Profile, RunResult
from agent_fabric.domain.runs.task_point import is_told
from agent_fabric.domain.runs.verification import ClaimStatus, claims_about_effects
from agent_fabric.domain.tools.specs import Effect, ToolSpec
from agent_fabric.testing.workbench import SETTINGS

WHO = SpecialistId("engineering")
SHELL = ToolSpec(
    name="shell", description="", parameters={}, effect=Effect.CHANGES_WORKSPACE, command_argument="command"
)
READ = ToolSpec(name="read_file", description="", parameters={}, effect=Effect.READS, path_arguments=("path",))
WRITE = ToolSpec(
    name="write_file", description="", parameters={}, effect=Effect.CHANGES_WORKSPACE, path_arguments=("path",)
)
HTTP = ToolSpec(
    name="http_request",
    description="",
    parameters={},
    effect=Effect.LEAVES_SANDBOX,
    url_argument="url",
    method_argument="method",
)
NODE = ToolSpec(name="node_shell_exec", description="", parameters={}, effect=Effect.LEAVES_SANDBOX)
ISSUE = ToolSpec(name="mcp__forge__create_issue", description="", parameters={}, effect=Effect.LEAVES_SANDBOX)
MESSAGE = ToolSpec(
    name="send_message", description="", parameters={}, effect=Effect.IDEMPOTENT, sends_to="a person on a channel"
)
TOOLS = (SHELL, READ, WRITE, HTTP, NODE, ISSUE, MESSAGE)
PUSH = "git push origin main"
PUSHED = Outside(
    words=("/usr/bin/git", "push", "origin", "main"), account="me@laptop", goes_to="https://forge.example/a"
)
SAID = "All done. I have pushed main and deployed the site."

Call = Sequence[Body]
_numbers = count()


def _id() -> CallId:
    return CallId(f"call_{next(_numbers)}")


def asked(tool: str, args: Mapping[str, Any], decision: Decision, reason: str = "", **more: Any) -> Call:
    call = _id()
    question = ApprovalRequested(
        approval_id=f"a-{call}",
        call_id=call,
        tool=tool,
        args=args,
        question=more.get("question", Question.MAY_IT_RUN),
        reason="it leaves",
        rule="outward_effect",
        subject="s",
        alike="",
        agent="",
        target="/w",
        sandbox="A",
        untrusted=(),
        policy_version="p",
        binding="b",
        args_hash="h",
        expires_at=1e12,
        outside=more.get("outside"),
    )
    answer = ApprovalDecided(approval_id=question.approval_id, decision=decision, by="ada", reason=reason)
    kind = "ApprovalExpired" if decision is Decision.EXPIRED else "Denied"
    erred = ToolErred(tool=tool, error_type=kind, error_message="A person has refused this call", call_id=call)
    return question, answer, ToolCalled(tool=tool, args=args, call_id=call), erred


def denied(tool: str, args: Mapping[str, Any], reason: str = "", **more: Any) -> Call:
    return asked(tool, args, Decision.DENY, reason, **more)


def ran(tool: str, args: Mapping[str, Any], result: Mapping[str, Any] | None = None, **more: Any) -> Call:
    call = _id()
    called = {name: more.pop(name) for name in ("outside", "leaves", "approved_by") if name in more}
    return (
        ToolCalled(tool=tool, args=args, call_id=call, **called),
        ToolReturned(tool=tool, result=result or {}, call_id=call, **more),
    )


def shell(command: str, code: int = 0, stdout: str = "", **more: Any) -> Call:
    return ran("shell", {"command": command}, {"exit_code": code, "stdout": stdout, "stderr": ""}, **more)


def erred(tool: str, args: Mapping[str, Any], kind: str, message: str, **more: Any) -> Call:
    call = _id()
    return (
        ToolCalled(tool=tool, args=args, call_id=call),
        ToolErred(tool=tool, error_type=kind, error_message=message, call_id=call, **more),
    )


def state_after(*calls: Call, prompt: str = "Do it") -> RunState:
    created = RunCreated(
        prompt=prompt,
        specialist_id=WHO,
        model_key="quality",
        network_allowed=True,
        profile=Profile.TASK,
        budget=Budget.of(Profile.TASK),
        workspace="/w",
        sandbox="A",
        policy_version="p",
        fabric_version="v",
    )
    recruited = SpecialistsRecruited(
        specialist_id=WHO,
        specialist_ids=(WHO,),
        required_capabilities=(),
        routing_method="explicit",
        is_task_force=False,
    )
    started = PackStarted(
        specialist_id=WHO,
        pack_index=0,
        system_prompt="p",
        opening="o",
        tools=TOOLS,
        finish=FinishSpec(parameters={}),
        model=SETTINGS,
    )
    bodies: list[tuple[LaneId | None, Body]] = [(None, created), (None, recruited), (None, started)]
    bodies += [(LaneId(WHO), body) for call in calls for body in call]
    return fold(RunId("r"), (Event(seq, 0.0, lane, "", body) for seq, (lane, body) in enumerate(bodies)))


def ended(state: RunState) -> RunResult:
    body = RunCompleted(
        run_id=state.run_id, specialist_ids=(WHO,), task_force_mode="sequential", payload={"summary": SAID}
    )
    evolve(state, Event(state.next_seq, 0.0, None, "", body))
    return result_of(state)


def result_after(*calls: Call, prompt: str = "Do it") -> RunResult:
    return ended(state_after(*calls, prompt=prompt))


DEPLOY = {"url": "https://deploy.example/hook", "method": "POST", "json": {}}

NOT_DONE: list[tuple[str, list[Call], str, str, Outcome]] = [
    (
        "a push that a person denies",
        [denied("shell", {"command": PUSH}, "not today")],
        "Push main",
        "denied by ada",
        Outcome.REFUSED,
    ),
    (
        "a push that nobody answers",
        [asked("shell", {"command": PUSH}, Decision.EXPIRED)],
        "x",
        "denied by nobody",
        Outcome.REFUSED,
    ),
    ("a push that fails", [shell(PUSH, 1, outside=PUSHED)], "Push main", "failed: /usr/bin/git push", Outcome.REFUSED),
    ("a push in the box that fails", [shell(PUSH, 128)], "Tidy up", "failed: git push", Outcome.REFUSED),
    (
        "a deployment that is denied",
        [denied("http_request", DEPLOY)],
        "x",
        "denied by ada: http_request POST https",
        Outcome.REFUSED,
    ),
    (
        "a deployment by script that fails",
        [shell("./deploy.sh prod", 1)],
        "Deploy it",
        "failed: ./deploy.sh",
        Outcome.REFUSED,
    ),
    (
        "a command that fails and is never done again",
        [shell("make build", 2)],
        "Tidy up",
        "failed: make build",
        Outcome.INCOMPLETE,
    ),
    (
        "a command of the task that fails",
        [shell("make build", 2)],
        "Run make build",
        "failed: make build",
        Outcome.REFUSED,
    ),
    (
        "a call in doubt",
        [erred("shell", {"command": "make install"}, "InDoubt", "stopped")],
        "x",
        "in doubt: make install",
        Outcome.INCOMPLETE,
    ),
    (
        "a node that refuses",
        [
            erred(
                "node_shell_exec",
                {"node": "web-1", "command": "systemctl restart nginx"},
                "ToolFailed",
                "blocked by the policy of web-1",
            )
        ],
        "Restart nginx on web-1",
        "failed: web-1: systemctl",
        Outcome.REFUSED,
    ),
    (
        "a node command that fails",
        [ran("node_shell_exec", {"node": "web-1", "command": "systemctl restart nginx"}, {"exit_code": 5})],
        "x",
        "exit code 5",
        Outcome.REFUSED,
    ),
    (
        "a node command in doubt",
        [ran("node_shell_exec", {"node": "web-1", "command": "reboot"}, {"status": "in_doubt", "error": "no answer"})],
        "x",
        "in doubt: web-1: reboot",
        Outcome.INCOMPLETE,
    ),
    (
        "a command that a rule blocks",
        [erred("shell", {"command": "rm -rf build"}, "PermissionError", "no", rule="dangerous")],
        "Delete build",
        "denied by policy: rm -rf build",
        Outcome.REFUSED,
    ),
    (
        "a file outside of the box",
        [erred("write_file", {"path": "/etc/hosts"}, "PermissionError", "outside")],
        "x",
        "denied by sandbox",
        Outcome.INCOMPLETE,
    ),
    (
        "a command that takes too long",
        [ran("shell", {"command": "make all"}, {"exit_code": None, "timed_out": True})],
        "x",
        "took too long",
        Outcome.INCOMPLETE,
    ),
    (
        "a request without an answer",
        [erred("http_request", DEPLOY, "TimeoutError", "no answer")],
        "x",
        "it may have happened",
        Outcome.INCOMPLETE,
    ),
    (
        "an MCP tool with an error",
        [ran("mcp__forge__create_issue", {"title": "t"}, {"is_error": True, "text": "no such repo"})],
        "Create an issue",
        "no such repo",
        Outcome.REFUSED,
    ),
    (
        "a message that is not delivered",
        [erred("send_message", {"to": "bob", "text": "hi"}, "ToolFailed", "not paired")],
        "x",
        "failed: send_message bob",
        Outcome.REFUSED,
    ),
    (
        "a request that the server refuses",
        [erred("http_request", DEPLOY, "HttpError", "answered 500")],
        "x",
        "answered 500",
        Outcome.REFUSED,
    ),
    (
        "a tool that is not there",
        [erred("deploy_site", {}, "UnknownTool", "there is no tool")],
        "Deploy the site",
        "failed: deploy_site",
        Outcome.REFUSED,
    ),
    (
        "a push that the next line hides",
        [shell(f"{PUSH} || true", leaves="another place")],
        "x",
        "in doubt: git push",
        Outcome.INCOMPLETE,
    ),
    (
        "another branch",
        [shell(PUSH, 1), shell("git push origin dev", leaves="forge")],
        "Push main",
        "failed: git push origin main",
        Outcome.REFUSED,
    ),
    ("tests that fail at the end", [shell("pytest"), shell("pytest", 1)], "x", "failed: pytest", Outcome.INCOMPLETE),
]


@pytest.mark.parametrize(
    ("calls", "prompt", "line", "outcome"), [row[1:] for row in NOT_DONE], ids=[row[0] for row in NOT_DONE]
)
def test_a_claimed_success_stands_below_what_contradicts_it(
    calls: list[Call], prompt: str, line: str, outcome: Outcome
) -> None:
    result = result_after(*calls, prompt=prompt)
    assert result.outcome is outcome
    shown = mark_answer(SAID, result.effects, result.outcome)
    assert line in shown[: shown.index(SAID)]
    assert shown.splitlines()[-1].startswith("(Not ")
    assert marked_line(SAID, result.effects, result.outcome).startswith("Not ")
    state = state_after(*calls, prompt=prompt)
    checked = list(claims_about_effects(state, SAID))
    assert any(claim.standing is ClaimStatus.FAILS for claim in checked)


CLEAN: list[tuple[str, list[Call]]] = [
    ("denied, then allowed", [denied("shell", {"command": PUSH}), shell(PUSH, outside=PUSHED)]),
    ("failed, then the same", [shell("make build", 2), shell("make build")]),
    ("failed, then with what was missing", [shell("git push", 128), shell("git push -u origin main")]),
    (
        "failed in a line, then one by one",
        [shell("make build && make test", 2), shell("make build"), shell("make test")],
    ),
    ("a test, then all of them", [shell("python -m pytest tests/test_a.py", 1), shell("pytest")]),
    ("a test, then its folder", [shell("pytest tests/test_a.py::test_x", 1), shell("python3 -m pytest tests")]),
    ("a script that is corrected", [shell("python main.py", 1), shell("python3 main.py --verbose")]),
    ("code that is tried", [shell("python3 -c 'import x'", 1), shell("python3 -c 'print(1)'")]),
    ("looking for what is not there", [shell("grep -r foo .", 1), shell("ls missing; cat nothing", 1)]),
    ("reading what is not there", [erred("read_file", {"path": "x"}, "FileNotFoundError", "no")]),
    ("a page that is not there", [erred("http_request", {"url": "https://a.example"}, "HttpError", "404")]),
    (
        "an edit that does not fit, then one that does",
        [erred("write_file", {"path": "./a.py"}, "ValueError", "no"), shell("sed -i s/a/b/ a.py", wrote=("a.py",))],
    ),
    (
        "a malformed call, then a sound one",
        [
            erred("mcp__forge__create_issue", {}, "BadArguments", "title is missing"),
            ran("mcp__forge__create_issue", {"title": "t"}),
        ],
    ),
    ("a tool under another name", [erred("bash", {"command": "make"}, "UnknownTool", "no such tool"), shell("make")]),
    (
        "a push that was there already",
        [denied("shell", {"command": PUSH}), ran("shell", {"command": PUSH}, {"not_run": "all is there"})],
    ),
]


@pytest.mark.parametrize("calls", [row[1] for row in CLEAN], ids=[row[0] for row in CLEAN])
def test_what_was_done_in_the_end_is_not_held_against_a_result(calls: list[Call]) -> None:
    result = result_after(*calls)
    assert (result.effects.open, result.outcome) == ((), Outcome.DONE)
    assert mark_answer(SAID, result.effects, result.outcome) == SAID


def test_some_of_the_tests_are_not_all_of_them_and_another_target_is_another_thing() -> None:
    for failed, later in [("pytest", "pytest tests/a.py"), ("make", "make clean"), ("npm test", "npm test one")]:
        assert [call.what for call in result_after(shell(failed, 1), shell(later)).effects.failed] == [failed]


def test_what_left_and_what_was_committed_is_told() -> None:
    result = result_after(
        shell("git add -A && git commit -m 'Add x'", stdout="[main 1a2b3c4] Add x\n 1 file changed"),
        shell(PUSH, outside=PUSHED, approved_by="ada"),
        ran("node_shell_exec", {"node": "web-1", "command": "reboot"}, {"exit_code": 0}, changed=True),
        ran("http_request", {"url": "https://a.example/x"}),
        ran("write_file", {"path": "a.py"}, wrote=("a.py",)),
    )
    effects = result.effects
    assert effects.changed.commits == ("1a2b3c4 Add x",)
    assert effects.changed.machines == ("web-1",)
    assert effects.changed.files == ("a.py",)
    assert [(call.what, call.by) for call in effects.left] == [
        ("/usr/bin/git push origin main", "ada"),
        ("web-1: reboot", ""),
    ]
    assert result.outcome is Outcome.DONE


def test_a_commit_before_a_push_that_fails_is_told_as_well() -> None:
    effects = result_after(shell(f"git commit -qam x && {PUSH}", 1, stdout="[main 1a2b3c4] x\n")).effects
    assert effects.changed.commits == ("1a2b3c4 x",)
    assert len(effects.failed) == 1


def test_a_call_that_a_stopped_run_was_in_the_middle_of_is_in_doubt() -> None:
    state = state_after((ToolCalled(tool="shell", args={"command": PUSH}, call_id=_id(), leaves="forge"),))
    assert result_of(state).effects.open == ()  # it still runs
    evolve(state, Event(state.next_seq, 0.0, None, "", RunCancelled(by="ada", reason="")))
    assert [call.what for call in result_of(state).effects.in_doubt] == [PUSH]
    assert result_of(state).outcome is None


def test_many_failures_are_counted_and_the_first_are_listed() -> None:
    effects = result_after(*(shell(f"make target{number}", 2) for number in range(MAX_KEPT + 50))).effects
    assert len(effects.failed) == MAX_LISTED
    assert effects.more["failed"] == MAX_KEPT + 50 - MAX_LISTED


def test_a_call_that_a_person_changed_is_told_as_what_ran() -> None:
    question, answer, *_ = asked("shell", {"command": "make deploy"}, Decision.APPROVE)
    assert isinstance(answer, ApprovalDecided)
    changed = {"command": "echo instead"}
    assert isinstance(question, ApprovalRequested)
    question = replace(question, call_id=CallId("e"))
    call = (
        question,
        replace(answer, args=changed),
        ToolCalled(tool="shell", args=changed, call_id=CallId("e"), approved_by="ada"),
        ToolReturned(tool="shell", result={"exit_code": 0}, call_id=CallId("e")),
    )
    result = result_after(call, prompt="Deploy it")
    shown = mark_answer(SAID, result.effects, result.outcome)
    assert "changed by ada: make deploy (it ran as: echo instead)" in shown
    assert result.outcome is Outcome.INCOMPLETE


def test_a_repeat_that_was_not_run_again_does_not_count() -> None:
    call = _id()
    again = (
        ToolCalled(tool="shell", args={"command": "make"}, call_id=call),
        ToolReturned(tool="shell", result={"note": "not run again"}, call_id=call, repeated=True),
    )
    assert len(result_after(shell("make", 2), again).effects.failed) == 1


def test_the_list_of_a_run_has_those_of_the_runs_below() -> None:
    below = Effects(denied=(NotedCall(what=PUSH, by="ada", to="forge"),), more={"failed": 2})
    together = join_effects(Effects(), [(RunId("child"), below)])
    assert together.denied == (replace(below.denied[0], run_id=RunId("child")),)
    assert together.more == {"failed": 2}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("The push was denied by a person.", True),
        ("I could not push main.", True),
        ("Der Push wurde abgelehnt.", True),
        ("I have pushed main.", False),
        ("I have pushed main. The tests failed at first.", False),
        ("Pushed main; nothing was refused.", False),
        ("Pushed main without errors.", False),
        ("", False),
    ],
)
def test_an_answer_tells_of_a_refusal_only_where_it_names_it(answer: str, told: bool) -> None:
    assert is_told(answer, NotedCall(what=PUSH, tool="shell", by="ada")) is told
