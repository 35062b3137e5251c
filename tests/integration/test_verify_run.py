"""Verifying a run on a real store: what holds, and that every way of tampering is noticed."""

import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import pytest

from agent_fabric.application.ports.web import Page
from agent_fabric.application.runs.verify_run import Verification
from agent_fabric.bootstrap.records import Records, open_records
from agent_fabric.bootstrap.runs import verify_run
from agent_fabric.domain.errors import RunNotFound
from agent_fabric.domain.events import (
    Body,
    Event,
    PackStarted,
    RunCancelled,
    RunCompleted,
    RunCreated,
    RunFailed,
    SpecialistsRecruited,
    ToolCalled,
    ToolErred,
    ToolReturned,
)
from agent_fabric.domain.evidence.research_tables import EVIDENCE_COLUMNS, table_text, with_evidence
from agent_fabric.domain.ids import CallId, LaneId, RunId, SpecialistId
from agent_fabric.domain.packs.contents import FinishSpec
from agent_fabric.domain.runs.task import Budget, Profile
from agent_fabric.domain.runs.verification import ClaimStatus
from agent_fabric.domain.tools.findings import Source
from agent_fabric.infrastructure.packs.engineering import FINISH_ENGINEERING
from agent_fabric.infrastructure.packs.research import FINISH_RESEARCH
from agent_fabric.infrastructure.persistence.runs.codec import pack
from agent_fabric.testing.workbench import SETTINGS

pytestmark = pytest.mark.proves("AF-134", "AF-126")

RUN = RunId("00000000-0000-4000-8000-00000000000a")
URL = "https://example.org/fox"
TEXT = "The quick brown fox jumps over the lazy dog. " * 300
"""Long enough to be kept in a blob."""
QUOTE = "quick brown fox jumps"
PAGE = Page(
    url=URL,
    final_url=URL,
    status=200,
    content_type="text/html",
    body=f"<p>{TEXT}</p>".encode(),
    title="Foxes",
    text=TEXT,
    cut=False,
)
REPORT = f"It jumps ({URL})."
CITED: Mapping[str, Any] = {
    "summary": f"It jumps, says {URL}.",
    "deliverables": ["report.md"],
    "citations": [{"url": URL, "quote": QUOTE, "claim": "it jumps"}],
}


def began(name: str, workspace: Path, finish: FinishSpec, *others: str) -> tuple[Body, ...]:
    who = SpecialistId(name)
    everybody = (who, *map(SpecialistId, others))
    return (
        RunCreated(
            prompt="Does the fox jump?",
            specialist_id=who,
            model_key="quality",
            network_allowed=True,
            profile=Profile.TASK,
            budget=Budget.of(Profile.TASK),
            workspace=str(workspace),
            sandbox="C",
            policy_version="p",
            fabric_version="v",
        ),
        SpecialistsRecruited(
            specialist_id=who,
            specialist_ids=everybody,
            required_capabilities=(),
            routing_method="explicit",
            is_task_force=len(everybody) > 1,
        ),
        PackStarted(
            specialist_id=who,
            pack_index=0,
            system_prompt="p",
            opening="o",
            tools=(),
            finish=finish,
            model=SETTINGS,
        ),
    )


def used(number: int, tool: str, args: Mapping[str, Any], **result: Any) -> tuple[Body, ...]:
    call = CallId(f"call_{number}")
    return (
        ToolCalled(tool=tool, args=args, call_id=call),
        ToolReturned(tool=tool, call_id=call, **{"result": {}, **result}),
    )


def ended(name: str, payload: Mapping[str, Any]) -> tuple[Body, ...]:
    finished = used(99, "finish_task", payload, result=payload)
    who = (SpecialistId(name),)
    return (
        *finished,
        RunCompleted(run_id=RUN, specialist_ids=who, task_force_mode="sequential", payload=payload),
    )


