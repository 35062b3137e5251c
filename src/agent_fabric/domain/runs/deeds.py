"""What a lane has done and shown, kept to hold its result against."""

from dataclasses import replace

from agent_fabric.domain.events import ToolReturned
from agent_fabric.domain.proofs import CommandRun, Proof, ProofKind
from agent_fabric.domain.runs.state import Lane
from agent_fabric.domain.tools import Effect
from agent_fabric.domain.workspace_events import WorkspaceCompared

_SHOWN_LINES, _SHOWN_CHARS = 3, 300
"""How much of a program's output stands beside what its running proves."""


def proof_from(body: ToolReturned, otherwise: ProofKind, seq: int) -> Proof:
    """Return what a result proves; one of a log that does not say what kind it is proves the least it can."""
    kind = otherwise if body.proof_kind is ProofKind.NONE else body.proof_kind
    printed = _first_lines(str(body.result.get("stdout") or "")) if kind is ProofKind.PROGRAM else ""
    return Proof(kind=kind, command=body.proved, seq=seq, tests=body.tests, printed=printed)


def judged_by(proof: Proof, compared: WorkspaceCompared) -> Proof:
    """Return a proof with whose tests they were."""
    own = proof.kind is ProofKind.TESTS and bool(compared.tests) and set(compared.tests) <= set(compared.paths)
    return replace(proof, own_tests=own)


def _first_lines(output: str) -> str:
    lines = output[:_SHOWN_CHARS].strip().splitlines()[:_SHOWN_LINES]
    return "\n".join(line.rstrip() for line in lines)


def note_deed(lane: Lane, body: ToolReturned, seq: int) -> None:
    """Remember what was done, to hold the result against it."""
    lane.compared = None
    spec = lane.tools.get(body.tool)
    if spec is None or body.repeated:
        return
    if spec.command_argument:
        command = str(lane.began_with.get(spec.command_argument, ""))
        lane.commands.append(CommandRun(command, body.result.get("exit_code") == 0, seq))
    known_place = spec.command_argument or spec.path_arguments or spec.url_argument or spec.sends_to
    leaves = spec.effect is Effect.LEAVES_SANDBOX or (spec.effect.changes and not known_place)
    lane.acted_elsewhere = lane.acted_elsewhere or lane.began_outside or leaves
