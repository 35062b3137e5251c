"""The research tools: what models get, what the tables say, and what a crash or two lanes at once may not break."""

import asyncio
import csv
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.ports.runs import RunRecord
from agent_fabric.application.ports.web import Page, SearchHit, WebError
from agent_fabric.domain.evidence.research_tables import EVIDENCE_COLUMNS, SCREENING_COLUMNS
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.domain.tools.allowlists import Allowlists
from agent_fabric.domain.tools.specs import Effect, ToolContext
from agent_fabric.infrastructure.runs.log.snapshots import SnapshotFolder
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox
from agent_fabric.infrastructure.tools.files import WriteFile
from agent_fabric.infrastructure.tools.memory_search import CROSS_RUN_SEARCH, CrossRunSearch
from agent_fabric.infrastructure.tools.tables import WorkspaceTable
from agent_fabric.infrastructure.tools.web import (
    FETCH_URL,
    PAGE_CHARS,
    RECORD_EVIDENCE,
    WEB_SEARCH,
    FetchUrl,
    RecordEvidence,
    SearchWeb,
    WriteReport,
)
from agent_fabric.testing.fakes import FrozenClock
from standins.research import DictionaryWeb, ListCatalogue

RUN = RunId("run")
ONLINE = ToolContext(run_id=RUN, call_id=CallId("call"), timeout_s=10, network_allowed=True)
OFFLINE = replace(ONLINE, network_allowed=False)
TEXT = "The quick brown fox jumps over the lazy dog."


@dataclass
class Desk:
    """The tools on one run's workspace and snapshots."""

    folder: Path
    site: DictionaryWeb = field(default_factory=DictionaryWeb)

    def __post_init__(self) -> None:
        (self.folder / "workspace").mkdir(exist_ok=True)
        sandbox = UnconfinedSandbox(self.folder / "workspace", RUN)
        clock, snapshots = FrozenClock(1_700_000_000.0), SnapshotFolder(self.folder / "snapshots")
        screening = WorkspaceTable(sandbox, "screening_log.csv", SCREENING_COLUMNS)
        evidence = WorkspaceTable(sandbox, "evidence.csv", EVIDENCE_COLUMNS)
        self.search = SearchWeb(self.site, screening, clock)
        self.fetch = FetchUrl(self.site, snapshots, screening, clock)
        self.record = RecordEvidence(snapshots, evidence, clock)
        self.write = WriteReport(WriteFile(sandbox))
        self.snapshots = snapshots

    def rows(self, name: str) -> list[dict[str, str]]:
        with (self.folder / "workspace" / name).open(newline="") as file:
            return list(csv.DictReader(file))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    hits = [SearchHit(title=f"T{n}", url=f"https://a.org/{n}", snippet="s" * 900) for n in range(30)]
    return Desk(tmp_path, DictionaryWeb({"https://a.org/1": TEXT}, hits))


@pytest.mark.proves("AF-101", "AF-127")
async def test_a_search_returns_its_hits_and_notes_them(desk: Desk) -> None:
    result = await desk.search({"query": "fox"}, ONLINE)
    assert len(result.output["results"]) == 8
    assert result.output["results"][0] == {"title": "T0", "url": "https://a.org/0", "snippet": "s" * 400}
    assert len((await desk.search({"query": "fox", "max_results": 20}, ONLINE)).output["results"]) == 20
    rows = desk.rows("screening_log.csv")
    assert [row["url"] for row in rows] == [f"https://a.org/{n}" for n in range(20)]
    assert {(row["query"], row["status"]) for row in rows} == {("fox", "found")}


async def test_a_search_that_finds_nothing_says_what_to_do(tmp_path: Path) -> None:
    result = await Desk(tmp_path).search({"query": "fox"}, ONLINE)
    assert result.output["results"] == []
    assert "other" in result.output["hint"]
    assert not (tmp_path / "workspace" / "screening_log.csv").exists()


@pytest.mark.proves("AF-101", "AF-127")
async def test_a_page_is_returned_kept_and_marked_as_fetched(desk: Desk) -> None:
    result = await desk.fetch({"url": "https://a.org/1", "reason": "primary source"}, ONLINE)
    assert result.output == {
        "url": "https://a.org/1",
        "final_url": "https://a.org/1",
        "title": "Title of https://a.org/1",
        "text": TEXT,
        "length": len(TEXT),
        "offset": 0,
        "fetched_at": "2023-11-14T22:13:20Z",
    }
    (source,) = result.sources
    assert source.text == TEXT
    assert await desk.snapshots.find("https://a.org/1") == source
    (row,) = desk.rows("screening_log.csv")
    assert (row["status"], row["reason"], row["sha256"]) == ("fetched", "primary source", source.sha256)


