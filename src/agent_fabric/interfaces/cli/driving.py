"""What `run` and `resume` share: drive something in the foreground and present how it ended."""

import asyncio
import itertools
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from agent_fabric.bootstrap.local import LocalFabric, build_local
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.errors import Interrupted, StoreUnavailable
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.evolve import fold
from agent_fabric.domain.runs.state import result_of
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.infrastructure.runlog.layout import Layout
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED, INTERRUPTED, WAITING
from agent_fabric.interfaces.cli.output import print_json
from agent_fabric.interfaces.cli.view import LiveView, summary
from agent_fabric.interfaces.result import error_object, result_object

Work = Callable[[LocalFabric, Callable[[RunId], None]], Awaitable[RunResult]]
"""Drives a run; tells its id as soon as it has one."""

EXIT_CODES = {
    RunStatus.COMPLETED: COMPLETED,
    RunStatus.FAILED: FAILED,
    RunStatus.CANCELLED: FAILED,
    RunStatus.WAITING: WAITING,
    RunStatus.INTERRUPTED: INTERRUPTED,
    RunStatus.RUNNING: INTERRUPTED,
}


def drive_in_foreground(root: Path, config: FabricConfig, work: Work, *, verbose: bool, as_json: bool) -> int:
    """Drive to the end, present the result, return the exit code.

    Ctrl-C and SIGTERM leave the run interrupted, ready to be resumed.
    """
    shown = verbose or not as_json or sys.stderr.isatty()
    view = LiveView(sys.stderr, verbose=verbose) if shown else None

    seen: list[RunId] = []

    async def go() -> RunResult:
        fabric = build_local(root, config, sink=view)
        try:
            await fabric.records.runs.catch_up()
            task = asyncio.ensure_future(work(fabric, seen.append))
            _stop_when_told(task)
            try:
                return await task
            except asyncio.CancelledError:
                if not seen:
                    raise
                return result_of(fold(seen[0], await fabric.records.runs.read(seen[0])))
        finally:
            await fabric.aclose()

    try:
        try:
            result = asyncio.run(go())
        finally:
            if view is not None:
                view.finish()
    except asyncio.CancelledError:
        if as_json:
            print_json(error_object(Interrupted("Stopped before there was a run", hint="Nothing was done.")))
        return INTERRUPTED
    except StoreUnavailable as problem:
        if not (as_json and seen):
            raise
        print_json(error_object(problem, run_id=seen[0]))
        return FAILED
    if as_json:
        print_json(result_object(result, Layout(root).run_dir(result.run_id)))
    else:
        sys.stdout.write(summary(result))
    return EXIT_CODES[result.status]


def _stop_when_told(task: "asyncio.Future[RunResult]") -> None:
    """Let Ctrl-C and SIGTERM stop the work. A second press must not stop the cleaning up; a third one ends us."""
    presses = itertools.count(1)

    def stop() -> None:
        match next(presses):
            case 1:
                task.cancel()
            case 2:
                pass
            case _:
                os._exit(INTERRUPTED)  # a pack that does not close; the run can be resumed all the same

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)