@dataclass
class Case:
    """A fabric folder with one run."""

    records: Records

    @property
    def run_dir(self) -> Path:
        return Path(self.records.layout.run_dir(RUN))

    @property
    def workspace(self) -> Path:
        return self.run_dir / "workspace"

    async def record(self, name: str, *bodies: Body) -> None:
        in_lane = (ToolCalled, ToolReturned, ToolErred)
        events = [
            Event(seq, 1_700_000_000.0 + seq, LaneId(name) if isinstance(body, in_lane) else None, "", body)
            for seq, body in enumerate(bodies)
        ]
        await self.records.layout.prepare(RUN)
        held = await self.records.runs.create(RUN, events)
        await held.release()

    async def research(
        self,
        payload: Mapping[str, Any] = CITED,
        finish: FinishSpec = FINISH_RESEARCH,
        *,
        others: Sequence[str] = (),
        end: Body | None = None,
    ) -> Source:
        await self.records.layout.prepare(RUN)
        source = await self.records.snapshots_for(RUN).keep(PAGE, fetched_at=1_700_000_000.0)
        rows = with_evidence([], source, QUOTE, "it jumps", 1_700_000_000.0)
        (self.workspace / "report.md").write_text(REPORT)
        (self.workspace / "evidence.csv").write_text(table_text(EVIDENCE_COLUMNS, rows))
        (self.workspace / "screening_log.csv").write_text("url\nhttps://not-fetched.example\n")
        await self.record(
            "research",
            *began("research", self.workspace, finish, *others),
            *used(1, "fetch_url", {"url": URL}, sources=(source,)),
            *used(
                2,
                "write_file",
                {"path": "./report.md", "content": REPORT},
                cites={"report.md": [URL]},
                wrote=("./report.md",),
            ),
            *used(3, "record_evidence", {"url": URL, "quote": QUOTE, "claim": "it jumps"}, result={"rows": 1}),
            *(ended("research", payload) if end is None else (*ended("research", payload)[:-1], end)),
        )
        return source

    async def engineering(self, *work: Body, payload: Mapping[str, Any] | None = None) -> None:
        begun = began("engineering", self.workspace, FINISH_ENGINEERING)
        await self.record("engineering", *begun, *work, *ended("engineering", payload or {"summary": "done"}))

    async def verified(self) -> Verification:
        return await verify_run(self.records)(RUN)

    async def failures(self) -> list[tuple[str, str]]:
        found = await self.verified()
        failed = [(claim.about, claim.detail) for claim in found.claims if claim.standing is ClaimStatus.FAILS]
        assert found.holds == (not failed)
        return failed

    def execute(self, statement: str, *values: bytes) -> None:
        """Change the store behind everybody's back."""
        connection = apsw.Connection(str(self.records.layout.database))
        connection.execute(statement, values)
        connection.close()


@pytest.fixture
async def case(tmp_path: Path) -> AsyncIterator[Case]:
    records = open_records(tmp_path / ".fabric")
    yield Case(records)
    records.close()


@pytest.mark.proves("DB-2")
async def test_an_honest_research_run_holds_in_every_part(case: Case) -> None:
    source = await case.research()
    found = await case.verified()
    assert [(claim.about, claim.standing.value) for claim in found.claims] == [
        ("log", "holds"),
        ("end", "holds"),
        ("calls", "holds"),
        ("outside", "holds"),
        ("citation 1", "holds"),
        ("result of research", "holds"),
        ("file report.md", "holds"),
        ("report.md", "holds"),
        ("evidence.csv", "holds"),
        (f"page {source.sha256[:12]}", "holds"),
        ("words", "open"),
    ]
    assert found.holds
    assert len(found.log.head) == 64


async def test_a_run_that_is_not_there_is_not_found(case: Case) -> None:
    with pytest.raises(RunNotFound):
        await case.verified()


@pytest.mark.parametrize(
    ("change", "about", "said"),
    [
        ({"citations": [{"url": URL, "quote": "the fox sleeps all day"}]}, "citation 1", "the quote is not on"),
        ({"citations": [{"url": URL}]}, "citation 1", "the quote is not on"),
        ({"citations": [{"url": "https://o.org", "quote": QUOTE}]}, "citation 1", "https://o.org was not fetched"),
        ({"limitations": "see https://o.org"}, "result of research", "https://o.org was not fetched"),
        ({"deliverables": ["gone.md"]}, "file gone.md", "there is no such file"),
        ({"deliverables": ["../../../etc/passwd"]}, "file ../../../etc/passwd", "there is no such file"),
        ({"unproven": "nobody knows"}, "result of research", "it is marked as unproven: nobody knows"),
    ],
)
async def test_a_claim_that_the_log_does_not_bear_out_fails(
    case: Case, change: Mapping[str, Any], about: str, said: str
) -> None:
    await case.research({**CITED, **change})
    ((failed, detail),) = await case.failures()
    assert failed == about
    assert said in detail


async def test_a_report_is_checked_as_it_is_today(case: Case) -> None:
    await case.research()
    (case.workspace / "report.md").write_text("See https://made-up.example/x.")
    assert await case.failures() == [("report.md", "https://made-up.example/x was not fetched in this run")]