async def test_a_page_is_fetched_once_and_told_to_the_log_once(desk: Desk) -> None:
    await desk.fetch({"url": "https://a.org/1"}, ONLINE)
    again = await desk.fetch({"url": "https://A.org/1#part"}, ONLINE)
    assert again.output["text"] == TEXT
    assert again.sources == ()
    assert desk.site.asked == ["https://a.org/1"]


async def test_a_call_that_a_crash_cut_in_half_is_finished_without_fetching_again(desk: Desk) -> None:
    await desk.fetch({"url": "https://a.org/1"}, ONLINE)
    (desk.folder / "workspace" / "screening_log.csv").unlink()
    after = Desk(desk.folder, DictionaryWeb())
    result = await after.fetch({"url": "https://a.org/1"}, ONLINE)
    assert [source.text for source in result.sources] == [TEXT]
    assert after.site.asked == []
    assert [row["status"] for row in after.rows("screening_log.csv")] == ["fetched"]


async def test_a_long_page_is_read_in_parts_that_add_up_to_the_whole(tmp_path: Path) -> None:
    text = 'A line with "quotes" and a word.\n' * 3_000
    desk = Desk(tmp_path, DictionaryWeb({"https://a.org/long": text}))
    parts, offset = [], 0
    while True:
        output = (await desk.fetch({"url": "https://a.org/long", "offset": offset}, ONLINE)).output
        assert len(output["text"]) <= PAGE_CHARS
        parts.append(output["text"])
        if "next_offset" not in output:
            break
        assert output["text"][-1].isspace()
        offset = output["next_offset"]
    assert "".join(parts) == text
    assert len(desk.site.asked) == 1
    with pytest.raises(ValueError, match="has 99000 characters"):
        await desk.fetch({"url": "https://a.org/long", "offset": len(text)}, ONLINE)


@pytest.mark.parametrize("text", ["\n" * 20_000, "x" * 20_000, "\\" * 15_000, ""])
async def test_no_page_makes_an_answer_that_would_be_cut(tmp_path: Path, text: str) -> None:
    desk = Desk(tmp_path, DictionaryWeb({"https://a.org/odd": text}))
    seen = ""
    offset: int | None = 0
    while offset is not None:
        output = (await desk.fetch({"url": "https://a.org/odd", "offset": offset}, ONLINE)).output
        assert len(repr(output)) < 16_000
        seen, offset = seen + output["text"], output.get("next_offset")
    assert seen == text


async def test_a_page_that_was_cut_says_so(tmp_path: Path) -> None:
    desk = Desk(tmp_path, DictionaryWeb({"https://a.org/big": "the beginning"}, cut=True))
    assert "beginning" in (await desk.fetch({"url": "https://a.org/big"}, ONLINE)).output["cut"]


@pytest.mark.proves("AF-127")
@pytest.mark.parametrize(
    ("url", "error", "said"),
    [("https://a.org/none", WebError, "answered 404"), ("http://private/x", PermissionError, "not a public")],
)
async def test_a_page_that_cannot_be_read_is_an_error_and_marked_as_failed(
    desk: Desk, url: str, error: type[Exception], said: str
) -> None:
    for _ in range(2):
        with pytest.raises(error, match=said):
            await desk.fetch({"url": url, "reason": "why not"}, ONLINE)
    (row,) = desk.rows("screening_log.csv")
    assert (row["url"], row["status"], row["reason"]) == (url, "failed", "why not")
    assert said in row["problem"]


@pytest.mark.proves("AF-104", "AF-122", "C24")
async def test_without_the_network_web_tools_answer_that_it_is_disabled(desk: Desk) -> None:
    for call in (desk.search({"query": "fox"}, OFFLINE), desk.fetch({"url": "https://a.org/1"}, OFFLINE)):
        result = await call
        assert result.output["error"] == "network disabled"
        assert result.output["hint"]
    assert desk.site.asked == []


@pytest.mark.proves("AF-126", "AF-127")
async def test_evidence_is_recorded_once_if_the_page_says_so(desk: Desk) -> None:
    await desk.fetch({"url": "https://a.org/1"}, ONLINE)
    told = {"url": "https://a.org/1/", "quote": "quick brown fox jumps", "claim": "=it jumps"}
    assert (await desk.record(told, ONLINE)).output == {"recorded": True, "rows": 1}
    assert (await desk.record(told, ONLINE)).output == {"recorded": True, "rows": 1}
    (row,) = desk.rows("evidence.csv")
    assert (row["claim"], row["quote"], row["url"]) == ("'=it jumps", "quick brown fox jumps", "https://a.org/1")


