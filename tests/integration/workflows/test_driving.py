"""Workflows on the real engine, store, box and tools; only what a model says is scripted."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.ports.approvals import Answer
from agent_fabric.application.ports.workflows import SoundWorkflow
from agent_fabric.bootstrap.local import Driving, LocalFabric, build_local
from agent_fabric.bootstrap.records import owner_here
from agent_fabric.bootstrap.workflows import Workflows, fork_workflow, open_workflows, signal_workflow
from agent_fabric.config.loader import read_config
from agent_fabric.domain.approvals.answers import Decision
from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.domain.events import Event, RunCreated
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.domain.workflows.definition import definition_from
from agent_fabric.domain.workflows.events import StepStarted
from agent_fabric.testing.scripted_model import Finish, Script, ScriptedModel
from e2e.fabric_process import local_fabric, settings
from integration.persistence.opened_store import store_of

PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Bench:
    fabric: LocalFabric
    workflows: Workflows
    folder: Path

    async def run(self, *steps: Mapping[str, Any], given: Mapping[str, Any] | None = None, **more: Any) -> RunResult:
        return await self.fabric.execute_task(self.task(*steps, given=given, **more))

    def task(self, *steps: Mapping[str, Any], given: Mapping[str, Any] | None = None, **more: Any) -> Any:
        plain = {"name": "example", "version": "1.0.0", "steps": list(steps), **more}
        workflow = SoundWorkflow(plain=plain, definition=definition_from(plain), source="")
        return self.workflows.task(workflow, given or {})

    async def start(self, *steps: Mapping[str, Any], **more: Any) -> "tuple[RunId, asyncio.Task[RunResult]]":
        created: asyncio.Future[RunId] = asyncio.get_running_loop().create_future()
        driving = asyncio.create_task(
            self.fabric.execute_task(self.task(*steps, **more), on_created=created.set_result)
        )
        return await created, driving

    async def events(self, run_id: RunId) -> list[Event]:
        return list(await self.fabric.records.runs.read(run_id))

    async def kinds(self, run_id: RunId) -> list[str]:
        return [event.body.kind for event in await self.events(run_id)]

    async def child(self, run_id: RunId) -> RunId:
        bodies = [event.body for event in await self.events(run_id)]
        return next(body.child_run_id for body in bodies if isinstance(body, StepStarted) and body.child_run_id)

    async def until(self, run_id: RunId, kind: str, count: int = 1) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while (await self.kinds(run_id)).count(kind) < count:
                await asyncio.sleep(0.02)


@asynccontextmanager
async def _bench(folder: Path, script: Script | None = None, **more: Any) -> AsyncIterator[Bench]:
    async with ScriptedModel(script or Script(turns=())) as model:
        configured = settings(model.base_url, **more)
        async with local_fabric(folder, configured) as fabric:
            config = read_config({}, overrides=configured).config
            if fabric.execute_task.sandbox_level == "C":
                pytest.skip("there is no box here, so commands ask")
            yield Bench(fabric, open_workflows(folder / ".fabric", config), folder)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with _bench(tmp_path) as made:
        yield made


SHOUTED = "{{ greet.stdout | upper }}!"


def command(step: str, text: str, **more: Any) -> dict[str, Any]:
    return {"id": step, "action": "run-command", "command": text, **more}


@pytest.mark.proves("A33-045", "A33-047", "A33-051", "A33-056", "A33-057", "A33-058")
async def test_outputs_of_a_command_feed_later_steps(bench: Bench) -> None:
    result = await bench.run(
        command("greet", "printf '%s' {{ inputs.name }}"),
        {"id": "shout", "action": "transform", "depends_on": ["greet"], "inputs": {"text": SHOUTED}},
        inputs={"name": "string"},
        given={"name": 'Kim\'s "friend"; echo $HOME'},
    )
    assert result.status is RunStatus.COMPLETED, result.error
    assert result.payload["status"] == "success"
    assert result.payload["outputs"]["shout"] == {"text": 'KIM\'S "FRIEND"; ECHO $HOME!'}
    assert result.payload["steps_executed"] == ["greet", "shout"]
    first = result.payload["step_results"][0]
    assert set(first) == {"step_id", "status", "outputs", "error", "duration_ms"}
    assert (first["step_id"], first["status"], first["error"]) == ("greet", "success", None)


@pytest.mark.proves("C34")
async def test_a_command_of_a_workflow_is_judged_by_the_same_policy_as_that_of_an_agent(bench: Bench) -> None:
    result = await bench.run(command("wipe", "rm -rf /"))
    assert result.status is RunStatus.FAILED
    kinds = await bench.kinds(result.run_id)
    assert (kinds.count("security_event"), kinds.count("tool_result")) == (1, 0)


@pytest.mark.proves("A33-060")
async def test_a_failing_command_is_tried_again_after_its_delay_and_succeeds(bench: Bench) -> None:
    result = await bench.run(
        command(
            "flaky",
            "bash -c 'echo x >> tries; test $(wc -l < tries) -ge 3'",
            retry={"max_attempts": 3, "delay_seconds": 0.05, "backoff": 2},
        )
    )
    assert result.status is RunStatus.COMPLETED, result.error
    kinds = await bench.kinds(result.run_id)
    assert (kinds.count("step_started"), kinds.count("step_retrying"), kinds.count("timer_fired")) == (3, 2, 2)


async def test_a_failed_command_fails_the_workflow_and_says_which_step_and_why(bench: Bench) -> None:
    result = await bench.run(
        command("good", "true"),
        command("bad", "bash -c 'echo oh no >&2; exit 3'", depends_on=["good"]),
        command("after", "true", depends_on=["bad"]),
    )
    assert result.status is RunStatus.FAILED
    assert result.error is not None
    assert "bad" in result.error.message
    assert "oh no" in result.error.message or "3" in result.error.message
    assert result.payload["status"] == "failed"
    assert {each["step_id"]: each["status"] for each in result.payload["step_results"]} == {
        "good": "success",
        "bad": "failed",
        "after": "skipped",
    }


@pytest.mark.proves("A33-050")
async def test_waiting_for_a_moment_and_for_a_signal_in_the_foreground(bench: Bench) -> None:
    run_id, driving = await bench.start(
        {"id": "pause", "action": "wait", "inputs": {"seconds": 0.2}},
        {"id": "news", "action": "wait", "inputs": {"event": "ready"}},
        {"id": "told", "action": "transform", "depends_on": ["news"], "inputs": {"data": "{{ news.data.size }}"}},
    )
    await bench.until(run_id, "step_waiting", 2)
    await signal_workflow(bench.fabric.records)(run_id, "ready", {"size": 7}, by="kim")
    result = await asyncio.wait_for(driving, PATIENCE_S)
    if result.status is RunStatus.WAITING:  # the signal came after the pause was over
        result = await bench.fabric.resume_run(run_id)
    assert result.status is RunStatus.COMPLETED, result.error
    assert result.payload["outputs"]["told"] == {"data": 7}


async def test_a_workflow_that_waits_for_somebody_leaves_memory_and_goes_on_with_the_answer(bench: Bench) -> None:
    form = {"type": "object", "properties": {"version": {"type": "string"}}, "required": ["version"]}
    result = await bench.run(
        {"id": "ok", "action": "approve", "inputs": {"message": "Release?", "form": form}},
        command("tag", "printf '%s' {{ ok.form.version }}", depends_on=["ok"]),
    )
    assert result.status is RunStatus.WAITING
    (asked,) = await bench.fabric.records.approvals.list(run_id=result.run_id)
    assert (asked.approval_id,) == tuple(result.waiting_for)
    answer = Answer(decision=Decision.APPROVE, by="kim", via="test", args={"version": "1.2.3"})
    await bench.fabric.decide_approval(asked.approval_id, answer, by=owner_here())
    result = await bench.fabric.resume_run(result.run_id)
    assert result.status is RunStatus.COMPLETED, result.error
    assert result.payload["outputs"]["tag"]["stdout"] == "1.2.3"
    assert result.payload["outputs"]["ok"]["by"] == "kim"


AGENT = """\
name: namer
version: 1.0.0
role: worker
description: Names things.
inputs:
  thing: string
