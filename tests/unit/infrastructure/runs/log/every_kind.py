"""One run that holds every kind of event there is."""

from collections.abc import Sequence
from dataclasses import replace

from agent_fabric.domain.approvals.answers import Decision, Question, Reach
from agent_fabric.domain.approvals.events import ApprovalDecided, ApprovalRequested
from agent_fabric.domain.events import (
    Body,
    BudgetExhausted,
    ContextCompacted,
    ContextTruncated,
    Event,
    GuidanceGiven,
    ModelAnswered,
    ModelCalled,
    ModelFailed,
    PackFailed,
    PackStarted,
    RunCancelled,
    RunCompleted,
    RunCreated,
    RunFailed,
    RunInterrupted,
    RunResumed,
    RunWaited,
    SecurityViolated,
    SpecialistsRecruited,
    TaskForceStarted,
    ToolCalled,
    ToolErred,
    ToolReturned,
    WorkspaceSaved,
)
from agent_fabric.domain.evidence.events import WorkspaceCompared
from agent_fabric.domain.ids import CallId, LaneId, RunId, SpecialistId
from agent_fabric.domain.models.events import CloudFallbackUsed, ModelReasoned, PlainAnswerAccepted, ToolCallRecovered
from agent_fabric.domain.models.messages import ModelPrice, ModelSettings, ToolCallRequest, Usage
from agent_fabric.domain.packs.contents import FinishSpec
from agent_fabric.domain.runs.task import Budget, Priority, Profile, TaskForceMode
from agent_fabric.domain.tools.findings import Source
from agent_fabric.domain.tools.specs import Effect, ToolSpec, Trust
from agent_fabric.wire.json_codec import dump_json
from unit.infrastructure.runs.log.every_step import workflow

RUN = RunId("00000000-0000-4000-8000-000000000001")
LANE = LaneId("engineering")
ENGINEERING = SpecialistId("engineering")
MODEL = ModelSettings(
    key="quality",
    backend="generic",
    base_url="http://127.0.0.1:8080/v1",
    model="qwen2.5:14b",
    temperature=0.1,
    top_p=0.9,
    max_tokens=2048,
    timeout_s=600.0,
    connect_timeout_s=2.5,
    context_window=32_768,
    api_key="env:KEY",
    ca_file="/etc/ca.pem",
    headers={"X-Team": "blue"},
)
TEXT = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def call(number: int, tool: str, arguments: str) -> ToolCallRequest:
    return ToolCallRequest(CallId(f"call_{number}"), tool, arguments)


def answered(*calls: ToolCallRequest, content: str = "", usage: Usage = Usage(100, 20)) -> ModelAnswered:  # noqa: B008 - frozen
    return ModelAnswered(
        content=content,
        tool_calls=calls,
        usage=usage,
        usage_estimated=not calls,
        model="qwen2.5:14b-instruct",
        finish_reason="tool_calls" if calls else "stop",
        duration_s=1.5,
    )


def asked(step: int, count: int, attempt: int = 1) -> ModelCalled:
    return ModelCalled(step=step, message_count=count, attempt=attempt, model="qwen2.5:14b")


def returned(number: int, tool: str = "read_file", *, proved: str = "") -> ToolReturned:
    return ToolReturned(
        tool=tool,
        result={"content": f"text {number} ü \u2028"},
        call_id=CallId(f"call_{number}"),
        proved=proved,
        duration_s=0.25,
    )


