"""Shows how far an evaluation is, on standard error."""

import sys
import time
from collections.abc import Sequence
from typing import TextIO

from agent_fabric.domain.evals.trials import Grade, TrialOutcome
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.interfaces.cli.evals.eval_texts import trial_line
from agent_fabric.interfaces.cli.notices import Notices
from agent_fabric.interfaces.cli.output import capable


class EvalProgress:
    """A line for each trial that ends, and how far it all is. As EventSink it shows what models take long for."""

    wants_deltas = False

    def __init__(self, *, shown: bool, out: TextIO | None = None) -> None:
        self._out = out or sys.stderr
        self._shown = shown
        self._total = self._done = self._right = self._begun_with = 0
        self._started = time.monotonic()
        self._bar = Notices(self._out, shown=shown and capable(self._out))

    def begin(self, *, total: int, done: int, right: int) -> None:
        """Learn how many trials there are, and how many have ended before."""
        self._total, self._done, self._right, self._begun_with = total, done, right, done
        self._started = time.monotonic()

    def outcome(self, outcome: TrialOutcome) -> None:
        """Show what came of a trial."""
        self._done += 1
        self._right += outcome.grade is Grade.RIGHT
        self.finish()
        if self._shown:
            self._out.write(f"[{self._done}/{self._total}] {trial_line(outcome, self._out)}\n")
            self._out.flush()
        self.tell()

    def tell(self) -> None:
        """Show how far it is, where a line can be overwritten."""
        if self._done < self._total:
            self._bar(f"{self._right} right so far{self._time_left()}: {100 * self._done // max(self._total, 1)} %")

    def finish(self) -> None:
        """Take away what was only for the moment."""
        self._bar.__exit__()

    def publish(self, run_id: RunId, events: Sequence[Event]) -> None:
        """Trials are shown when they end."""

    def delta(self, run_id: RunId, lane: LaneId, text: str) -> None:
        """As above."""

    def notice(self, run_id: RunId, text: str) -> None:  # noqa: ARG002 - as every sink
        """Show what a model takes long for, such as a download."""
        self._bar(text)

    def _time_left(self) -> str:
        tried = self._done - self._begun_with
        if not tried:
            return ""
        seconds = (time.monotonic() - self._started) / tried * (self._total - self._done)
        return f", about {seconds / 60:.0f} min left" if seconds > 90 else f", about {seconds:.0f} s left"
