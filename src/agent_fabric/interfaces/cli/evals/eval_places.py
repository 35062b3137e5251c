"""Where a command finds evaluations: in a folder on this machine, or at a server."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from agent_fabric.application.ports.evals import EvalRecord
from agent_fabric.bootstrap.records import Records, this_person
from agent_fabric.bootstrap.runs import cancel_eval, find_eval
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.evals.comparison import Comparison
from agent_fabric.domain.evals.summary import EvalSummary, compare_evals
from agent_fabric.domain.identity.ownership import LOCAL_OWNER
from agent_fabric.interfaces.cli.place import RunAccess
from agent_fabric.interfaces.cli.place_local import LocalRuns
from agent_fabric.wire.evals import EVAL

if TYPE_CHECKING:
    from agent_fabric.client.evals import Evals as ServerEvals

MAX_OLD_BYTES = 100_000_000


class LocalEvals:
    """The evaluations of a fabric folder."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._find = find_eval(records)

    async def list(self, *, limit: int) -> Sequence[EvalRecord]:
        return await self._find.list(limit=limit)

    async def show(self, name: str) -> EvalSummary:
        return await self._find.summary(await self._find(name))

    async def newest(self, *, own: bool) -> EvalSummary:
        return await self._find.summary(await self._find.newest(owner=LOCAL_OWNER if own else ""))

    async def cancel(self, name: str, *, reason: str) -> EvalSummary:
        found = await self._find(name)
        await cancel_eval(self._records)(found, by=this_person(), reason=reason)
        return await self.show(found.eval_id)


def evals_at(place: RunAccess) -> "LocalEvals | ServerEvals":
    """Return the evaluations of the place that a command works on."""
    return LocalEvals(place.records) if isinstance(place, LocalRuns) else place.client.evals


async def summary_of(evals: "LocalEvals | ServerEvals", name: str | None) -> EvalSummary:
    """Return what an evaluation has shown; None: the newest."""
    return await (evals.newest(own=True) if name is None else evals.show(name))


class ComparedEval(NamedTuple):
    """An evaluation, and how it differs from an older one."""

    summary: EvalSummary
    comparisons: Sequence[Comparison] | None
    """None: it was not compared."""


def choose_eval(name: str | None, *, last: bool) -> str | None:
    """Return the evaluation that a command was told; None: the newest."""
    if (name is None) is not last:
        raise ConfigError("Say which evaluation: its id or name, or --last", hint="See them with `fabric eval list`.")
    return name


Old = EvalSummary | str | None
"""What to compare with: an evaluation, the name of one, or nothing."""


def old_eval(given: str | None) -> Old:
    """Return what `--compare` means: a file that `--json` has written, or else the name of an evaluation."""
    return given if given is None or not Path(given).is_file() else read_summary(Path(given))


async def find_old(evals: "LocalEvals | ServerEvals", old: Old) -> EvalSummary | None:
    """Return what to compare with."""
    return await evals.show(old) if isinstance(old, str) else old


def compare_with(summary: EvalSummary, old: EvalSummary | None) -> ComparedEval:
    """Compare an evaluation with an older one, if there is one."""
    return ComparedEval(summary, None if old is None else compare_evals(old, summary))


def read_summary(path: Path) -> EvalSummary:
    """Return the evaluation of a file that `--json` has written."""
    hint = "Write one with: fabric eval show EVAL --json > FILE"
    try:
        with path.open("rb") as file:
            data = file.read(MAX_OLD_BYTES + 1)
    except OSError as problem:
        raise ConfigError(f"{path} cannot be read: {problem.strerror or problem}", hint=hint) from None
    try:
        if len(data) > MAX_OLD_BYTES:
            raise ValueError("it is too large")
        return EVAL.load(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise ConfigError(f"{path} does not hold an evaluation: {problem}", hint=hint) from None
