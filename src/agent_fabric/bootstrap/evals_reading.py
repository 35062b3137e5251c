"""Joins what is needed to see and end evaluations: no model, no network, no configuration."""

from agent_fabric.application.evals.cancel_eval import CancelEval
from agent_fabric.application.evals.find_eval import FindEval
from agent_fabric.application.evals.make_case import MakeCase
from agent_fabric.application.runs.cancel_run import CancelRun
from agent_fabric.bootstrap.records import Records
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.runs.changes.recorder import ChangeRecorder


def find_eval(records: Records) -> FindEval:
    """Return the use case that finds evaluations."""
    storage = records.storage
    return FindEval(storage.evals, storage.trials, storage.agent_locks)


def cancel_eval(records: Records) -> CancelEval:
    """Return the use case that ends evaluations."""
    storage = records.storage
    return CancelEval(storage.evals, storage.trials, CancelRun(records.runs, SystemClock()))


def make_case(records: Records) -> MakeCase:
    """Return the use case that makes cases of runs."""
    return MakeCase(records.runs, ChangeRecorder(records.layout))
