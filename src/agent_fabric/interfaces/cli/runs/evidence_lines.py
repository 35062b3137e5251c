"""What a result is worth, in lines for a terminal: what changed, what was shown, what nobody can tell."""

from collections.abc import Iterator
from typing import TextIO

from agent_fabric.domain.evidence.proofs import UNPROVEN, UNVERIFIED, Proof
from agent_fabric.domain.packs.contents import CHANGED, texts_under
from agent_fabric.domain.plural import counted
from agent_fabric.domain.runs.effect_lines import doubts_beyond
from agent_fabric.domain.runs.task import RunResult
from agent_fabric.domain.tools.findings import ProofKind
from agent_fabric.interfaces.cli.output import plain, plain_lines, styled

ARTIFACTS = "artifacts"
_MAX_LISTED = 12


def changed_lines(result: RunResult) -> Iterator[str]:
    """Say which files were changed, and which others a specialist names. Of a project, the diff says more."""
    changed = texts_under(result.payload, CHANGED)
    if changed and result.workspace.endswith(f"/{result.run_id}/workspace"):
        yield _listed(CHANGED, changed)
    others = [path for path in texts_under(result.payload, ARTIFACTS) if path not in changed]
    if others:
        yield _listed(ARTIFACTS, others)


def evidence_lines(result: RunResult, stream: TextIO) -> Iterator[str]:
    """Say what bears a finished result out, or why nothing does."""
    if unproven := result.payload.get(UNPROVEN):
        if doubts := doubts_beyond(str(unproven), result.effects):
            yield f"{styled('unproven:', 'yellow', stream)} {plain(doubts)}"
    elif result.proof:
        yield f"{styled(proof_words(result.proof), 'green', stream)} {plain_lines(result.proof.command)}"
        yield from (f"  {styled(plain(line), 'dim', stream)}" for line in result.proof.printed.splitlines())
    if unverified := texts_under(result.payload, UNVERIFIED):
        yield f"{styled('in no result:', 'yellow', stream)} {', '.join(map(plain, unverified))}"


def proof_words(proof: Proof) -> str:
    """Say what kind of proof there is, before the command that gave it."""
    match proof.kind:
        case ProofKind.TESTS if proof.tests is not None:
            own = " of its own" if proof.own_tests else ""
            changed = f" (it changed {', '.join(map(plain, proof.changed_tests))})" if proof.changed_tests else ""
            return f"proven by {counted(proof.tests.passed, 'test')}{own}{changed}:"
        case ProofKind.PROGRAM:
            return "it runs:"
        case ProofKind.BUILD:
            return "it builds:"
        case _:
            return "proven by:"


def _listed(key: str, paths: list[str]) -> str:
    more = f" and {len(paths) - _MAX_LISTED:,} more" if len(paths) > _MAX_LISTED else ""
    return f"{key}: {', '.join(map(plain, paths[:_MAX_LISTED]))}{more}"
