"""An encrypted run tells nothing to whoever has the disk but not the keys; with them it works as any other."""

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.audit.collect_garbage import CollectGarbage
from agent_fabric.application.ports.approvals import Answer
from agent_fabric.application.ports.runs import CANCEL, SIGNAL, RunRepository
from agent_fabric.domain.approvals.answers import Decision
from agent_fabric.domain.audit.key import UNKEYED
from agent_fabric.domain.errors import RunKeyMissing, StoreUnavailable
from agent_fabric.domain.events import Event, RunCreated
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.models.messages import LLMResponse, Message
from agent_fabric.domain.runs.task import Budget, Profile, RunResult, RunStatus, Task
from agent_fabric.domain.workflows.events import SignalReceived, StepFinished, StepStarted, StepStatus
from agent_fabric.infrastructure.clock import RandomIds, SystemClock
from agent_fabric.infrastructure.models.embeddings.vectors import BYTES_EACH
from agent_fabric.infrastructure.persistence.approvals.questions import SqlApprovalRepository
from agent_fabric.infrastructure.persistence.audit.audit_chain import SqlAuditChain
from agent_fabric.infrastructure.persistence.audit.chain_writer import ChainWriter
from agent_fabric.infrastructure.persistence.runs.log_inspector import SqlLogInspector
from agent_fabric.infrastructure.persistence.runs.retention import SqlRetentionStore
from agent_fabric.infrastructure.persistence.runs.run_catalogue import SqlRunCatalogue
from agent_fabric.infrastructure.persistence.runs.run_reader import SqlRunReader
from agent_fabric.infrastructure.persistence.runs.run_vectors import SqlRunVectors
from agent_fabric.infrastructure.persistence.secrets.run_encryption import reseal_runs
from agent_fabric.infrastructure.persistence.store import Store
from agent_fabric.infrastructure.runs.log.jsonl_log import JsonlRunLog
from agent_fabric.infrastructure.secrets.keyring import open_keyring
from agent_fabric.testing.fakes import FrozenClock, PermissivePolicy
from agent_fabric.testing.workbench import Workbench, workbench
from contract.run_repository_contract import (
    OTHER,
    RUN,
    WORKFLOW,
    RunRepositoryContract,
    child_of,
    completed,
    in_lanes,
    log,
    run_created,
)
from integration.persistence.five_steps import answers_of, looking_pack
from integration.persistence.sealed_folder import EncryptedRuns, SealedFolder, leaks
from unit.application.approvals.test_asking_a_person import Outside
from unit.application.test_engine_on_stand_ins import answers

SECRET = replace(run_created("a secret prompt"), encrypted=True)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[SealedFolder]:
    made = SealedFolder(tmp_path)
    yield made
    made.close()


class TestEncryptedRuns(RunRepositoryContract):
    """Everything that is promised of runs holds for encrypted ones."""

    @pytest.fixture
    def runs(self, tmp_path: Path) -> Iterator[RunRepository]:
        folder = SealedFolder(tmp_path)
        yield EncryptedRuns(folder.runs)
        folder.close()


def task(prompt: str, *, encrypted: bool = True) -> Task:
    return Task(prompt=prompt, model_key="quality", budget=Budget.of(Profile.TASK), encrypted=encrypted)


def sending(folder: SealedFolder, *turns: tuple[str, str]) -> Workbench:
    """A bench on the real store whose one tool needs somebody's agreement."""
    bench = workbench(
        Outside().pack,
        answers(*turns),
        runs=folder.runs,  # type: ignore[arg-type]  # any repository
        policy=PermissivePolicy(frozenset({"send"})),
    )
    object.__setattr__(bench.execute_task, "ids", RandomIds())
    return bench


async def finished(folder: SealedFolder, prompt: str = "a secret prompt", *, encrypted: bool = True) -> RunId:
    """Return a run that has gone through a few turns with long texts."""
    bench = workbench(lambda _: looking_pack(Counter()), answers_of(3), runs=folder.runs)  # type: ignore[arg-type]  # any repository
    object.__setattr__(bench.execute_task, "ids", RandomIds())
    result = await bench.execute_task(task(prompt, encrypted=encrypted))
    assert result.status is RunStatus.COMPLETED
    Path(folder.layout.run_dir(result.run_id)).mkdir(parents=True, exist_ok=True)
    return result.run_id


MARKS = {
    name: f"MARKER-{name}-71c3a9e0"
    for name in (
        "prompt",
        "args",
        "result",
        "long",
        "summary",
        "reason",
        "answer",
        "input",
        "output",
        "signal",
        "cancel",
    )
}


