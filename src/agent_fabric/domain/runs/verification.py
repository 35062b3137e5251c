"""What a finished run claims, held against its log: pure. Nothing here takes the model's word, or the engine's."""

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeGuard

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.events import Body, Event, GuidanceGiven, PackStarted, ToolCalled, ToolErred, ToolReturned
from agent_fabric.domain.evidence.citations import (
    CITATIONS,
    UNFETCHED,
    ReadPages,
    address_of,
    citations_of,
    likeliest,
    urls_in,
)
from agent_fabric.domain.evidence.claims import false_claims
from agent_fabric.domain.evidence.commands import assess, shown_by
from agent_fabric.domain.evidence.proofs import UNPROVEN
from agent_fabric.domain.evidence.research_tables import EVIDENCE_COLUMNS, EVIDENCE_TABLE, moment, table_rows
from agent_fabric.domain.evidence.statements import find_unsupported
from agent_fabric.domain.ids import CallId, LaneId
from agent_fabric.domain.packs.contents import CHANGED, CHECKED
from agent_fabric.domain.plural import count_of
from agent_fabric.domain.runs.effects import OPEN_KINDS, Effects
from agent_fabric.domain.runs.state import Lane, RunState, effects_of
from agent_fabric.domain.runs.task_point import is_told
from agent_fabric.domain.runs.work_doubts import counts_of, deeds_of
from agent_fabric.domain.tools.findings import ProofKind, Source
from agent_fabric.domain.tools.specs import FINISH_TASK

RECORD_EVIDENCE = "record_evidence"
"""The tool whose results tell how many rows the evidence table has."""


class ClaimStatus(StrEnum):
    """How a claim stands after it was checked."""

    HOLDS = "holds"
    FAILS = "fails"
    OPEN = "open"
    """There was nothing to check it against, or nothing to check."""


@dataclass(frozen=True, slots=True)
class CheckedClaim:
    """One thing that a run says, and what became of checking it."""

    about: str
    standing: ClaimStatus
    """`open`: there was nothing to check it against."""
    detail: str


def holds(about: str, detail: str) -> CheckedClaim:
    """Return a claim that is borne out."""
    return CheckedClaim(about, ClaimStatus.HOLDS, detail)


def fails(about: str, detail: str) -> CheckedClaim:
    """Return a claim that is not."""
    return CheckedClaim(about, ClaimStatus.FAILS, detail)


def claims_about_citations(payload: Mapping[str, Any], pages: ReadPages, whose: str = "") -> Iterator[CheckedClaim]:
    """Check that each cited page was fetched and each quote stands on it; `whose` names one of several specialists."""
    of = f" of {whose}" if whose else ""
    cited = (*citations_of(payload), *citations_of(payload, UNFETCHED))
    for number, citation in enumerate(cited, start=1):
        url, quote, claim = (str(citation.get(key) or "").strip() for key in ("url", "quote", "claim"))
        yield _claim_about_quote(f"citation {number}{of}", url, quote, claim, pages)


def claims_about_mentions(place: str, urls: Sequence[str], pages: ReadPages) -> Iterator[CheckedClaim]:
    """Check that every address that a text mentions was fetched."""
    meant = {url: pages.meant_by(url) for url in urls}
    unread = dict.fromkeys(likeliest(url) for url, page in meant.items() if page is None)
    yield from (fails(place, f"{url} was not fetched in this run") for url in unread)
    if urls and not unread:
        count = len({address_of(page) for page in meant.values() if page is not None})
        yield holds(place, f"{count_of(count, 'web address', 'web addresses')}, all fetched in this run")


