"""The browser tools: what models get, what is kept for citations, and who gets the tools at all."""

import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.ports.browser import PageView
from agent_fabric.config.schema.tools import BrowserConfig
from agent_fabric.domain.errors import MissingExtra, RecruitError
from agent_fabric.domain.evidence.research_tables import SCREENING_COLUMNS
from agent_fabric.domain.ids import CallId, RunId, SpecialistId
from agent_fabric.domain.tools.json_schema import problems_with
from agent_fabric.domain.tools.specs import Effect, ToolContext, Trust
from agent_fabric.infrastructure.packs.browser_pack import BrowserParts
from agent_fabric.infrastructure.packs.engineering import build_engineering_pack
from agent_fabric.infrastructure.runs.log.snapshots import SnapshotFolder
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox
from agent_fabric.infrastructure.tools.browser_tools import BROWSER_TOOLS, VIEW_CHARS, PageRecord, browser_tools
from agent_fabric.infrastructure.tools.tables import WorkspaceTable
from agent_fabric.testing.fakes import FrozenClock

RUN = RunId("run")
ONLINE = ToolContext(run_id=RUN, call_id=CallId("call"), timeout_s=10, network_allowed=True)
OFFLINE = replace(ONLINE, network_allowed=False)
OTTERS = PageView(
    url="https://otters.example/",
    title="Otters",
    status=200,
    text='They hold hands while [1: they sleep] in the sea.\n[2 field: Term = "x"] [3 button: Search]',
    links={1: "https://otters.example/sleep"},
    html="<p>They hold hands</p>",
)


@dataclass
class PaperBrowser:
    """Browser that shows what it is told."""

    view: PageView = OTTERS
    asked: list[tuple[Any, ...]] = field(default_factory=list)

    async def open(self, url: str, *, timeout_s: float) -> PageView:
        self.asked.append(("open", url))
        return self.view

    async def read(self, *, timeout_s: float) -> PageView:
        self.asked.append(("read",))
        return self.view

    async def click(self, number: int, *, timeout_s: float) -> PageView:
        self.asked.append(("click", number))
        return self.view

    async def type(self, number: int, text: str, *, submit: bool, timeout_s: float) -> PageView:
        self.asked.append(("type", number, text, submit))
        return self.view

    async def screenshot(self, *, whole_page: bool, timeout_s: float) -> tuple[str, bytes]:
        self.asked.append(("screenshot", whole_page))
        return self.view.url, b"\x89PNG..."


@pytest.fixture
def sandbox(tmp_path: Path) -> UnconfinedSandbox:
    (tmp_path / "workspace").mkdir()
    return UnconfinedSandbox(tmp_path / "workspace", RUN)


CALLS: dict[str, dict[str, Any]] = {
    "browser_open": {"url": "https://otters.example/"},
    "browser_read": {},
    "browser_click": {"number": 1},
    "browser_type": {"number": 2, "text": "river", "submit": True},
    "browser_screenshot": {"path": "shots/otters.png"},
}


@pytest.mark.proves("A33-082")
async def test_each_tool_does_its_one_thing(sandbox: UnconfinedSandbox, tmp_path: Path) -> None:
    browser = PaperBrowser()
    results = {}
    for spec, function in browser_tools(lambda: browser, sandbox):
        assert problems_with(CALLS[spec.name], spec.parameters) == []
        results[spec.name] = await function(CALLS[spec.name], ONLINE)
    assert browser.asked == [
        ("open", "https://otters.example/"),
        ("read",),
        ("click", 1),
        ("type", 2, "river", True),
        ("screenshot", False),
    ]
    assert results["browser_open"].output == {
        "url": OTTERS.url,
        "title": "Otters",
        "text": OTTERS.text,
        "length": len(OTTERS.text),
        "offset": 0,
        "links": {"1": "https://otters.example/sleep"},
    }
    assert {result.origin for result in results.values()} == {OTTERS.url}
    assert results["browser_screenshot"].wrote == ("shots/otters.png",)
    assert (tmp_path / "workspace" / "shots" / "otters.png").read_bytes() == b"\x89PNG..."


def test_clicking_and_typing_leave_the_box_and_everything_is_untrusted() -> None:
    effects = {spec.name: spec.effect for spec in BROWSER_TOOLS}
    assert effects == {
        "browser_open": Effect.READS,
        "browser_read": Effect.READS,
        "browser_click": Effect.LEAVES_SANDBOX,
        "browser_type": Effect.LEAVES_SANDBOX,
        "browser_screenshot": Effect.IDEMPOTENT,
    }
    assert {spec.trust for spec in BROWSER_TOOLS} == {Trust.WEB}
    assert [spec.url_argument for spec in BROWSER_TOOLS if spec.url_argument] == ["url"]