async def test_no_file_of_the_folder_tells_anything_of_an_encrypted_run(folder: SealedFolder) -> None:
    long = " ".join(f"{MARKS['long']} {number}" for number in range(2_000))
    send = json.dumps({"text": f"{MARKS['args']} {long}"})
    bench = sending(folder, ("send", send), ("finish_task", json.dumps({"summary": MARKS["summary"]})))
    waiting = await bench.execute_task(task(f"{MARKS['prompt']} {long}"))
    assert waiting.status is RunStatus.WAITING
    book = SqlApprovalRepository(folder.store, FrozenClock())
    (card,) = await book.list()
    assert MARKS["args"] in card.args["text"]
    answer = Answer(
        decision=Decision.APPROVE, by="ada", via="test", reason=MARKS["reason"], args={"text": MARKS["answer"]}
    )
    await book.answer(card.approval_id, answer)
    # Before anybody reads it: the answer lies in the inbox.
    assert leaks(folder.layout.root, list(MARKS.values())) == []
    done = await bench.resume_run(waiting.run_id)
    assert (done.status, done.payload["summary"]) == (RunStatus.COMPLETED, MARKS["summary"])
    assert (await book.find(card.approval_id)).decided_because == MARKS["reason"]

    await a_workflow(folder)
    assert leaks(folder.layout.root, list(MARKS.values())) == []
    assert not list(folder.layout.root.rglob("runlog.jsonl"))
    (line,) = folder.layout.run_index.read_text().splitlines()
    assert json.loads(line) == {
        "run_id": done.run_id,
        "ts": json.loads(line)["ts"],
        "status": "completed",
        "prompt": "(encrypted)",
        "specialist_ids": [],
        "summary": "(encrypted)",
    }


async def a_workflow(folder: SealedFolder) -> None:
    """A workflow with a child, a signal that nobody has read yet, and a wish that it ends."""
    frozen = replace(WORKFLOW, inputs={"given": MARKS["input"]})
    held = await folder.runs.create(RUN, log(replace(SECRET, prompt=MARKS["prompt"], workflow=frozen)))
    child = child_of(RUN, "one")
    secret_child = replace(SECRET, prompt=MARKS["input"], parent=child.created.body.parent)  # type: ignore[union-attr]  # it is a run's first event
    started = StepStarted(
        step_id="one", action="workflow", attempt=1, inputs={"a": MARKS["input"]}, child_run_id=child.run_id
    )
    await held.append(in_lanes(1, ("one", started)), children=[replace(child, created=log(secret_child)[0])])
    outputs = {"b": MARKS["output"] * 500}
    ended = StepFinished(step_id="one", attempt=1, status=StepStatus.SUCCESS, outputs=outputs)
    await held.append(in_lanes(2, ("one", ended)))
    signal = SignalReceived(name="news", data={"c": MARKS["signal"]}, by="ada")
    await held.append([Event(3, 2_000.0, None, "", signal)])
    await folder.runs.post(RUN, SIGNAL, {"name": "more", "data": {"d": MARKS["signal"]}, "by": "ada"})
    await folder.runs.post(RUN, CANCEL, {"by": "ada", "reason": MARKS["cancel"]})
    rows = await held.unread()
    assert [row.payload.get("reason") for row in rows] == [None, MARKS["cancel"]]
    await held.release()
    (first,) = await folder.runs.read(child.run_id)
    assert isinstance(first.body, RunCreated)
    assert first.body.prompt == MARKS["input"]
    read = await folder.runs.read(RUN)
    assert read[2].body == ended
    checkpoints = folder.ask("SELECT step_id, outputs FROM workflow_checkpoints")
    assert checkpoints == [(None, None)]
    assert folder.ask("SELECT * FROM data_lineage") == []


def test_the_look_for_leaks_finds_what_a_run_in_the_clear_leaves(folder: SealedFolder) -> None:
    async def go() -> RunId:
        return await finished(folder, "MARKER-plain " * 2_000, encrypted=False)

    asyncio.run(go())
    found = leaks(folder.layout.root, ["MARKER-plain", "a long look a long look"])
    assert {place.split(": ")[0] for place in found} >= {"fabric.db-wal (compressed)", "run_index.jsonl"}