outputs:
  name: {type: string, required: true}
prompts:
  system: You name things.
  user: "Name this: {{ inputs.thing }}"
"""


@pytest.mark.proves("A33-044")
async def test_an_agent_does_a_step_as_a_run_of_its_own_that_is_linked_both_ways(tmp_path: Path) -> None:
    (tmp_path / "agent-definitions").mkdir()
    (tmp_path / "agent-definitions" / "namer.yaml").write_text(AGENT)
    async with _bench(tmp_path, Script(turns=(Finish(name="Rex"),))) as bench:
        result = await bench.run(
            {"id": "ask", "action": "invoke-agent", "agent": "namer", "inputs": {"thing": "{{ inputs.thing }}"}},
            {"id": "use", "action": "transform", "depends_on": ["ask"], "inputs": {"name": "{{ ask.name }}"}},
            inputs={"thing": "string"},
            given={"thing": "a dog"},
        )
        assert result.status is RunStatus.COMPLETED, result.error
        assert result.payload["outputs"]["use"] == {"name": "Rex"}
        child = await bench.child(result.run_id)
        created = (await bench.events(child))[0].body
        assert created.parent.run_id == result.run_id  # type: ignore[union-attr]
        assert result.usage.completion_tokens > 0


@pytest.mark.proves("A33-024")
async def test_the_prompts_of_an_agent_are_filled_in_from_the_state_of_the_workflow(tmp_path: Path) -> None:
    (tmp_path / "agent-definitions").mkdir()
    prompt = "Name {{ steps.look.found }} as in {{ workflow.inputs.like }}: {{ inputs.thing }}"
    changed = AGENT.replace("Name this: {{ inputs.thing }}", prompt)
    (tmp_path / "agent-definitions" / "namer.yaml").write_text(changed)
    async with _bench(tmp_path, Script(turns=(Finish(name="Rex"),))) as bench:
        result = await bench.run(
            {"id": "look", "action": "transform", "inputs": {"found": "{{ inputs.like | upper }}"}},
            {
                "id": "ask",
                "action": "invoke-agent",
                "agent": "namer",
                "depends_on": ["look"],
                "inputs": {"thing": "it"},
            },
            inputs={"like": "string"},
            given={"like": "{{ run.id }} ${secret:TOKEN}"},
        )
        assert result.status is RunStatus.COMPLETED, result.error
        created = (await bench.events(await bench.child(result.run_id)))[0].body
        assert isinstance(created, RunCreated)
        assert created.agent is not None
        assert created.prompt == created.agent.prompt
        assert created.prompt.startswith("Name {{ RUN.ID }} $")
        assert created.prompt.endswith(": it")
        assert result.run_id not in created.prompt
        assert "${secret:" not in created.prompt


@pytest.mark.parametrize("how", ["cancel", "stop"])
async def test_a_command_under_way_ends_with_its_workflow(bench: Bench, how: str) -> None:
    run_id, driving = await bench.start(command("long", "bash -c 'touch begun; sleep 600; touch survived'"))
    await bench.until(run_id, "tool_call")
    if how == "cancel":
        await bench.fabric.cancel_run(run_id, by="kim", reason="enough")
        assert (await asyncio.wait_for(driving, PATIENCE_S)).status is RunStatus.CANCELLED
        return
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driving
    result = await bench.fabric.resume_run(run_id)
    assert result.status is RunStatus.WAITING, "what was under way may have happened, so a person is asked"
    (asked,) = await bench.fabric.records.approvals.list(run_id=run_id)
    await bench.fabric.decide_approval(
        asked.approval_id, Answer(decision=Decision.DONE, by="kim", via="test", reason="saw it"), by=owner_here()
    )
    result = await bench.fabric.resume_run(run_id)
    assert result.status is RunStatus.COMPLETED, result.error
    assert result.payload["outputs"]["long"]["counted_as_done"] is True


async def test_an_idempotent_command_runs_again_by_itself_after_a_crash(bench: Bench) -> None:
    run_id, driving = await bench.start(
        command("long", "bash -c 'echo x >> tries; test $(wc -l < tries) -ge 2 || sleep 600'", idempotent=True)
    )
    await bench.until(run_id, "tool_call")
    await asyncio.sleep(0.5)
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driving
    result = await asyncio.wait_for(bench.fabric.resume_run(run_id), PATIENCE_S)
    assert result.status is RunStatus.COMPLETED, result.error


async def test_fail_fast_stops_what_runs_beside_a_failure(bench: Bench) -> None:
    result = await asyncio.wait_for(
        bench.run(
            command("bad", "bash -c 'sleep 0.3; exit 1'"), command("slow", "sleep 600"), execution={"fail_fast": True}
        ),
        PATIENCE_S,
    )
    assert result.status is RunStatus.FAILED
    ends = {each["step_id"]: each for each in result.payload["step_results"]}
    assert ends["slow"]["status"] == "failed"
    assert ends["bad"]["status"] == "failed"


async def test_the_whole_and_each_step_have_time_outs(bench: Bench) -> None:
    result = await asyncio.wait_for(bench.run(command("slow", "sleep 600", timeout=0.5)), PATIENCE_S)
    assert result.status is RunStatus.FAILED
    result = await asyncio.wait_for(bench.run(command("slow", "sleep 600"), execution={"timeout": 0.5}), PATIENCE_S)
    assert result.status is RunStatus.FAILED
    assert result.error is not None
    assert "0.5" in result.error.message


async def test_a_workflow_calls_another_one(tmp_path: Path) -> None:
    (tmp_path / "workflow-definitions").mkdir()
    (tmp_path / "workflow-definitions" / "inner.yaml").write_text(
        "name: inner\nversion: 1.0.0\ninputs: {n: {type: integer, required: true}}\n"
        "outputs: {double: {type: integer, value: '{{ compute.n }}'}}\n"
        "steps:\n  - {id: compute, action: transform, inputs: {n: '{{ inputs.n * 2 }}'}}\n"
    )
    async with _bench(tmp_path) as bench:
        result = await bench.run(
            {"id": "call", "action": "workflow", "workflow": "inner", "inputs": {"n": 21}},
            {"id": "use", "action": "transform", "depends_on": ["call"], "inputs": {"n": "{{ call.double }}"}},
        )
        assert result.status is RunStatus.COMPLETED, result.error
        assert result.payload["outputs"]["use"] == {"n": 42}


async def test_a_step_whose_workflow_failed_says_why_and_does_not_advise_to_resume_the_called_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "workflow-definitions").mkdir()
    (tmp_path / "workflow-definitions" / "inner.yaml").write_text(
        "name: inner\ninputs: {n: {type: integer, required: true}}\n"
        "steps:\n  - {id: check, action: validate, inputs: {data: '{{ inputs.n }}', rules: [data > 3]}}\n"
    )
    async with _bench(tmp_path) as bench:
        result = await bench.run(
            {"id": "low", "action": "workflow", "workflow": "inner", "inputs": {"n": 1}},
            {"id": "text", "action": "workflow", "workflow": "inner", "inputs": {"n": "{{ run.id | upper }}"}},
            execution={"continue_on_error": True},
        )
    errors = {each["step_id"]: each["error"] for each in result.payload["step_results"]}
    assert errors == {
        "low": "The step 'check' failed: data > 3 does not hold",
        "text": "The inputs of the workflow 'inner' do not fit: n must be integer, not string (It takes n (integer))",
    }


async def test_a_failed_workflow_goes_on_as_a_new_run_that_keeps_what_succeeded(bench: Bench) -> None:
    steps = (
        command("once", "bash -c 'echo x >> ran; wc -l < ran'"),
        command("needs", "bash -c 'test -e there'", depends_on=["once"]),
    )
    failed = await bench.run(*steps)
    assert failed.status is RunStatus.FAILED
    (Path(failed.workspace) / "there").touch()
    forked = await fork_workflow(bench.fabric.records)(failed.run_id)
    again = await bench.fabric.execute_task(forked.task, then=forked.then, copy_of=forked.copy_of)
    assert again.status is RunStatus.COMPLETED, again.error
    assert (Path(again.workspace) / "ran").read_text() == "x\n"
    assert again.payload["outputs"]["once"]["stdout"] == "1\n"
    from_there = await fork_workflow(bench.fabric.records)(again.run_id, from_step="once")
    third = await bench.fabric.execute_task(from_there.task, then=from_there.then, copy_of=from_there.copy_of)
    assert third.payload["outputs"]["once"]["stdout"] == "2\n"


async def test_where_a_server_runs_waiting_costs_no_memory_and_the_moment_wakes_the_run(tmp_path: Path) -> None:
    async with ScriptedModel(Script(turns=())) as model:
        loaded = read_config({}, overrides=settings(model.base_url))
        config = loaded.config
        fabric = build_local(tmp_path / ".fabric", loaded, Driving(patience_s=0.1))
        try:
            bench = Bench(fabric, open_workflows(tmp_path / ".fabric", config), tmp_path)
            result = await bench.run({"id": "pause", "action": "wait", "inputs": {"seconds": 1}})
            assert result.status is RunStatus.WAITING
            assert await fabric.records.storage.queue.due() == []
            async with asyncio.timeout(PATIENCE_S):
                while await fabric.records.storage.queue.due() != [result.run_id]:
                    await asyncio.sleep(0.05)
            result = await fabric.resume_run(result.run_id, by="server")
            assert result.status is RunStatus.COMPLETED, result.error
            assert await fabric.records.storage.queue.due() == []
        finally:
            await fabric.aclose()


async def test_a_child_that_waits_for_a_person_wakes_its_workflow_when_it_has_ended(tmp_path: Path) -> None:
    (tmp_path / "workflow-definitions").mkdir()
    (tmp_path / "workflow-definitions" / "inner.yaml").write_text(
        "name: inner\nversion: 1.0.0\nsteps:\n  - {id: ok, action: approve, inputs: {message: 'Go on?'}}\n"
    )
    async with _bench(tmp_path) as bench:
        result = await bench.run({"id": "call", "action": "workflow", "workflow": "inner"})
        assert result.status is RunStatus.WAITING
        (asked,) = await bench.fabric.records.approvals.list()
        assert asked.run_id != result.run_id
        assert (asked.approval_id,) == tuple(result.waiting_for), "whoever sits before the workflow can be asked"
        await bench.fabric.decide_approval(
            asked.approval_id, Answer(decision=Decision.APPROVE, by="kim", via="test"), by=owner_here()
        )
        assert await bench.fabric.records.storage.queue.due() == [asked.run_id]
        child = await bench.fabric.resume_run(asked.run_id, by="server")
        assert child.status is RunStatus.COMPLETED, child.error
        assert await bench.fabric.records.storage.queue.due() == [result.run_id]
        result = await bench.fabric.resume_run(result.run_id, by="server")
        assert result.status is RunStatus.COMPLETED, result.error


async def test_a_cancelled_workflow_ends_the_runs_that_work_for_it(tmp_path: Path) -> None:
    (tmp_path / "workflow-definitions").mkdir()
    (tmp_path / "workflow-definitions" / "inner.yaml").write_text(
        "name: inner\nversion: 1.0.0\nsteps:\n  - {id: long, action: run-command, command: sleep 600}\n"
    )
    async with _bench(tmp_path) as bench:
        run_id, driving = await bench.start({"id": "call", "action": "workflow", "workflow": "inner"})
        await bench.until(run_id, "step_started")
        child = await bench.child(run_id)
        await bench.until(child, "tool_call")
        await bench.fabric.cancel_run(run_id, by="kim", reason="enough")
        assert (await asyncio.wait_for(driving, PATIENCE_S)).status is RunStatus.CANCELLED
        assert (await bench.kinds(child))[-1] == "run_cancelled"


async def test_a_workflow_that_was_stopped_goes_on_with_the_very_run_that_works_for_it(tmp_path: Path) -> None:
    (tmp_path / "workflow-definitions").mkdir()
    (tmp_path / "workflow-definitions" / "inner.yaml").write_text(
        "name: inner\nversion: 1.0.0\nsteps:\n"
        "  - {id: once, action: run-command, command: \"bash -c 'echo x >> ran'\"}\n"
        "  - {id: pause, action: wait, depends_on: [once], inputs: {event: go}}\n"
    )
    async with _bench(tmp_path) as bench:
        run_id, driving = await bench.start(
            {"id": "call", "action": "workflow", "workflow": "inner"},
            {"id": "stay", "action": "wait", "inputs": {"event": "stay"}},
        )
        await bench.until(run_id, "step_started", 2)
        child = await bench.child(run_id)
        await bench.until(child, "step_waiting")
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)
        await signal_workflow(bench.fabric.records)(child, "go", {}, by="kim")
        await signal_workflow(bench.fabric.records)(run_id, "stay", {}, by="kim")
        result = await bench.fabric.resume_run(run_id)
        assert result.status is RunStatus.COMPLETED, result.error
        assert (Path(result.workspace) / "ran").read_text() == "x\n"


@pytest.mark.proves("A33-059", "A33-111")
async def test_checkpoints_and_the_way_of_data_can_be_asked_for_in_the_store(bench: Bench) -> None:
    result = await bench.run(
        command("greet", "printf '%s' {{ inputs.name }}"),
        {"id": "shout", "action": "transform", "depends_on": ["greet"], "inputs": {"text": SHOUTED}},
        inputs={"name": "string"},
        given={"name": "Kim"},
    )

    def asked(query: str) -> list[tuple[Any, ...]]:
        return store_of(bench.fabric.records).read_now(lambda connection: list(connection.execute(query)))

    assert asked("SELECT run_id, step_id, status, json_extract(outputs, '$.text') FROM workflow_checkpoints") == [
        (result.run_id, "greet", "success", None),
        (result.run_id, "shout", "success", "KIM!"),
    ]
    assert asked("SELECT step_id, fed, name, source FROM data_lineage") == [
        ("greet", "input", "command", "inputs.name"),
        ("shout", "input", "text", "greet.stdout"),
    ]


async def test_a_corrected_file_counts_when_that_is_wanted_and_only_what_has_changed_is_done_again(
    bench: Bench,
) -> None:
    file = bench.folder / "workflow-definitions" / "job.yaml"
    file.parent.mkdir()
    text = """\
