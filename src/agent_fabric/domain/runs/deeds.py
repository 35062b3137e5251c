"""What a lane has done and shown, kept to hold its result against."""

from dataclasses import replace

from agent_fabric.domain.events import ToolReturned
from agent_fabric.domain.evidence.events import WorkspaceCompared
from agent_fabric.domain.evidence.proofs import (
    NO_PROOF,
    CommandRun,
    Proof,
    bears_on,
    chooses_programs,
    is_framed,
    own_recipes,
    replaced_runners,
    strongest,
)
from agent_fabric.domain.evidence.suite_counts import NONE_LEFT_OUT, files_named_in, left_out_in
from agent_fabric.domain.evidence.suite_files import decides_tests, is_test_file
from agent_fabric.domain.runs.state import Lane
from agent_fabric.domain.tools.findings import ProofKind
from agent_fabric.domain.tools.specs import Effect

_SHOWN_LINES, _SHOWN_CHARS = 3, 300
"""How much of a program's output stands beside what its running proves."""


def proof_from(body: ToolReturned, otherwise: ProofKind, seq: int) -> Proof:
    """Return what a result proves; one of a log that does not say what kind it is proves the least it can."""
    kind = otherwise if body.proof_kind is ProofKind.NONE else body.proof_kind
    printed = _first_lines(str(body.result.get("stdout") or "")) if kind is ProofKind.PROGRAM else ""
    return Proof(kind=kind, command=body.proved, seq=seq, tests=body.tests, printed=printed)


def take_comparison(lane: Lane, compared: WorkspaceCompared) -> None:
    """Hold what was shown since the last change against what is different: not all of it is about that."""
    lane.compared = compared
    shown = [run for run in lane.commands if run.proof and run.seq > lane.last_change]
    if lane.proof.seq not in {run.seq for run in shown}:
        return  # there is none, or it is not that of a command
    lane.proof = strongest(judge(run, compared) for run in reversed(shown))
    lane.unproved_change = lane.unproved_change or not lane.proof


def judge(run: CommandRun, compared: WorkspaceCompared) -> Proof:
    """Return what a command has shown about the changes, and whose tests they were."""
    proof = run.proof
    if not bears_on(run.command, proof.command, compared) or run.at < compared.touched_at:
        return NO_PROOF
    from agent_fabric.domain.evidence.commands import find_test_command, may_write_behind  # noqa: PLC0415 - not before a proof

    if run.began < compared.touched_at and may_write_behind(run.command, proof.command):
        return NO_PROOF
    if proof.kind is not ProofKind.TESTS:
        return proof
    others = (
        own_recipes(proof.command, compared) or chooses_programs(run.command) or not find_test_command(proof.command)
    )
    spoke_itself = bool(others) and not run.framed
    if spoke_itself or replaced_runners(compared) or _checks_nothing(compared):
        return replace(proof, kind=ProofKind.PROGRAM, tests=None)
    own = bool(compared.tests) and set(compared.tests) <= set(compared.paths)
    changed = (*filter(decides_tests, compared.modified), *filter(is_test_file, compared.deleted))
    return replace(proof, own_tests=own, changed_tests=changed)


def _checks_nothing(compared: WorkspaceCompared) -> bool:
    return bool(compared.idle_tests) and set(compared.tests) <= set(compared.idle_tests)


def _first_lines(output: str) -> str:
    lines = output[:_SHOWN_CHARS].strip().splitlines()[:_SHOWN_LINES]
    return "\n".join(line.rstrip() for line in lines)


def note_deed(lane: Lane, body: ToolReturned, seq: int, at: float) -> None:
    """Remember what was done, to hold the result against it."""
    lane.compared = None
    spec = lane.tools.get(body.tool)
    if spec is None or body.repeated:
        return
    if spec.command_argument:
        command = str(lane.began_with.get(spec.command_argument, ""))
        printed = f"{body.result.get('stdout') or ''}\n{body.result.get('stderr') or ''}"
        lane.commands.append(
            CommandRun(
                command,
                body.result.get("exit_code") == 0,
                seq,
                at=at,
                began=at - body.duration_s,
                tests=body.tests,
                proof=proof_from(body, ProofKind.PROGRAM, seq) if body.proved else NO_PROOF,
                left_out=left_out_in(printed) if body.tests is not None else NONE_LEFT_OUT,
                framed=is_framed(printed),
                files=files_named_in(printed) if body.tests is not None else (),
            )
        )
    known_place = spec.command_argument or spec.path_arguments or spec.url_argument or spec.sends_to
    leaves = spec.effect is Effect.LEAVES_SANDBOX or (spec.effect.changes and not known_place)
    lane.acted_elsewhere = lane.acted_elsewhere or lane.began_outside or leaves