async def test_nothing_of_an_encrypted_run_is_kept_for_searches(folder: SealedFolder) -> None:
    secret, plain = await finished(folder), await finished(folder, "a plain prompt", encrypted=False)
    catalogue = SqlRunCatalogue(folder.store)
    vectors = SqlRunVectors(folder.store, catalogue)
    missing = await vectors.missing("test", dimensions=4)
    texts = await vectors.texts(missing)
    assert ["plain" in each.text for each in texts] == [True]
    await vectors.keep("test", texts, [b"\0" * 4 * BYTES_EACH])
    assert folder.ask("SELECT run_id FROM run_vectors JOIN runs ON number = run") == [(plain,)]
    assert leaks(folder.layout.root, ["a secret prompt"]) == []
    # Whoever has the key finds it by its words; other runs do not, since their logs may be in the clear.
    assert [record.run_id for record in await catalogue.search("secret", limit=5)] == [secret]
    assert await SqlRunCatalogue(folder.store, encrypted=False).search("secret", limit=5) == []


async def test_two_runs_share_no_blobs(folder: SealedFolder) -> None:
    await finished(folder)
    ((once,),) = folder.ask("SELECT count(*) FROM blobs")
    assert once > 0
    await finished(folder)
    assert folder.ask("SELECT count(*) FROM blobs") == [(2 * once,)]


@pytest.mark.parametrize(
    "tampering",
    [
        # Each keeps the hashes out of it: reading must notice by itself.
        "UPDATE events SET payload = (SELECT payload FROM events WHERE run = 1 AND seq = 6) WHERE run = 1 AND seq = 4",
        "UPDATE events SET payload = (SELECT payload FROM events WHERE run = 2 AND seq = 4) WHERE run = 1 AND seq = 4",
        "UPDATE events SET kind = 'run_failed' WHERE run = 1 AND kind = 'run_complete'",
        "UPDATE events SET payload = CAST('{\"summary\":\"forged\"}' AS BLOB) WHERE run = 1 AND kind = 'run_complete'",
        "UPDATE events SET payload = CAST(substr(payload, 1, 40) || substr(payload, 42) AS BLOB) WHERE seq = 4",
        "UPDATE blobs SET data = substr(data, 2)",
        "DELETE FROM blobs",
        "UPDATE run_keys SET key = (SELECT key FROM run_keys WHERE run = 2)",
    ],
)
async def test_rows_that_were_changed_or_swapped_are_refused(folder: SealedFolder, tampering: str) -> None:
    run_id = await finished(folder)
    await finished(folder)
    folder.tamper(tampering)
    with pytest.raises(StoreUnavailable, match="The store is damaged"):
        await folder.runs.read(run_id)
    condition = await SqlLogInspector(folder.store).inspect(run_id)
    assert condition.damage


async def test_a_forged_answer_in_the_inbox_is_refused(folder: SealedFolder) -> None:
    held = await folder.runs.create(RUN, log(SECRET))
    waiting = held.receive()
    folder.tamper("INSERT INTO inbox (run, kind, payload, created_at) VALUES (1, 'approval', CAST('{}' AS BLOB), 0)")
    with pytest.raises(StoreUnavailable, match="not sealed"):
        await asyncio.wait_for(waiting, 60)
    await held.release()


async def test_a_run_goes_on_after_a_crash(folder: SealedFolder) -> None:
    seen = 0
    answer = answers_of(4)

    async def dies(messages: Sequence[Message]) -> LLMResponse:
        nonlocal seen
        seen += 1
        if seen == 3:
            raise asyncio.CancelledError  # as if the process ended
        return await answer(messages)

    bench = workbench(lambda _: looking_pack(Counter()), dies, runs=folder.runs)  # type: ignore[arg-type]  # any repository
    ids: list[RunId] = []
    with pytest.raises(asyncio.CancelledError):
        await bench.execute_task(task("a secret prompt"), on_created=ids.append)
    fresh = folder.repository(folder.open())
    again = workbench(lambda _: looking_pack(Counter()), answer, runs=fresh)  # type: ignore[arg-type]  # any repository
    result: RunResult = await again.resume_run(ids[0])
    assert (result.status, result.payload["summary"]) == (RunStatus.COMPLETED, "seen it all")
    assert not Path(folder.layout.runlog(ids[0])).exists()


def strangers(folder: SealedFolder, tmp_path: Path) -> Store:
    """Return the same store, opened by somebody with other keys."""
    ring = open_keyring({"XDG_DATA_HOME": str(tmp_path / "elsewhere")})
    ring.seal(b"")
    return folder.open(lambda: ring)