@pytest.mark.proves("AF-126")
@pytest.mark.parametrize(
    ("url", "quote", "told"),
    [
        ("https://b.org", "quick brown fox jumps", "was not fetched in this run. Read it with fetch_url"),
        ("https://a.org/1", "a slow brown fox jumps", "Copy one passage word for word"),
        ("https://a.org/1", "fox", "at least 12 letters"),
    ],
)
async def test_evidence_that_no_page_bears_out_is_refused_with_advice(
    desk: Desk, url: str, quote: str, told: str
) -> None:
    await desk.fetch({"url": "https://a.org/1"}, ONLINE)
    with pytest.raises(ValueError, match=told):
        await desk.record({"url": url, "quote": quote, "claim": "c"}, ONLINE)
    assert not (desk.folder / "workspace" / "evidence.csv").exists()


async def test_lanes_that_share_a_workspace_lose_no_rows(desk: Desk) -> None:
    other = Desk(desk.folder, desk.site)
    await desk.fetch({"url": "https://a.org/1"}, ONLINE)
    calls = [
        each.record({"url": "https://a.org/1", "quote": "quick brown fox", "claim": f"{name} {n}"}, ONLINE)
        for n in range(10)
        for name, each in (("one", desk), ("other", other))
    ]
    await asyncio.gather(*calls)
    assert {row["claim"] for row in desk.rows("evidence.csv")} == {
        f"{who} {n}" for who in ("one", "other") for n in range(10)
    }


async def test_what_somebody_else_put_in_a_tables_place_is_moved_aside(desk: Desk) -> None:
    workspace = desk.folder / "workspace"
    (workspace / "screening_log.csv").write_text("mine,not,yours\n1,2,3\n")
    await desk.search({"query": "fox"}, ONLINE)
    assert (workspace / "screening_log.csv.replaced").read_text() == "mine,not,yours\n1,2,3\n"
    assert len(desk.rows("screening_log.csv")) == 8


async def test_nothing_that_was_moved_aside_is_ever_overwritten(desk: Desk) -> None:
    workspace = desk.folder / "workspace"
    (workspace / "screening_log.csv.replaced.2").mkdir()
    for number in (1, 2, 3):
        (workspace / "screening_log.csv").write_text(f"not yours {number}\n")
        await desk.search({"query": "fox"}, ONLINE)
    names = ("replaced", "replaced.3", "replaced.4")
    assert [(workspace / f"screening_log.csv.{name}").read_text() for name in names] == [
        f"not yours {number}\n" for number in (1, 2, 3)
    ]


async def test_no_page_or_hit_however_odd_costs_the_table_a_row(desk: Desk) -> None:
    await desk.fetch({"url": "https://a.org/1"}, ONLINE)
    desk.site.hits = [
        SearchHit(title="T" * 200_000, url=f"https://a.org/{'y' * 140_000}", snippet=""),
        SearchHit(title="\r", url="https://a.org/\rx", snippet=""),
    ]
    await desk.search({"query": "odd"}, ONLINE)
    await desk.search({"query": "odd again"}, ONLINE)
    assert [row["status"] for row in desk.rows("screening_log.csv")] == ["fetched", "found", "found"]
    assert not list((desk.folder / "workspace").glob("*.replaced*"))


@pytest.mark.parametrize(
    "url", ["https://a.org/\rx", "https://a.org/1\n2", "https://a.org/\0", "https://a.org/" + "x" * 4_000]
)
async def test_an_address_that_no_table_can_hold_is_refused(desk: Desk, url: str) -> None:
    with pytest.raises(ValueError, match=r"is no web address: it (contains a control character|is too long)"):
        await desk.fetch({"url": url}, ONLINE)
    assert desk.site.asked == []


class SlowWeb(DictionaryWeb):
    """Answers when every lane has had its turn, each time with another text."""

    async def fetch(
        self, url: str, *, timeout_s: float, limits: Sequence[Allowlists] = (), files: Collection[str] = ()
    ) -> Page:
        page = await DictionaryWeb.fetch(self, url, timeout_s=timeout_s, limits=limits, files=files)
        visit = len(self.asked)
        for _ in range(50):
            await asyncio.sleep(0)
        return replace(page, text=f"{page.text} This was visit {visit}.", body=page.body + b"%d" % visit)


async def test_lanes_that_want_the_same_page_at_once_fetch_it_once_and_see_the_same(tmp_path: Path) -> None:
    site = SlowWeb({"https://a.org/1": TEXT})
    lanes = [Desk(tmp_path, site) for _ in range(4)]
    results = await asyncio.gather(*(lane.fetch({"url": "https://a.org/1"}, ONLINE) for lane in lanes))
    assert site.asked == ["https://a.org/1"]
    assert {result.output["text"] for result in results} == {f"{TEXT} This was visit 1."}