async def test_the_evidence_table_is_checked_row_by_row(case: Case) -> None:
    await case.research()
    table = case.workspace / "evidence.csv"
    table.write_text(table.read_text().replace(QUOTE, "quick brown fox sleeps"))
    ((about, detail),) = await case.failures()
    assert about == "evidence.csv row 1"
    assert "quick brown fox sleeps" in detail
    table.write_text("something else\n")
    assert [about for about, _ in await case.failures()] == ["evidence.csv"]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda table: table.unlink(), "1 row was recorded, but it is gone or cannot be read"),
        (lambda table: table.write_bytes(b""), "1 row was recorded, but it has 0"),
        (lambda table: table.write_bytes(b"a\0b"), "1 row was recorded, but it is gone or cannot be read"),
        (lambda table: (table.unlink(), table.mkdir()), "1 row was recorded, but it is gone or cannot be read"),
        (lambda table: table.write_text(table.read_text().split("\n")[0]), "1 row was recorded, but it has 0"),
    ],
)
async def test_evidence_that_was_recorded_and_is_gone_is_missed(
    case: Case, spoil: Callable[[Path], object], said: str
) -> None:
    await case.research()
    spoil(case.workspace / "evidence.csv")
    assert await case.failures() == [("evidence.csv", said)]


async def test_a_report_that_became_a_folder_is_no_report(case: Case) -> None:
    await case.research()
    (case.workspace / "report.md").unlink()
    (case.workspace / "report.md").mkdir()
    assert await case.failures() == [("file report.md", "the run wrote a file, but now it is a folder")]


async def test_a_folder_may_be_a_deliverable(case: Case) -> None:
    await case.research({**CITED, "deliverables": ["figures"]})
    (case.workspace / "figures").mkdir()
    assert await case.failures() == []