async def test_without_the_key_a_run_is_listed_but_cannot_be_read(folder: SealedFolder, tmp_path: Path) -> None:
    secret, plain = await finished(folder), await finished(folder, "a plain prompt", encrypted=False)
    store = strangers(folder, tmp_path)
    runs, catalogue, reader = folder.repository(store), SqlRunCatalogue(store), SqlRunReader(store)
    listed = {record.run_id: record for record in await catalogue.recent(limit=10)}
    assert listed[plain].prompt == "a plain prompt"
    assert (listed[secret].prompt, listed[secret].summary) == ("(encrypted)", "(encrypted)")
    assert listed[secret].status is RunStatus.COMPLETED
    assert listed[secret].updated_at > 0 < listed[secret].created_at
    assert await reader.status(secret) is RunStatus.COMPLETED
    for attempt in (
        runs.read(secret),
        runs.take(secret),
        runs.post(secret, CANCEL, {"by": "eve", "reason": ""}),
        reader.page(secret, after=-1, limit=5),
        reader.newest(secret),
    ):
        with pytest.raises(RunKeyMissing, match=f"Run {secret} is encrypted and its key is not here") as raised:
            await attempt
        assert raised.value.hint
    assert (await SqlLogInspector(store).inspect(secret)).damage == ()
    assert (await SqlAuditChain(store, ChainWriter(UNKEYED)).verify()).damage == ()


async def test_a_question_can_be_seen_but_not_answered_without_the_key(folder: SealedFolder, tmp_path: Path) -> None:
    bench = sending(folder, ("send", '{"text": "a secret"}'))
    await bench.execute_task(task("a secret prompt"))
    book = SqlApprovalRepository(strangers(folder, tmp_path), FrozenClock())
    (card,) = await book.list()
    assert (card.tool, card.args, card.reason, card.subject) == ("send", {}, "(encrypted)", "(encrypted)")
    with pytest.raises(RunKeyMissing):
        await book.answer(card.approval_id, Answer(decision=Decision.APPROVE, by="eve", via="test"))
    (still,) = await SqlApprovalRepository(folder.store, FrozenClock()).list()
    assert still.args == {"text": "a secret"}


async def test_a_start_without_the_key_looks_after_the_logs_of_other_runs(folder: SealedFolder, tmp_path: Path) -> None:
    for run_id, created in ((RUN, SECRET), (OTHER, run_created("a plain prompt"))):
        held = await folder.runs.create(run_id, log(created))
        await held.append(log(completed(run_id), first=1))
        await held.release()
    folder.tamper(
        "INSERT OR REPLACE INTO drivers VALUES (1, 'somebody who died', 1.0), (2, 'somebody who died', 1.0)",
    )
    Path(folder.layout.runlog(OTHER)).unlink(missing_ok=True)
    await folder.repository(strangers(folder, tmp_path)).catch_up()
    assert len(Path(folder.layout.runlog(OTHER)).read_text().splitlines()) == 2
    assert folder.ask("SELECT run FROM drivers") == [(1,)]
    await folder.repository(folder.open()).catch_up()
    assert folder.ask("SELECT run FROM drivers") == []
    assert not Path(folder.layout.runlog(RUN)).exists()


async def test_rotated_keys_open_what_was_sealed_before_and_after(folder: SealedFolder, tmp_path: Path) -> None:
    runs = [await finished(folder) for _ in range(3)]
    before = [key for (key,) in folder.ask("SELECT key FROM run_keys ORDER BY run")]
    folder.keyring.rotate()
    runs.append(await finished(folder))
    assert await reseal_runs(folder.store, folder.keyring) == 3
    assert await reseal_runs(folder.store, folder.keyring) == 0
    after = [key for (key,) in folder.ask("SELECT key FROM run_keys ORDER BY run")]
    assert not set(before) & set(after)
    newest = folder.keyring.generation
    assert {folder.keyring.generation_of(bytes(key)) for key in after} == {newest}
    for run_id in runs:
        assert len(await folder.runs.read(run_id)) > 5


async def test_keys_are_sealed_anew_in_parts_while_runs_go_on(folder: SealedFolder) -> None:
    many = [RunId(f"{number:08d}-0000-4000-8000-000000000000") for number in range(450)]
    for run_id in many:
        await (await folder.runs.create(run_id, log(SECRET))).release()
    held, _, _ = await folder.runs.take(many[0])
    folder.keyring.rotate()
    other = folder.open()
    sealing = asyncio.ensure_future(reseal_runs(other, folder.keyring))
    for seq in range(1, 20):
        await held.append(log(completed(many[0]), first=seq))
    assert await sealing == 450
    await held.release()
    assert len(await folder.runs.read(many[0])) == 20