_STEPS: Sequence[tuple[int | None, Body]] = (
    (
        None,
        RunCreated(
            prompt="Write primes.py ü\nand test it",
            specialist_id=None,
            model_key="quality",
            network_allowed=False,
            profile=Profile.TASK,
            budget=Budget(max_steps=40, max_tokens=100_000, max_seconds=3_600.0),
            workspace="/home/me/.fabric/runs/1/workspace",
            sandbox="none",
            policy_version="p1",
            fabric_version="0.1.0",
        ),
    ),
    (
        None,
        SpecialistsRecruited(
            specialist_id=ENGINEERING,
            specialist_ids=(ENGINEERING,),
            required_capabilities=("code",),
            routing_method="default",
            is_task_force=False,
        ),
    ),
    (
        None,
        PackStarted(
            specialist_id=ENGINEERING,
            pack_index=0,
            system_prompt="You are an engineer.",
            opening="Write primes.py ü\nand test it",
            tools=(
                ToolSpec(name="read_file", description="Read.", parameters=TEXT, effect=Effect.READS),
                ToolSpec(
                    name="shell",
                    description="Run.",
                    parameters={"type": "object", "properties": {"command": {"type": "string"}}},
                    effect=Effect.CHANGES_WORKSPACE,
                    timeout_s=60.0,
                    command_argument="command",
                ),
            ),
            finish=FinishSpec(parameters={"type": "object", "properties": {"summary": {"type": "string"}}}),
            model=MODEL,
        ),
    ),
    (0, asked(0, 2)),
    (
        0,
        ModelFailed(
            error_type="model_busy",
            error_message="503",
            hint="wait",
            attempt=1,
            retryable=True,
            retry_after_s=2.0,
            duration_s=0.5,
        ),
    ),
    (0, ModelCalled(step=0, message_count=2, attempt=2, model="qwen2.5:14b", delay_s=2.0)),
    (0, answered(content="  ", usage=Usage(100, 1))),
    (0, GuidanceGiven(reason="empty_answer", message="Your answer was empty.")),
    (1, asked(1, 4)),
    (
        1,
        answered(
            call(1, "read_file", '{"path": "a"}'), call(2, "shell", '{"command": "cat /etc/shadow"}'), content="I look."
        ),
    ),
    (1, ToolCalled(tool="read_file", args={"path": "a"}, call_id=CallId("call_1"))),
    (1, returned(1)),
    (1, ToolCalled(tool="shell", args={"command": "cat /etc/shadow"}, call_id=CallId("call_2"))),
    (
        1,
        SecurityViolated(
            event_type="sandbox_violation", tool="shell", error_message="outside", call_id=CallId("call_2")
        ),
    ),
    (
        1,
        ToolErred(
            tool="shell",
            error_type="PermissionError",
            error_message="outside",
            call_id=CallId("call_2"),
            proposal="allow it",
            changed=True,
            duration_s=0.125,
        ),
    ),
    (None, RunInterrupted(reason="stopped by the person or the system")),
    (None, RunResumed(by="person", driver="process 1 on host")),
    (2, asked(2, 7)),
    (None, RunResumed(by="server", driver="process 2 on host")),
    (2, asked(2, 7, attempt=2)),
    (2, answered(call(3, "shell", '{"command": "pytest"}'))),
    (2, ToolCalled(tool="shell", args={"command": "pytest"}, call_id=CallId("call_3"))),
    (None, RunResumed(by="person", driver="process 3 on host")),
    (
        2,
        ToolErred(
            tool="shell",
            error_type="InDoubt",
            error_message="it may have happened",
            call_id=CallId("call_3"),
            changed=True,
        ),
    ),
    (3, asked(3, 9)),
    (3, answered(call(4, "shell", '{"command": "pytest"}'))),
    (3, ToolCalled(tool="shell", args={"command": "pytest"}, call_id=CallId("call_4"), attempt=1)),
    (3, returned(4, "shell", proved="pytest")),
    (4, asked(4, 11)),
    (4, answered(call(5, "shell", '{"command": "pytest"}'))),
    (4, ToolCalled(tool="shell", args={"command": "pytest"}, call_id=CallId("call_5"))),
    (
        4,
        ToolReturned(
            tool="shell", result={"note": "again"}, call_id=CallId("call_5"), whole='{"note": "again"}', repeated=True
        ),
    ),
    (5, ModelCalled(step=5, message_count=12, attempt=1, model="qwen2.5:14b", purpose="compaction")),
    (
        5,
        ContextCompacted(
            first=2, last=9, summary="So far: read a.", by_model=True, usage=Usage(500, 50), duration_s=3.0
        ),
    ),
    (5, asked(5, 7)),
    (5, answered(content="All done: primes.py prints primes.", usage=Usage(200, 30))),
    (None, RunWaited(reason="an approval")),
    (None, RunResumed(by="person", driver="process 4 on host")),
    (5, PlainAnswerAccepted(payload={"summary": "All done: primes.py prints primes."})),
)