name: job
steps:
  - {id: once, action: run-command, command: "bash -c 'echo x >> ran; wc -l < ran'"}
  - {id: bad, action: run-command, depends_on: [once], command: "false"}
  - {id: other, action: transform, depends_on: [once], inputs: {n: "{{ once.stdout | trim | int }}"}}
"""
    file.write_text(text)
    failed = await bench.fabric.execute_task(bench.workflows.task(bench.workflows.get("job"), {}))
    assert failed.status is RunStatus.FAILED
    file.write_text(text.replace('"false"', '"echo {{ once.stdout }}"'))
    forked = await fork_workflow(bench.fabric.records, bench.workflows)(failed.run_id)
    assert [lane for lane, _ in forked.then] == ["once", "other"] or [lane for lane, _ in forked.then] == ["once"]
    again = await bench.fabric.execute_task(forked.task, then=forked.then, copy_of=forked.copy_of)
    assert again.status is RunStatus.COMPLETED, again.error
    assert again.payload["outputs"]["bad"]["stdout"] == "1\n\n"
    file.write_text(
        "inputs: {who: {type: string, required: true}}\n" + text.replace('"false"', '"echo {{ inputs.who }}"')
    )
    records = bench.fabric.records
    with pytest.raises(InvalidInputs, match="who is missing"):
        await fork_workflow(records, bench.workflows)(again.run_id)
    forked = await fork_workflow(records, bench.workflows, lambda _: {"who": "Kim"})(again.run_id)
    third = await bench.fabric.execute_task(forked.task, then=forked.then, copy_of=forked.copy_of)
    assert third.payload["outputs"]["bad"]["stdout"] == "Kim\n", "and what has not changed was not done again"
    assert (Path(third.workspace) / "ran").read_text() == "x\n"


async def test_files_are_written_and_read_without_a_shell(bench: Bench) -> None:
    text = 'it\'s "quoted" $HOME\nand long\n'
    result = await bench.run(
        {"id": "write", "action": "write-file", "inputs": {"path": "a/b.txt", "content": "{{ inputs.text }}"}},
        {"id": "read", "action": "read-file", "depends_on": ["write"], "inputs": {"path": "{{ write.path }}"}},
        inputs={"text": "string"},
        given={"text": text},
    )
    assert result.status is RunStatus.COMPLETED, result.error
    assert result.payload["outputs"]["read"]["content"] == text
    assert (Path(result.workspace) / "a/b.txt").read_text() == text


async def test_output_that_was_cut_says_so_and_exit_codes_can_be_accepted(bench: Bench) -> None:
    result = await bench.run(
        command("much", "seq 1 200000"),
        command("none", "grep nothing /dev/null", inputs={"accept_exit_codes": [1]}),
    )
    assert result.status is RunStatus.COMPLETED, result.error
    assert result.payload["outputs"]["much"]["truncated"] is True
    assert result.payload["outputs"]["none"] == {"exit_code": 1, "stdout": "", "stderr": ""}


async def test_nobody_stays_for_a_time_out_of_a_question(bench: Bench) -> None:
    result = await asyncio.wait_for(
        bench.run({"id": "ok", "action": "approve", "timeout": 3600, "inputs": {"message": "Go?"}}), PATIENCE_S
    )
    assert result.status is RunStatus.WAITING


async def test_a_signal_that_nobody_will_ever_wait_for_is_refused(bench: Bench) -> None:
    result = await bench.run({"id": "news", "action": "wait", "inputs": {"event": "ready"}})
    with pytest.raises(InvalidInputs, match="waits for a signal 'raedy'") as refused:
        await signal_workflow(bench.fabric.records)(result.run_id, "raedy", {}, by="kim")
    with pytest.raises(InvalidInputs, match="waits for a signal 'other'") as unlike:
        await signal_workflow(bench.fabric.records)(result.run_id, "other", {}, by="kim")
    assert unlike.value.hint == "It waits for ready."
    with pytest.raises(InvalidInputs, match="The data holds too large a number"):
        await signal_workflow(bench.fabric.records)(result.run_id, "ready", {"n": [2**70]}, by="kim")
    assert "ready" in refused.value.hint


async def test_what_a_workflow_calls_is_kept_too_whatever_becomes_of_the_files(tmp_path: Path) -> None:
    (tmp_path / "agent-definitions").mkdir()
    (tmp_path / "agent-definitions" / "namer.yaml").write_text(AGENT)
    files = tmp_path / "workflow-definitions"
    files.mkdir()
    (files / "inner.yaml").write_text(
        "name: inner\nsteps:\n  - {id: ask, action: invoke-agent, agent: namer, inputs: {thing: a dog}}\n"
        "outputs: {name: '{{ ask.name }}'}\n"
    )
    async with _bench(tmp_path, Script(turns=(Finish(name="Rex"),))) as bench:
        result = await bench.run(
            {"id": "news", "action": "wait", "inputs": {"event": "go"}},
            {"id": "call", "action": "workflow", "workflow": "inner", "depends_on": ["news"]},
        )
        assert result.status is RunStatus.WAITING
        (files / "inner.yaml").unlink()
        (tmp_path / "agent-definitions" / "namer.yaml").write_text("nonsense")
        await signal_workflow(bench.fabric.records)(result.run_id, "go", {}, by="kim")
        result = await bench.fabric.resume_run(result.run_id)
        assert result.status is RunStatus.COMPLETED, result.error
        assert result.payload["outputs"]["call"] == {"name": "Rex"}