async def test_a_key_that_nothing_opens_stops_the_rotation_and_is_named(folder: SealedFolder) -> None:
    first, second = await finished(folder), await finished(folder)
    folder.tamper("UPDATE run_keys SET key = CAST('nonsense' AS BLOB) WHERE run = 2")
    folder.keyring.rotate()
    with pytest.raises(RunKeyMissing, match=second):
        await reseal_runs(folder.store, folder.keyring)
    ((kept,),) = folder.ask("SELECT key FROM run_keys WHERE run = 1")
    assert folder.keyring.generation_of(bytes(kept)) == folder.keyring.generation
    assert await folder.runs.read(first)


async def test_a_run_that_is_removed_takes_its_key_and_its_blobs_with_it(folder: SealedFolder) -> None:
    old, plain = await finished(folder), await finished(folder, "a plain prompt", encrypted=False)
    ((key,),) = folder.ask("SELECT key FROM run_keys")
    attic = SqlRetentionStore(folder.store, folder.layout.run_dir, SystemClock(), ChainWriter(UNKEYED))
    assert await attic.sweep() == 0
    assert len(await folder.runs.read(old)) > 5, "the sweep left what belongs to it"
    assert await attic.remove(old, by="test", reason="old") > 0
    assert folder.ask("SELECT count(*) FROM run_keys") == [(0,)]
    assert folder.ask("SELECT count(*) FROM blobs WHERE length(hash) > 32") == [(0,)]
    assert len(await folder.runs.read(plain)) > 5
    assert (await SqlAuditChain(folder.store, ChainWriter(UNKEYED)).verify()).damage == ()
    await attic.sweep()
    assert leaks(folder.layout.root, [bytes(key).decode()]) == []


async def no_changes() -> int:
    """Free nothing: no run worked in a project folder."""
    return 0


async def test_garbage_collection_works_without_the_key(folder: SealedFolder, tmp_path: Path) -> None:
    await finished(folder)
    attic = SqlRetentionStore(strangers(folder, tmp_path), folder.layout.run_dir, SystemClock(), ChainWriter(UNKEYED))
    collected = await CollectGarbage(attic, FrozenClock(time=9e12), no_changes)(older_than_s=1, by="test")
    assert len(collected.runs) == 1
    assert folder.ask("SELECT count(*) FROM run_keys") == [(0,)]


async def test_a_log_is_written_in_the_clear_only_when_it_is_exported(folder: SealedFolder) -> None:
    run_id = await finished(folder)
    assert not Path(folder.layout.runlog(run_id)).exists()
    path = JsonlRunLog(folder.layout).export(run_id, await folder.runs.read(run_id))
    first = json.loads(path.read_text().splitlines()[0])
    assert first["payload"]["prompt"] == "a secret prompt"
    assert path.stat().st_mode & 0o077 == 0


async def test_a_run_whose_key_was_destroyed_says_so(folder: SealedFolder) -> None:
    run_id = await finished(folder)
    folder.tamper("DELETE FROM run_keys")
    with pytest.raises(RunKeyMissing, match=run_id):
        await folder.runs.read(run_id)
    (record,) = await SqlRunCatalogue(folder.store).recent(limit=1)
    assert record.prompt == "(encrypted)"


def test_nothing_is_imported_for_encryption_before_a_run_needs_it(tmp_path: Path) -> None:
    program = f"""
import asyncio, sys
from agent_fabric.bootstrap.records import open_records
from contract.run_repository_contract import RUN, completed, log, run_created

async def go():
    records = open_records(__import__("pathlib").Path({str(tmp_path)!r}))
    held = await records.runs.create(RUN, log(run_created()))
    await held.append(log(completed(RUN), first=1))
    await held.release()
    assert len(await records.runs.read(RUN)) == 2
    assert len(await records.catalogue.recent(limit=5)) == 1
    records.close()

asyncio.run(go())
assert "cryptography" not in sys.modules
"""
    tests = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": tests, "HOME": str(tmp_path), "XDG_DATA_HOME": ""}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, timeout=30)


async def test_runs_in_the_clear_need_no_keyring(tmp_path: Path) -> None:
    def never() -> Any:
        raise AssertionError

    folder = SealedFolder(tmp_path)
    try:
        runs = folder.repository(folder.open(never))
        held = await runs.create(RUN, log(run_created()))
        await held.append(log(completed(RUN), first=1))
        await held.release()
        assert len(await runs.read(RUN)) == 2
    finally:
        folder.close()
