"""Checks again what a finished run claims, from its log and its folder alone."""

from collections.abc import Callable, Collection, Sequence
from posixpath import normpath

from agent_fabric.application.ports.audit import LogCondition, LogInspector
from agent_fabric.application.ports.runs import RunRepository
from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.application.ports.sources import Snapshots
from agent_fabric.application.runs.fold_log import fold_log
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.domain.events import Event
from agent_fabric.domain.evidence.citations import ReadPages, urls_in_file
from agent_fabric.domain.evidence.proofs import UNPROVEN
from agent_fabric.domain.evidence.research_tables import EVIDENCE_TABLE, KEPT_BY_TOOLS
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.packs.contents import texts_under
from agent_fabric.domain.plural import count_of
from agent_fabric.domain.runs.answer import answer_in
from agent_fabric.domain.runs.merge import FILE_LISTS
from agent_fabric.domain.runs.state import Lane, RunState
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.domain.runs.verification import (
    CheckedClaim,
    ClaimStatus,
    claim_about_machines,
    claim_about_page,
    claim_about_proof,
    claim_about_words,
    claims_about_citations,
    claims_about_effects,
    claims_about_evidence,
    claims_about_mentions,
    claims_about_work,
    fails,
    holds,
    recorded_rows,
    spoken_urls,
)

MAX_REPORT_BYTES = 10_000_000
_SETTLED = frozenset(status for status in RunStatus if status.settled)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What became of checking a run."""

    run_id: RunId
    status: str
    prompt: str
    specialist_ids: Sequence[str]
    log: LogCondition
    claims: Sequence[CheckedClaim]

    @property
    def holds(self) -> bool:
        """Every claim that could be checked is borne out."""
        return all(claim.standing is not ClaimStatus.FAILS for claim in self.claims)


@dataclass(frozen=True, slots=True)
class VerifyRun:
    """Use case: hold every claim of a run against what was recorded. Asks no model and no network."""

    runs: RunRepository
    logs: LogInspector
    snapshots_for: Callable[[RunId], Snapshots]
    sandbox_for: Callable[[RunId, str], Sandbox]
    """Gives the run's files where they are today: a fabric folder may have been moved since."""

    async def __call__(self, run_id: RunId) -> Verification:
        """Check a run.

        Raises:
            RunNotFound: there is none with this id.
        """
        log = await self.logs.inspect(run_id)
        try:
            events = await self.runs.read(run_id)
        except StoreUnavailable:
            events = ()  # the damage that was just found: there is nothing else to check
        state = await fold_log(run_id, events)
        claims = [_claim_about_log(log, state)]
        if events:
            claims.append(_claim_about_end(state, log))
        if state.status.settled:
            claims += await self._claims(state, events)
        return Verification(
            run_id=run_id,
            status=state.status if events else log.status,
            prompt=state.task.prompt if state.task else "",
            specialist_ids=state.specialist_ids,
            log=log,
            claims=claims,
        )

    async def _claims(self, state: RunState, events: Sequence[Event]) -> list[CheckedClaim]:
        pages = ReadPages(state.sources)
        claims = [*claims_about_effects(state, answer_in(state.payload or {}))]
        for lane in state.lanes.values():
            payload = lane.payload or {}
            if payload.get(UNPROVEN):
                unproven = f"it is marked as unproven: {payload[UNPROVEN]}"
                claims.append(fails(f"result of {lane.specialist_id}", unproven))
            whose = lane.specialist_id if state.is_task_force else ""
            claims += claims_about_citations(payload, pages, whose)
            if _cites(lane):
                claims += claims_about_mentions(f"result of {lane.specialist_id}", spoken_urls(payload), pages)
            if lane.finish.needs_reading_back:
                claims.append(claim_about_machines(lane, events))
            if lane.finish.needs_proof:
                claims += (claim_about_proof(lane, events), *claims_about_work(state, lane, events))
        sandbox = self.sandbox_for(state.run_id, state.workspace)
        written = {normpath(path) for lane in state.lanes.values() for path in lane.wrote}
        for path in dict.fromkeys(path for lane in state.lanes.values() for path in _named_files(lane)):
            claims.append(await _claim_about_file(sandbox, path, written))
        claims += await _claims_about_reports(sandbox, state, pages)
        claims += await _claims_about_evidence(sandbox, state, recorded_rows(events), pages)
        snapshots = self.snapshots_for(state.run_id)
        for source in {(source.sha256, source.text): source for source in state.sources}.values():
            claims.append(claim_about_page(source, await snapshots.damage_to(source)))
        return [*claims, claim_about_words()]