_ENDS: Sequence[Body] = (
    RunCompleted(
        run_id=RUN,
        specialist_ids=(ENGINEERING,),
        task_force_mode="sequential",
        payload={"summary": "All done: primes.py prints primes."},
    ),
    RunFailed(code="budget_exhausted", message="spent", hint="allow more"),
    RunCancelled(by="me", reason="enough"),
)


def rich_run(end: Body = _ENDS[0]) -> list[Event]:
    """Return a whole log that ends so."""
    bodies: list[tuple[int | None, Body]] = list(_STEPS)
    if isinstance(end, RunFailed):
        bodies.append((None, BudgetExhausted(resource="tokens", limit=100_000, used=100_001)))
    bodies.append((None, end))
    return [
        Event(seq, 1_700_000_000.25 + seq, None if step is None else LANE, "" if step is None else f"step_{step}", body)
        for seq, (step, body) in enumerate(bodies)
    ]


def task_force() -> list[Event]:
    """Return the log of two specialists at once, one of whom gives up, chosen by a model."""
    research = SpecialistId("research")
    both = (ENGINEERING, research)
    page = Source(
        url="http://a.example/",
        final_url="http://a.example/start",
        title="A",
        content_type="text/html",
        fetched_at=1_700_000_001.5,
        sha256="0" * 64,
        text="What stands there.",
    )
    created = _STEPS[0][1]
    started = _STEPS[2][1]
    assert isinstance(created, RunCreated)
    assert isinstance(started, PackStarted)
    payload = {"summary": "Found.", "citations": [{"url": page.url, "quote": page.text, "claim": "c"}]}
    failure = {"code": "model_busy", "message": "503", "hint": "wait"}
    bodies: list[tuple[str | None, str, Body]] = [
        (None, "", replace(created, task_force_mode=TaskForceMode.PARALLEL)),
        (None, "", ModelCalled(step=0, message_count=2, attempt=1, model="small", purpose="routing")),
        (None, "", answered(content="both", usage=Usage(10, 2))),
        (
            None,
            "",
            SpecialistsRecruited(
                specialist_id=ENGINEERING,
                specialist_ids=both,
                required_capabilities=("software", "web_research"),
                routing_method="model",
                is_task_force=True,
                reasons=("chosen by the routing model",),
            ),
        ),
        (None, "", TaskForceStarted(specialist_ids=both, mode=TaskForceMode.PARALLEL)),
        (None, "", started),
        (
            None,
            "",
            replace(
                started, specialist_id=research, pack_index=1, finish=replace(started.finish, needs_citations=True)
            ),
        ),
        ("engineering", "step_0", asked(0, 2)),
        ("research", "step_0", asked(0, 2)),
        ("research", "step_0", answered(call(0, "fetch_url", '{"url": "http://a.example/"}'))),
        ("research", "step_0", ToolCalled(tool="fetch_url", args={"url": page.url}, call_id=CallId("call_0"))),
        (
            "research",
            "step_0",
            ToolReturned(
                tool="fetch_url",
                result={"text": page.text},
                call_id=CallId("call_0"),
                sources=(page,),
                wrote=("notes.md",),
                cites={"notes.md": (page.url,)},
            ),
        ),
        ("engineering", "step_0", PackFailed(specialist_id=ENGINEERING, code="model_busy", message="503", hint="wait")),
        ("research", "step_1", asked(1, 4)),
        ("research", "step_1", answered(call(1, "finish_task", dump_json(payload).decode()))),
        ("research", "step_1", ToolCalled(tool="finish_task", args=payload, call_id=CallId("call_1"))),
        (
            "research",
            "step_1",
            ToolReturned(tool="finish_task", result=payload, call_id=CallId("call_1"), proved="1 quotes found"),
        ),
        (
            None,
            "",
            RunFailed(
                code="task_force_incomplete",
                message="Not all finished",
                hint="",
                payload={"specialists": {"research": payload}, "failed_specialists": {"engineering": failure}},
            ),
        ),
    ]
    return [
        Event(seq, 1_700_000_000.25 + seq, None if lane is None else LaneId(lane), step, body)
        for seq, (lane, step, body) in enumerate(bodies)
    ]


