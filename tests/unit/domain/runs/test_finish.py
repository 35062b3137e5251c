"""What speaks against a result: whose files count, and what is asked of a model without the network."""

from collections.abc import Mapping, Sequence

import pytest

from agent_fabric.domain.events import Body, Event, PackStarted, RunCreated, SpecialistsRecruited, ToolReturned
from agent_fabric.domain.ids import CallId, LaneId, RunId, SpecialistId
from agent_fabric.domain.packs.contents import FinishSpec
from agent_fabric.domain.runs.evolve import fold
from agent_fabric.domain.runs.finish import Doubts, doubts_about
from agent_fabric.domain.runs.task import Budget, Profile
from agent_fabric.domain.tools.findings import Source
from agent_fabric.testing.workbench import SETTINGS

URL = "https://example.org/fox"
TEXT = "The quick brown fox jumps over the lazy dog."
PAGE = Source(
    url=URL,
    final_url=URL,
    title="Foxes",
    content_type="text/html",
    fetched_at=1_700_000_000.0,
    sha256="0" * 64,
    text=TEXT,
)
CITED = {"summary": "s", "citations": [{"url": URL, "quote": "quick brown fox jumps"}]}
CLEAN, SLOPPY = SpecialistId("clean"), SpecialistId("sloppy")


FETCHED = ToolReturned(tool="fetch_url", call_id=CallId("c"), result={}, sources=(PAGE,))


def wrote(path: str, *urls: str) -> ToolReturned:
    call = CallId("c")
    return ToolReturned(tool="write_file", call_id=call, result={}, wrote=(f"./{path}",), cites={path: urls})


def doubts(
    who: SpecialistId,
    payload: Mapping[str, object],
    work: Sequence[tuple[SpecialistId, ToolReturned]],
    *,
    network: bool = True,
) -> Doubts:
    """Hold a result against what two specialists have done."""
    created = RunCreated(
        prompt="p",
        specialist_id=CLEAN,
        model_key="quality",
        network_allowed=network,
        profile=Profile.TASK,
        budget=Budget.of(Profile.TASK),
        workspace="/w",
        sandbox="C",
        policy_version="p",
        fabric_version="v",
    )
    recruited = SpecialistsRecruited(
        specialist_id=CLEAN,
        specialist_ids=(CLEAN, SLOPPY),
        required_capabilities=(),
        routing_method="explicit",
        is_task_force=True,
    )
    finish = FinishSpec(parameters={}, needs_citations=True)
    packs = [
        PackStarted(
            specialist_id=each,
            pack_index=number,
            system_prompt="p",
            opening="o",
            tools=(),
            finish=finish,
            model=SETTINGS,
        )
        for number, each in enumerate((CLEAN, SLOPPY))
    ]
    told: list[tuple[LaneId | None, Body]] = [(None, created), (None, recruited)]
    told += [(None, started) for started in packs]
    told += [(LaneId(each), body) for each, body in work]
    state = fold(RunId("r"), [Event(seq, 0.0, lane, "", body) for seq, (lane, body) in enumerate(told)])
    return doubts_about(state, state.lanes[LaneId(who)], payload)


@pytest.mark.proves("AF-126")
def test_a_specialist_answers_for_the_files_it_wrote_and_for_no_other() -> None:
    work = [(CLEAN, FETCHED), (CLEAN, wrote("a.md", URL)), (SLOPPY, wrote("b.md", "https://made-up.example"))]
    assert doubts(CLEAN, CITED, work) == Doubts()
    (problem,) = doubts(SLOPPY, CITED, work).unproven
    assert problem.startswith("https://made-up.example (b.md) was not fetched")


@pytest.mark.proves("AF-126")
def test_without_the_network_nobody_is_told_to_fetch() -> None:
    nothing = doubts(CLEAN, {"summary": "s"}, [], network=False)
    assert nothing == Doubts(unproven=("the network was not allowed, so no source was fetched",))
    found = doubts(CLEAN, {"summary": "see https://o.org"}, [(CLEAN, wrote("a.md", URL))], network=False)
    assert len(found.unproven) == 3
    assert "https://o.org ('summary') was not fetched in this run: leave it out" in found.ask_for
    assert f"{URL} (a.md) was not fetched" in found.ask_for
    assert "fetch_url" not in found.ask_for


def test_with_the_network_it_is() -> None:
    assert "fetch_url" in doubts(CLEAN, {"summary": "see https://o.org"}, []).ask_for