async def test_without_the_network_no_tool_touches_the_browser(sandbox: UnconfinedSandbox) -> None:
    browser = PaperBrowser()
    for spec, function in browser_tools(lambda: browser, sandbox):
        assert (await function(CALLS[spec.name], OFFLINE)).output["error"] == "network disabled"
    assert browser.asked == []


async def test_a_long_page_comes_in_parts_that_join_to_the_whole(sandbox: UnconfinedSandbox) -> None:
    text = "\n".join(f"line {number} [{number}: link]" for number in range(2_000))
    links = {number: f"https://otters.example/{number}" for number in range(2_000)}
    _, (_, read), *_ = browser_tools(lambda: PaperBrowser(replace(OTTERS, text=text, links=links)), sandbox)
    offset: int | None = 0
    parts: list[str] = []
    while offset is not None:
        output = (await read({"offset": offset}, ONLINE)).output
        assert len(output["text"]) <= VIEW_CHARS
        assert all(f"[{number}:" in output["text"] for number in output["links"])
        parts.append(output["text"])
        offset = output.get("next_offset")
    assert "".join(parts) == text
    with pytest.raises(ValueError, match="the page has"):
        await read({"offset": len(text)}, ONLINE)


async def test_a_screenshot_is_a_png_in_the_workspace_or_nothing(sandbox: UnconfinedSandbox) -> None:
    *_, (_, screenshot) = browser_tools(PaperBrowser, sandbox)
    with pytest.raises(ValueError, match=r"\.png"):
        await screenshot({"path": "run.sh"}, ONLINE)
    with pytest.raises(PermissionError):
        await screenshot({"path": "../outside.png"}, ONLINE)


async def test_what_the_browser_showed_can_be_cited(sandbox: UnconfinedSandbox, tmp_path: Path) -> None:
    snapshots = SnapshotFolder(tmp_path / "snapshots")
    screening = WorkspaceTable(sandbox, "screening_log.csv", SCREENING_COLUMNS)
    record = PageRecord(snapshots, screening, FrozenClock(1_700_000_000.0))
    (_, opened), (_, read), *_ = browser_tools(PaperBrowser, sandbox, record)
    first, second = await opened(CALLS["browser_open"], ONLINE), await read({}, ONLINE)
    (source,) = first.sources
    assert source.text == 'They hold hands while they sleep in the sea.\nTerm = "x" Search'
    assert second.sources == (), "the log needs each page only once"
    assert await snapshots.damage_to(source) == ""
    assert OTTERS.url in (tmp_path / "workspace" / "screening_log.csv").read_text()


# ── who gets the tools ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_browser_that_is_switched_off_is_not_given() -> None:
    parts = BrowserParts(config=BrowserConfig())
    assert not parts.offered
    with pytest.raises(RecruitError, match="switched off") as refused:
        parts.require(SpecialistId("helper"))
    assert "browser.enabled" in refused.value.hint


def test_without_the_extra_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "playwright", None)  # as if it were not installed
    parts = BrowserParts(config=BrowserConfig(enabled=True))
    assert not parts.offered
    with pytest.raises(MissingExtra) as missing:
        parts.require(SpecialistId("helper"))
    assert missing.value.hint == 'Install it with: pip install "agent-fabric[browser]"'


async def test_a_pack_with_a_browser_has_its_own_tools_too_and_closes_what_was_never_opened(
    sandbox: UnconfinedSandbox,
) -> None:
    inner = build_engineering_pack(sandbox)
    parts = BrowserParts(config=BrowserConfig(enabled=True))
    pack = parts.added_to(inner, run_id=RUN, sandbox=sandbox, network_allowed=True)
    await pack.aopen()
    assert [*inner.tool_definitions, *BROWSER_TOOLS] == list(pack.tool_definitions)
    assert pack.compact_tools is not None
    assert pack.compact_tools[-5:] == BROWSER_TOOLS
    assert (await pack.execute_tool("list_files", {}, ONLINE)).output == {"files": []}
    with pytest.raises(KeyError):
        await pack.execute_tool("nothing", {}, ONLINE)
    await pack.aclose()


async def test_without_the_network_the_tools_are_not_offered_but_answer(sandbox: UnconfinedSandbox) -> None:
    inner = build_engineering_pack(sandbox)
    parts = BrowserParts(config=BrowserConfig(enabled=True))
    pack = parts.added_to(inner, run_id=RUN, sandbox=sandbox, network_allowed=False)
    assert list(pack.tool_definitions) == list(inner.tool_definitions)
    assert [*inner.hidden_tools, *BROWSER_TOOLS] == list(pack.hidden_tools)
    answer = await pack.execute_tool("browser_open", CALLS["browser_open"], OFFLINE)
    assert answer.output["error"] == "network disabled"
    await pack.aclose()