def spoken_urls(payload: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the addresses in a result, apart from its list of citations."""
    return urls_in({key: value for key, value in payload.items() if key not in (CITATIONS, UNFETCHED, UNPROVEN)})


def recorded_rows(events: Sequence[Event]) -> int:
    """Return how many rows the evidence table had, as the tool that keeps it has reported."""
    results = (event.body.result for event in events if _is_evidence(event.body))
    counts = (result.get("rows") for result in results)
    return max((count for count in counts if isinstance(count, int)), default=0)


def _is_evidence(body: Body) -> TypeGuard[ToolReturned]:
    return isinstance(body, ToolReturned) and body.tool == RECORD_EVIDENCE


def claims_about_evidence(text: str | None, recorded: int, pages: ReadPages) -> Iterator[CheckedClaim]:
    """Check each row of the evidence table, and that none of those recorded is gone."""
    rows = table_rows(EVIDENCE_COLUMNS, text) if text is not None else []
    if rows is None:
        yield fails(EVIDENCE_TABLE, "this is not the table that the tools have written")
        return
    if len(rows) < recorded:
        had = count_of(recorded, "row was", "rows were")
        there = f"it has {len(rows):,}" if text is not None else "it is gone or cannot be read"
        yield fails(EVIDENCE_TABLE, f"{had} recorded, but {there}")
    checked = [
        _claim_about_quote(f"{EVIDENCE_TABLE} row {number}", row["url"], row["quote"], row["claim"], pages)
        for number, row in enumerate(rows, start=1)
    ]
    failed = [claim for claim in checked if claim.standing is ClaimStatus.FAILS]
    yield from failed
    if checked and not failed and len(rows) >= recorded:
        yield holds(EVIDENCE_TABLE, f"{count_of(len(checked), 'row')}, each quote is on its page")


def _claim_about_quote(about: str, url: str, quote: str, claim: str, pages: ReadPages) -> CheckedClaim:
    if url not in pages:
        return fails(about, f"{url or 'nothing'} was not fetched in this run")
    source = pages.find_quote(url, quote)
    if source is None:
        return fails(about, f"the quote is not on {url} as it was fetched: {_short(quote)!r}")
    purpose = f" (for: {_short(claim)})" if claim else ""
    return holds(about, f"{url}, fetched {moment(source.fetched_at)}, says {_short(quote)!r}{purpose}")


def claim_about_page(source: Source, damage: str) -> CheckedClaim:
    """Say whether the bytes of a page are still what was fetched."""
    about = f"page {source.sha256[:12]}"
    if damage:
        return fails(about, f"{source.final_url}: {damage}")
    return holds(about, f"{source.final_url}, fetched {moment(source.fetched_at)}: the snapshot has its SHA-256")


def claim_about_proof(lane: Lane, events: Sequence[Event]) -> CheckedClaim:
    """Check that a command that proves something succeeded after the last change of a lane's files."""
    about = f"proof of {lane.specialist_id}"
    changed, proof = _last_proof(lane.lane_id, events)
    if lane.compared is not None and lane.compared.known:
        proof = lane.proof.seq  # what was shown about something else than the changes is none
    if changed is None:
        return CheckedClaim(about, ClaimStatus.OPEN, "no file was changed, so there was nothing to prove")
    if proof is None:
        return fails(about, f"nothing was shown to work after the last change, event {changed}")
    called = _call_before(lane.lane_id, events, proof)
    returned = events[proof].body
    assert isinstance(returned, ToolReturned)
    command = called.args.get("command") if called is not None else None
    if command is not None and not _is_borne_out(str(command), returned):
        return fails(about, f"event {proof} claims {returned.proved!r}, but its command does not bear that out")
    executed = "" if returned.tests is None else f" with {count_of(returned.tests.passed, 'test')} passed"
    return holds(about, f"{returned.proved!r} succeeded{executed} in event {proof}, and nothing changed after it")


def claim_about_machines(lane: Lane, events: Sequence[Event]) -> CheckedClaim:
    """Check that the state of machines was read after the last change on them."""
    about = f"machines of {lane.specialist_id}"
    changed, proof = _last_proof(lane.lane_id, events)
    if changed is None:
        return CheckedClaim(about, ClaimStatus.OPEN, "no machine was changed, so there was nothing to prove")
    if proof is None:
        return fails(about, f"nothing was read on machines after the last change, event {changed}")
    returned = events[proof].body
    assert isinstance(returned, ToolReturned)
    if returned.proof_kind is not ProofKind.MACHINE or returned.result.get("status") != "success":
        return fails(about, f"event {proof} claims {returned.proved!r}, but its result does not bear that out")
    return holds(about, f"{returned.proved!r} was read in event {proof}, after the last change, event {changed}")


def claims_about_work(state: RunState, lane: Lane, events: Sequence[Event]) -> Iterator[CheckedClaim]:
    """Check what a lane says that it changed and checked, and mark the numbers and quotes that stand in no result."""
    payload = lane.payload or {}
    # The list of changes in the result is the engine's own; what the model said stands in its call.
    said = {**payload, CHANGED: lane.began_with.get(CHANGED), CHECKED: lane.began_with.get(CHECKED)}
    about = f"claims of {lane.specialist_id}"
    deeds = deeds_of(state, lane)
    wrong = false_claims(said, deeds)
    yield from (fails(about, str(claim)) for claim in wrong)
    if not wrong and deeds.compared.known:
        changed = count_of(len(deeds.compared.paths) + deeds.compared.more, "path")
        yield holds(about, f"{changed} changed; the files, commands, commits and tests that it names agree with that")
    for missing in find_unsupported(
        str(payload.get("summary") or ""), _texts_of_lane(lane.lane_id, state, events), counts_of(lane)
    ):
        yield CheckedClaim(about, ClaimStatus.OPEN, f"{_short(missing)!r} stands in no result")


def claims_about_effects(state: RunState, answer: str) -> Iterator[CheckedClaim]:
    """Check that an answer tells of every call that was denied, failed or is in doubt, and say what else calls did."""
    effects = effects_of(state)
    for each in OPEN_KINDS:
        kind = each.replace("_", " ")
        for call in getattr(effects, each):
            told = f"{_short(call.what)}, event {call.seq}{f' of run {call.run_id}' if call.run_id else ''}"
            if is_told(answer, call):
                yield holds(kind, f"{told}: the answer says so")
            else:
                why = f" ({_short(call.why)})" if call.why else ""
                yield fails(kind, f"{told}{why}: the answer does not say so")
    for each in OPEN_KINDS:
        if count := effects.more.get(each):
            yield fails(each.replace("_", " "), f"{count:,} more, of which the answer was not checked")
    if not effects.open:
        yield holds("calls", "none that acts was denied, failed without being done again, or is in doubt")
    yield holds("outside", "; ".join(_left_lines(effects)) or "no call acted outside this machine")


def _left_lines(effects: Effects) -> Iterator[str]:
    for call in effects.left:
        yield f"{_short(call.what)} (event {call.seq})"
    if count := effects.more.get("left"):
        yield f"and {count:,} more"


def claim_about_words() -> CheckedClaim:
    """Say what no check can know."""
    return CheckedClaim(
        "words",
        ClaimStatus.OPEN,
        "compared are the calls, files, commands, tests, numbers, quotes and addresses that it names; what its "
        "sentences mean, and whether the task was understood, nobody but a reader can tell",
    )


def _texts_of_lane(lane: LaneId, state: RunState, events: Sequence[Event]) -> Iterator[str]:
    """Return all that a lane was told and has asked for, also what was dropped from its conversation."""
    yield state.task.prompt if state.task is not None else ""
    for event in events:
        match event.body:
            case PackStarted(opening=opening, system_prompt=prompt) as body if LaneId(body.specialist_id) == lane:
                yield f"{opening}\n{prompt}"
                yield from () if body.knowledge is None else (each.content for each in body.knowledge.messages(0))
            case ToolCalled(tool=tool, args=args) if event.lane == lane and tool != FINISH_TASK:
                yield json.dumps(args, ensure_ascii=False, default=str)
            case ToolReturned(tool=tool, result=result) if event.lane == lane and tool != FINISH_TASK:
                yield json.dumps(result, ensure_ascii=False, default=str)
            case ToolErred(error_message=message) | GuidanceGiven(message=message) if event.lane == lane:
                yield message
            case _:
                pass


def _last_proof(lane: LaneId, events: Sequence[Event]) -> tuple[int | None, int | None]:
    """Return the places of the last change and of the last proof after it."""
    changed = proof = None
    for at, event in enumerate(events):
        if event.lane != lane:
            continue
        match event.body:
            case ToolReturned(tool=tool) if tool == FINISH_TASK:
                pass
            case ToolReturned(proved=proved, changed=has_changed):
                proof = at if proved else proof
                changed, proof = (at, None) if has_changed else (changed, proof)
            case ToolErred(changed=True):
                changed, proof = at, None
            case _:
                pass
    return changed, proof


def _call_before(lane: LaneId, events: Sequence[Event], result: int) -> ToolCalled | None:
    """Return the call that a result answers; ids are unique only within a turn."""
    body = events[result].body
    call_id: CallId | None = body.call_id if isinstance(body, ToolReturned) else None
    calls = (event.body for event in reversed(events[:result]) if event.lane == lane)
    return next((call for call in calls if isinstance(call, ToolCalled) and call.call_id == call_id), None)


def _is_borne_out(command: str, returned: ToolReturned) -> bool:
    """Tell whether a command and what it printed prove what a result claims; logs before 0.6 claim only a command."""
    if returned.result.get("exit_code") != 0 or returned.result.get("timed_out"):
        return False
    assessment = assess(command)
    if returned.proof_kind is ProofKind.NONE:
        return assessment.proves == returned.proved
    printed = json.loads(returned.whole) if returned.whole else returned.result
    shown = shown_by(assessment, f"{printed.get('stdout', '')}\n{printed.get('stderr', '')}")
    return (shown.proved, shown.kind, shown.tests) == (returned.proved, returned.proof_kind, returned.tests)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 120 else line[:119] + "…"