async def test_a_page_that_failed_for_one_lane_is_tried_by_the_next(tmp_path: Path) -> None:
    site = SlowWeb()
    lanes = [Desk(tmp_path, site) for _ in range(2)]
    outcomes = await asyncio.gather(
        *(lane.fetch({"url": "https://a.org/1"}, ONLINE) for lane in lanes), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [WebError, WebError]
    assert len(site.asked) == 2


@pytest.mark.proves("AF-126")
@pytest.mark.parametrize("number", [1, 2])
async def test_a_quote_may_be_from_any_version_of_a_page_that_the_run_has_read(desk: Desk, number: int) -> None:
    for visit in (1, 2):
        page = await desk.site.fetch("https://a.org/1", timeout_s=1)
        text = f"This was visit number {visit}."
        await desk.snapshots.keep(replace(page, text=text, body=text.encode()), fetched_at=visit)
    told = {"url": "https://a.org/1", "quote": f"This was visit number {number}", "claim": "c"}
    assert (await desk.record(told, ONLINE)).output["recorded"]
    (row,) = desk.rows("evidence.csv")
    assert row["fetched_at"] == f"1970-01-01T00:00:0{number}Z"


@pytest.mark.proves("AF-126")
async def test_a_written_file_tells_which_addresses_it_mentions(desk: Desk) -> None:
    result = await desk.write({"path": ".//report.md", "content": "See [it](https://a.org/1)."}, ONLINE)
    assert result.cites == {"report.md": ("https://a.org/1",)}
    assert result.changed
    table = await desk.write({"path": "x.csv", "content": "https://a.org/1,Title\nhttps://b.org,T\n"}, ONLINE)
    assert table.cites == {"x.csv": ("https://a.org/1", "https://b.org")}
    assert (await desk.write({"path": "report.md", "content": "nothing"}, ONLINE)).cites == {"report.md": ()}


@pytest.mark.proves("AF-127")
@pytest.mark.parametrize("path", ["evidence.csv", "./screening_log.csv", "x/../Evidence.CSV"])
async def test_the_tables_are_not_for_the_model_to_write(desk: Desk, path: str) -> None:
    with pytest.raises(ValueError, match="is kept by the tools"):
        await desk.write({"path": path, "content": "made up"}, ONLINE)
    assert list((desk.folder / "workspace").iterdir()) == []


def record(run_id: str, **more: Any) -> RunRecord:
    given: dict[str, Any] = {
        "run_id": RunId(run_id),
        "status": RunStatus.COMPLETED,
        "created_at": 1_700_000_000.0,
        "updated_at": 1_700_000_100.0,
        "prompt": "about foxes",
        "specialist_ids": ("research",),
        "summary": "Foxes jump over dogs.",
    }
    return RunRecord(**{**given, **more})


@pytest.mark.proves("AF-102", "AF-147")
async def test_earlier_runs_are_found_without_the_one_that_asks_and_can_be_cited(desk: Desk) -> None:
    catalogue = ListCatalogue(
        [record(RUN), *(record(f"old-{n}", summary="s" * 9_000) for n in range(8)), record("last")]
    )
    recall = CrossRunSearch(catalogue, desk.snapshots, FrozenClock())
    result = await recall({"query": "foxes"}, OFFLINE)
    assert [run["run_id"] for run in result.output["runs"]] == [f"old-{n}" for n in range(5)]
    assert len(result.output["runs"][0]["summary"]) == 2_000
    (found,) = (await recall({"query": "foxes", "max_results": 20}, OFFLINE)).output["runs"][-1:]
    assert found == {
        "run_id": "last",
        "url": "run:last",
        "created_at": "2023-11-14T22:13:20Z",
        "status": "completed",
        "specialist_ids": ["research"],
        "prompt": "about foxes",
        "summary": "Foxes jump over dogs.",
    }
    assert [source.url for source in result.sources] == [f"run:old-{n}" for n in range(5)]
    told = {"url": "run:last", "quote": "Foxes jump over dogs", "claim": "they do"}
    assert (await desk.record(told, OFFLINE)).output["rows"] == 1


def test_what_each_tool_does_to_the_world_is_declared() -> None:
    specs = (WEB_SEARCH, FETCH_URL, RECORD_EVIDENCE, CROSS_RUN_SEARCH)
    assert {spec.effect for spec in specs} == {Effect.IDEMPOTENT}
    assert [spec.name for spec in specs] == ["web_search", "fetch_url", "record_evidence", "cross_run_search"]