def _claim_about_log(log: LogCondition, state: RunState) -> CheckedClaim:
    if log.damage:
        more = f"; and {len(log.damage) - 3} more" if len(log.damage) > 3 else ""
        return fails("log", f"{'; '.join(log.damage[:3])}{more}")
    if log.status != state.status and (log.status in _SETTLED or state.status.settled):
        return fails("log", f"the store says that the run is {log.status}, but its log ends as {state.status}")
    events = count_of(log.events, "event")
    return holds("log", f"{events}, each with the hash of the one before; the last hash is {log.head}")


def _claim_about_end(state: RunState, log: LogCondition) -> CheckedClaim:
    if state.unknown_kind and log.damage:
        return fails("end", f"the log was changed, so its {state.unknown_kind!r} events tell nothing")
    if state.unknown_kind:
        return CheckedClaim(
            "end", ClaimStatus.OPEN, f"the log holds {state.unknown_kind!r} events of a newer agent-fabric"
        )
    if state.status is RunStatus.COMPLETED:
        return holds("end", "the run completed")
    if state.error is not None and state.payload:
        return fails("end", f"the run has only a part of its result: {state.error.message}")
    if state.error is not None:
        ended = "was cancelled" if state.status is RunStatus.CANCELLED else str(state.status)
        return fails("end", f"the run {ended}, so it has no result: {state.error.message}")
    return fails("end", f"the run has not settled: it is {state.status}")


def _cites(lane: Lane) -> bool:
    """Tell whether a lane's result is of the kind that cites, also where it could not."""
    return lane.finish.needs_citations or "citations" in lane.finish.parameters.get("properties", {})


def _named_files(lane: Lane) -> list[str]:
    """Return the files that a result names."""
    payload = lane.payload or {}
    return [path for key in FILE_LISTS for path in texts_under(payload, key)]


async def _claim_about_file(sandbox: Sandbox, path: str, written: Collection[str]) -> CheckedClaim:
    about = f"file {path}"
    try:
        _, size = await sandbox.read_file(path, max_bytes=0)
    except IsADirectoryError:
        if normpath(path) in written:
            return fails(about, "the run wrote a file, but now it is a folder")
        return holds(about, "the folder is in the workspace")
    except (OSError, ValueError):
        return fails(about, "there is no such file in the workspace")
    return holds(about, f"it is in the workspace, {count_of(size, 'byte')}")


async def _claims_about_reports(sandbox: Sandbox, state: RunState, pages: ReadPages) -> list[CheckedClaim]:
    """Check the addresses in reports as they are today."""
    citing = [lane for lane in state.lanes.values() if _cites(lane)]
    claims: list[CheckedClaim] = []
    named = (normpath(path) for lane in citing for path in _named_files(lane))
    for path in dict.fromkeys([*state.cited_in_files, *named]) if citing else ():
        text, unread = await _text_of(sandbox, path) if path not in KEPT_BY_TOOLS else (None, 0)
        if text is not None:
            claims += claims_about_mentions(path, urls_in_file(path, text), pages)
        if unread:
            detail = f"its last {unread:,} bytes were not checked: the file is too long"
            claims.append(CheckedClaim(path, ClaimStatus.OPEN, detail))
    return claims


async def _claims_about_evidence(
    sandbox: Sandbox, state: RunState, recorded: int, pages: ReadPages
) -> Sequence[CheckedClaim]:
    """Check the evidence table, if this run has one."""
    if not recorded and not any(map(_cites, state.lanes.values())):
        return ()
    text, unread = await _text_of(sandbox, EVIDENCE_TABLE)
    if unread:
        return (CheckedClaim(EVIDENCE_TABLE, ClaimStatus.OPEN, "it was not checked: the file is too long"),)
    return tuple(claims_about_evidence(text, recorded, pages))


async def _text_of(sandbox: Sandbox, path: str) -> tuple[str | None, int]:
    """Return a file's text, None if it has none, and how many bytes at its end were not read."""
    try:
        data, size = await sandbox.read_file(path, max_bytes=MAX_REPORT_BYTES)
    except (OSError, ValueError):
        return None, 0
    if b"\0" in data:
        return None, 0
    if size > len(data):  # an address that was cut in two is another address
        data = data[: max(data.rfind(b"\n"), data.rfind(b" ")) + 1]
    return data.decode("utf-8", "replace"), size - len(data)