def small_model() -> list[Event]:
    """Return the log of a model that needs help: its call is read from its text, it forgets, another one answers."""
    created, recruited, started = (_STEPS[number][1] for number in range(3))
    assert isinstance(created, RunCreated)
    assert isinstance(started, PackStarted)
    model = replace(
        MODEL,
        dialect="native",
        compact=True,
        sets_window=True,
        slots=1,
        price=ModelPrice(input=1.0, output=2.0, cached_input=0.5),
    )
    payload = {"summary": "Read."}
    bodies: list[tuple[int | None, Body]] = [
        (None, replace(created, priority=Priority.BATCH)),
        (None, recruited),
        (None, replace(started, model=model, model_reason="found in Ollama")),
        (0, asked(0, 2)),
        (
            0,
            replace(
                answered(content="{'tool'", usage=Usage(100, 20, 40)), problem="That is no JSON.", tool_dialect="text"
            ),
        ),
        (0, GuidanceGiven(reason="tool_call_unusable", message="That is no JSON.")),
        (1, asked(1, 4)),
        (1, replace(answered(call(1, "read_file", '{"path": "a"}'), usage=Usage(900, 20, 90)), cost=0.25)),
        (1, ModelReasoned(text="It has to be read ü.", chars=20, model="qwen2.5:14b")),
        (1, ToolCallRecovered(tools=("read_file",), model="qwen2.5:14b")),
        (1, ContextTruncated(sent_tokens=5_000, read_tokens=900, hint="Set `context_window`.")),
        (1, ToolCalled(tool="read_file", args={"path": "a"}, call_id=CallId("call_1"))),
        (1, returned(1)),
        (2, asked(2, 6)),
        (2, replace(answered(call(2, "finish_task", dump_json(payload).decode())), cost=0.5)),
        (
            2,
            CloudFallbackUsed(
                reason="no_tool_calls",
                local_model="qwen2.5:14b",
                cloud_model="big",
                base_url="https://models.example/v1",
            ),
        ),
        (2, WorkspaceCompared(created=("new/",), modified=("a",), deleted=("b",), more=1, tests=("test_a.py",))),
        (2, ToolCalled(tool="finish_task", args=payload, call_id=CallId("call_2"))),
        (2, ToolReturned(tool="finish_task", result=payload, call_id=CallId("call_2"))),
        (None, WorkspaceSaved(manifest="ab" * 32, files=2, size=2010)),
        (
            None,
            RunCompleted(run_id=RUN, specialist_ids=(ENGINEERING,), task_force_mode="sequential", payload=payload),
        ),
    ]
    return [
        Event(seq, 1_700_000_000.25 + seq, None if step is None else LANE, "" if step is None else f"step_{step}", body)
        for seq, (step, body) in enumerate(bodies)
    ]


def question(number: int, args: dict[str, str], *, about: Question = Question.MAY_IT_RUN) -> ApprovalRequested:
    return ApprovalRequested(
        approval_id=f"{number:012x}",
        call_id=CallId(f"call_{number}"),
        tool="shell" if "command" in args else "mcp_post",
        args=args,
        question=about,
        reason="It reaches the world outside.",
        rule="pushes",
        subject=" ".join(args.values()),
        alike="git push" if "command" in args else "",
        agent="engineering",
        target="/home/me/.fabric/runs/1/workspace",
        sandbox="A",
        untrusted=("web: http://a.example/",),
        policy_version="p2",
        binding="1" * 64,
        args_hash="2" * 64,
        expires_at=1_700_086_400.5,
    )


