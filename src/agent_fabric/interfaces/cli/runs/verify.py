"""`fabric verify`: check again what a run claims."""

import sys

from agent_fabric.application.runs.verify_run import Verification
from agent_fabric.domain.runs.verification import CheckedClaim, ClaimStatus
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED
from agent_fabric.interfaces.cli.options import Last, RunIdArgument
from agent_fabric.interfaces.cli.output import colour, fit_width, plain
from agent_fabric.interfaces.cli.place import Place, choose_run, with_run
from agent_fabric.wire.runs import VERIFICATION

_MARKS = {ClaimStatus.HOLDS: ("✓", "green"), ClaimStatus.FAILS: ("✗", "red"), ClaimStatus.OPEN: ("–", "dim")}

app = new_app("Verify the claims of a run.")


@app.command()
def verify(run_id: RunIdArgument = None, last: Last = False, *, at: Place) -> int:
    """Verify, offline, what a run claims: its log, citations, quotes, files, pages and proof.

    Exit codes: 0 every claim holds, 1 one does not or the run has not settled, 2 there is no such run.
    """
    found = with_run(at, choose_run(run_id, last=last), lambda runs, chosen: runs.verify(chosen))
    at.print(VERIFICATION.dump(found), _report(found))
    return COMPLETED if found.holds else FAILED


def _report(found: Verification) -> str:
    width = max(len(claim.about) for claim in found.claims)
    head = f"run {found.run_id} · {', '.join(found.specialist_ids) or '-'} · {found.status}"
    claims = (_line(claim, min(width, 28)) for claim in found.claims)
    return "\n".join((head, fit_width(found.prompt, 100, sys.stdout), "", *claims, "", _sum(found))) + "\n"


def _line(claim: CheckedClaim, width: int) -> str:
    mark, style = _MARKS[claim.standing]
    return f"{colour(mark, style, sys.stdout)} {plain(claim.about):<{width}}  {plain(claim.detail)}"


def _sum(found: Verification) -> str:
    hold, fail, open_ = (
        sum(claim.standing is standing for claim in found.claims)
        for standing in (ClaimStatus.HOLDS, ClaimStatus.FAILS, ClaimStatus.OPEN)
    )
    failing = f"{fail} {'does' if fail == 1 else 'do'} not"
    unchecked = f", {open_} not checked" if open_ else ""
    return f"{hold} {'claim holds' if hold == 1 else 'claims hold'}, {failing}{unchecked}."