@pytest.mark.parametrize("blank", [" ", "\n"])
async def test_a_report_that_is_too_long_is_checked_in_part_and_that_is_said(
    case: Case, blank: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_fabric.application.runs.verify_run.MAX_REPORT_BYTES", 1_000)
    await case.research()
    text = f"{URL}{blank}".encode() * 60
    (case.workspace / "report.md").write_bytes(text)
    found = [claim for claim in (await case.verified()).claims if claim.about == "report.md"]
    assert [claim.standing for claim in found] == [ClaimStatus.HOLDS, ClaimStatus.OPEN]
    unread = len(text) - 1_000 // (len(URL) + 1) * (len(URL) + 1)
    assert found[1].detail == f"its last {unread} bytes were not checked: the file is too long"
    assert await case.failures() == []


async def test_a_snapshot_that_is_gone_or_changed_is_noticed(case: Case) -> None:
    source = await case.research()
    file = case.run_dir / "snapshots" / f"{source.sha256}.html"
    file.write_bytes(PAGE.body + b" ")
    ((about, detail),) = await case.failures()
    assert about == f"page {source.sha256[:12]}"
    assert "is not what was fetched" in detail
    file.unlink()
    assert [detail for _, detail in await case.failures()] == [f"{URL}: the snapshot is gone"]


TAMPERING: Sequence[tuple[Callable[[Case], None], str]] = (
    (lambda case: case.execute("UPDATE events SET payload = CAST('{}' AS BLOB) WHERE seq = 7"), "event 7"),
    (lambda case: case.execute("UPDATE events SET ts = ts + 1 WHERE seq = 2"), "event 2 (pack_start)"),
    (lambda case: case.execute("UPDATE events SET hash = zeroblob(32) WHERE seq = 3"), "event 3"),
    (lambda case: case.execute("DELETE FROM events WHERE seq = 4"), "event 4 is missing"),
    (
        lambda case: case.execute("UPDATE blobs SET data = ?", b"\x78\x01\x01\x00\x00\xff\xff\x00\x00\x00\x01"),
        "event 4",
    ),
    (lambda case: case.execute("DELETE FROM blobs"), "event 4 (tool_result) cannot be read"),
    (lambda case: case.execute("DELETE FROM events WHERE seq = 11"), "the store says that the run is completed"),
    (lambda case: case.execute("UPDATE runs SET status = 'failed'"), "the store says that the run is failed"),
)


@pytest.mark.parametrize("number", range(len(TAMPERING)))
async def test_a_log_that_was_changed_is_noticed(case: Case, number: int) -> None:
    await case.research()
    tamper, said = TAMPERING[number]
    tamper(case)
    failed = dict(await case.failures())
    assert said in failed["log"]


async def test_a_page_that_was_changed_in_the_store_is_noticed_though_its_name_fits(case: Case) -> None:
    await case.research()
    forged = pack(TEXT.replace("jumps", "sleeps").encode())
    digest = hashlib.sha256(TEXT.encode()).digest()
    case.execute("UPDATE blobs SET data = ? WHERE hash = ?", forged, digest)
    ((about, detail),) = await case.failures()
    assert about == "log"
    assert "is missing or not what it was" in detail
    assert (await case.verified()).status == "completed"


async def test_a_run_that_has_not_settled_or_failed_has_nothing_to_show(case: Case) -> None:
    await case.record("research", *began("research", case.workspace, FINISH_RESEARCH))
    assert await case.failures() == [("end", "the run has not settled: it is running")]


async def test_a_failed_run_fails(case: Case) -> None:
    failed = RunFailed(code="c", message="No model.", hint="h")
    await case.record("research", *began("research", case.workspace, FINISH_RESEARCH), failed)
    assert await case.failures() == [("end", "the run failed, so it has no result: No model.")]


async def test_a_cancelled_run_was_cancelled(case: Case) -> None:
    cancelled = RunCancelled(by="somebody", reason="r")
    await case.record("research", *began("research", case.workspace, FINISH_RESEARCH), cancelled)
    assert await case.failures() == [("end", "the run was cancelled, so it has no result: Cancelled by somebody")]


async def test_a_task_force_that_finished_in_part_has_a_result_and_names_who_cites(case: Case) -> None:
    end = RunFailed(code="task_force_incomplete", message="Not all specialists finished", hint="h", payload={"s": 1})
    await case.research(others=["engineering"], end=end)
    found = await case.verified()
    assert await case.failures() == [("end", "the run has only a part of its result: Not all specialists finished")]
    assert "citation 1 of research" in [claim.about for claim in found.claims]


async def test_a_changed_kind_of_event_is_not_taken_for_a_newer_program(case: Case) -> None:
    await case.research()
    case.execute("UPDATE events SET kind = 'made_up' WHERE seq = 5")
    failed = dict(await case.failures())
    assert "event 5" in failed["log"]
    assert failed["end"] == "the log was changed, so its 'made_up' events tell nothing"


# ── proofs ────────────────────────────────────────────────────────────────────────────────────────────────────────────

OK = {"exit_code": 0, "stdout": "1 passed"}
WRITE = used(1, "write_file", {"path": "a.py"}, changed=True)
TEST = used(2, "shell", {"command": "pytest -q"}, result=OK, proved="pytest -q")


async def test_a_command_that_succeeded_after_the_last_change_is_proof(case: Case) -> None:
    await case.engineering(*WRITE, *TEST)
    (proof,) = [claim for claim in (await case.verified()).claims if claim.about == "proof of engineering"]
    assert proof.standing is ClaimStatus.HOLDS
    assert proof.detail == "'pytest -q' succeeded in event 6, and nothing changed after it"


@pytest.mark.parametrize(
    ("work", "said"),
    [
        ((*WRITE,), "nothing was shown to work after the last change, event 4"),
        ((*TEST, *WRITE), "nothing was shown to work"),
        (
            (
                *WRITE,
                *TEST,
                ToolErred(tool="shell", error_type="E", error_message="m", call_id=CallId("x"), changed=True),
            ),
            "nothing was shown to work",
        ),
        (
            (*WRITE, *used(2, "shell", {"command": "pytest -q"}, result={"exit_code": 1}, proved="pytest -q")),
            "its command does not bear that out",
        ),
        (
            (*WRITE, *used(2, "shell", {"command": "echo fine"}, result=OK, proved="pytest -q")),
            "its command does not bear that out",
        ),
    ],
)
async def test_what_is_no_proof_is_not_taken_for_one(case: Case, work: Sequence[Body], said: str) -> None:
    await case.engineering(*work)
    *others, (about, detail) = await case.failures()
    assert about == "proof of engineering"
    assert said in detail
    assert [about for about, _ in others] == ["failed"] * len(others)  # the command that did not succeed


async def test_a_run_that_changed_nothing_has_nothing_to_prove(case: Case) -> None:
    await case.engineering(*used(1, "read_file", {"path": "a.py"}))
    found = await case.verified()
    assert [claim.standing for claim in found.claims if claim.about.startswith("proof")] == [ClaimStatus.OPEN]
    assert found.holds


async def test_links_in_files_of_a_pack_that_does_not_cite_are_not_looked_at(case: Case) -> None:
    case.workspace.mkdir(parents=True)
    (case.workspace / "README.md").write_text("https://not-fetched.example")
    await case.engineering(*WRITE, *TEST, payload={"summary": "s", "artifacts": ["README.md"]})
    assert await case.failures() == []