def with_a_person() -> list[Event]:
    """Return the log of a run that asks a person: who agrees for the run, refuses, says what happened, and is late."""
    created, recruited, started = (_STEPS[number][1] for number in range(3))
    assert isinstance(started, PackStarted)
    post = ToolSpec(
        name="mcp_post",
        description="Post.",
        parameters={"type": "object", "properties": {"text": {"type": "string"}}},
        effect=Effect.LEAVES_SANDBOX,
        path_arguments=("file",),
        url_argument="url",
        trust=Trust.MCP,
    )
    push, force, text = {"command": "git push"}, {"command": "git push --force"}, {"text": "hello"}
    payload = {"summary": "Pushed."}

    def asks(number: int, tool: str, args: dict[str, str]) -> ModelAnswered:
        return answered(call(number, tool, dump_json(args).decode()))

    def waits(number: int, args: dict[str, str], about: Question = Question.MAY_IT_RUN) -> list[Body]:
        asked_of = question(number, args, about=about)
        return [asked_of, RunWaited(reason="an approval", approvals=(asked_of.approval_id,))]

    def decided(number: int, decision: Decision, by: str = "me", reason: str = "", via: str = "cli") -> ApprovalDecided:
        return ApprovalDecided(approval_id=f"{number:012x}", decision=decision, by=by, reason=reason, via=via)

    resumed = RunResumed(by="server", driver="process 1 on host")
    pushed = ToolCalled(
        tool="shell",
        args=force,
        call_id=CallId("call_1"),
        rule="pushes",
        args_hash="3" * 64,
        approval_id=f"{1:012x}",
        approved_by="me",
    )
    refused = ToolErred(
        tool="shell",
        error_type="Denied",
        error_message="A person has refused this call: not now",
        call_id=CallId("call_2"),
        rule="pushes",
    )
    posted = ToolReturned(
        tool="mcp_post",
        result={"note": "it did happen"},
        call_id=CallId("call_3"),
        trust=Trust.MCP,
        origin="mcp: board",
        signals=("orders",),
    )
    late = ToolErred(
        tool="mcp_post",
        error_type="ApprovalExpired",
        error_message="Nobody agreed to this call in time",
        call_id=CallId("call_4"),
        proposal="hello",
        origin="mcp: board",
    )
    steps: Sequence[Sequence[Body]] = (
        (
            *(asked(0, 2), asks(1, "shell", push), *waits(1, push)),
            replace(decided(1, Decision.APPROVE), reach=Reach.RUN, args=force, via="terminal"),
            *(resumed, pushed, returned(1, "shell")),
        ),
        (
            *(asked(1, 4), asks(2, "shell", push), *waits(2, push)),
            *(decided(2, Decision.DENY, reason="not now", via="http"), resumed),
            *(ToolCalled(tool="shell", args=push, call_id=CallId("call_2")), refused),
        ),
        (
            *(asked(2, 6), asks(3, "mcp_post", text)),
            *(ToolCalled(tool="mcp_post", args=text, call_id=CallId("call_3")), resumed),
            *waits(3, text, Question.DID_IT_HAPPEN),
            *(decided(3, Decision.DONE), resumed, posted),
        ),
        (
            *(asked(3, 8), asks(4, "mcp_post", text), *waits(4, text)),
            *(decided(4, Decision.EXPIRED, by="", via="clock"), resumed),
            *(ToolCalled(tool="mcp_post", args=text, call_id=CallId("call_4")), late),
        ),
        (
            *(asked(4, 10), answered(call(5, "finish_task", dump_json(payload).decode()))),
            ToolCalled(tool="finish_task", args=payload, call_id=CallId("call_5")),
            ToolReturned(
                tool="finish_task", result={**payload, "proposed_actions": ["hello"]}, call_id=CallId("call_5")
            ),
        ),
    )
    end = RunCompleted(run_id=RUN, specialist_ids=(ENGINEERING,), task_force_mode="sequential", payload=payload)
    bodies: list[tuple[int | None, Body]] = [
        (None, created),
        (None, recruited),
        (None, replace(started, tools=(*started.tools, post), notices=("The tools of 'wiki' are missing.",))),
        *(
            (None if isinstance(body, RunWaited | RunResumed) else number, body)
            for number, step in enumerate(steps)
            for body in step
        ),
        (None, end),
    ]
    return [
        Event(seq, 1_700_000_000.25 + seq, None if step is None else LANE, "" if step is None else f"step_{step}", body)
        for seq, (step, body) in enumerate(bodies)
    ]


def all_ends() -> list[list[Event]]:
    """Return logs that together hold every kind."""
    return [*(rich_run(end) for end in _ENDS), task_force(), small_model(), with_a_person(), workflow()]
