"""Shows a turn as it happens: the answer as it is written, and a line for each thing that is done."""

import sys
from collections.abc import Sequence
from typing import TextIO

from agent_fabric.domain.approvals.events import ApprovalRequested
from agent_fabric.domain.events import (
    Event,
    ModelAnswered,
    ModelFailed,
    RunCompleted,
    RunFailed,
    ToolCalled,
    ToolErred,
    ToolReturned,
)
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.interfaces.cli.output import colour, json_text, plain, plain_lines, shorten, terminal_columns
from agent_fabric.interfaces.cli.runs.result_lines import warning_lines


class ChatView:
    """EventSink that prints answers to one stream and everything else to another."""

    def __init__(self, said: TextIO | None, beside: TextIO | None) -> None:
        """Take where answers go, and what is done for them; None: they are not shown."""
        self._said = said
        self._beside = beside
        self._written: dict[tuple[RunId, LaneId | None], bool] = {}
        """Answers of which something was shown as it was written."""
        self._seen: dict[RunId, int] = {}
        """The newest event of each turn that was shown."""
        self._mid_line = False
        self._notice = ""
        self.wants_deltas = said is not None
        self.turn: RunId | None = None
        """The only turn that is shown; None: all. Others are shown as messages when they have ended."""

    def publish(self, run_id: RunId, events: Sequence[Event]) -> None:
        if self._leaves_out(run_id):
            return
        for event in events:
            if event.seq > self._seen.get(run_id, -1):
                self._seen[run_id] = event.seq
                self._show(run_id, event)

    def _leaves_out(self, run_id: RunId) -> bool:
        return self.turn is not None and run_id != self.turn

    def delta(self, run_id: RunId, lane: LaneId, text: str) -> None:
        if self._said is None or self._leaves_out(run_id):
            return
        self._written[run_id, lane] = True
        self._say("\n".join(map(plain, text.split("\n"))))

    def notice(self, run_id: RunId, text: str) -> None:  # noqa: ARG002 - there is one turn
        if str(text) != self._notice:
            self._notice = str(text)
            self._aside(colour(shorten(str(text), terminal_columns()), "dim", sys.stderr))

    def end_line(self) -> None:
        """End the line that is being written, if there is one."""
        if self._mid_line and self._said is not None:
            self._said.write("\n")
            self._said.flush()
        self._mid_line = False

    def _show(self, run_id: RunId, event: Event) -> None:
        match event.body:
            case ModelAnswered() as body:
                if not self._written.pop((run_id, event.lane), False) and body.content.strip():
                    self._say(plain_lines(body.content))
                self.end_line()
                if body.cut:
                    told = f"  cut after {body.cut:,} characters; the model was told to answer shorter"
                    self._aside(colour(told, "yellow", sys.stderr))
            case ModelFailed() as body:
                self._written.pop((run_id, event.lane), None)
                self._aside(colour(f"  model: {plain(body.error_message)}", "yellow", sys.stderr))
            case ToolCalled() as body:
                line = shorten(f"  · {body.tool} {json_text(dict(body.args))}", terminal_columns())
                self._aside(colour(line, "dim", sys.stderr))
            case ToolReturned() as body if body.origin:
                self._aside(colour(f"    from {plain(body.origin)}", "dim", sys.stderr))
            case ToolErred() as body:
                self._aside(
                    colour(
                        shorten(f"    {body.error_type}: {body.error_message}", terminal_columns()),
                        "yellow",
                        sys.stderr,
                    )
                )
            case ApprovalRequested() as body:
                self._aside(f"  needs your agreement: {plain(body.subject)}")
            case RunCompleted() as body if body.effects is not None and body.effects.open:
                # The words stand there already, as they came; what contradicts them is what is read last.
                self.end_line()
                self._say("".join(f"{line}\n" for line in warning_lines(body.effects, body.outcome, sys.stdout)))
            case RunFailed() as body:
                self._aside(f"{colour('failed:', 'red', sys.stderr)} {plain_lines(body.message)}")
                if body.hint:
                    self._aside(f"  hint: {plain_lines(body.hint)}")
            case _:
                pass

    def _say(self, text: str) -> None:
        if self._said is not None:
            self._said.write(text)
            self._said.flush()
            self._mid_line = not text.endswith("\n")

    def _aside(self, line: str) -> None:
        if self._beside is not None:
            self.end_line()
            self._beside.write(f"{line}\n")
            self._beside.flush()
