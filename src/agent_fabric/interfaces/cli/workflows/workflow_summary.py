"""What came of a workflow, in a few lines; and how to continue one that waits."""

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TextIO

from agent_fabric.domain.runs.effects import NO_EFFECTS, Effects, Outcome
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.interfaces.cli.approvals.approval_card import going_on, how_to_answer
from agent_fabric.interfaces.cli.durations import moment
from agent_fabric.interfaces.cli.output import colour, fit_width, laid_out, one_line, plain, plain_lines
from agent_fabric.interfaces.cli.runs.result_lines import effect_texts, warning_lines
from agent_fabric.interfaces.cli.runs.step_lines import seconds
from agent_fabric.wire.results import EFFECTS

_WIDTH = 100
_MAX_LINES = 20
_STYLES = {"success": "green", "skipped": "yellow", "failed": "red", "partial": "red"}


def workflow_summary(
    shown: Mapping[str, Any],
    stream: TextIO,
    in_doubt: Collection[str] = (),
    *,
    served: bool = False,
    who_may: str = "",
) -> str:
    """Say in a few lines how a workflow ended, or what it waits for.

    `in_doubt` are the questions about calls that may have happened; `served` shows whether a server drives it;
    `who_may` says who may answer, to a caller who may not.
    """
    meta = shown["_meta"]
    status = str(shown["status"] if meta["status"] != "cancelled" else "cancelled")
    effects = EFFECTS.load(meta["effects"]) if meta.get("effects") else NO_EFFECTS
    outcome = Outcome(meta["outcome"]) if meta.get("outcome") else None
    lines = ["", f"{colour(status, _STYLES.get(status, 'yellow'), stream)} · {_counts(shown)}"]
    if RunStatus(meta["status"]).settled:
        lines += warning_lines(_not_of_steps(effects), outcome, stream)
    lines += _values(shown, stream)
    lines += effect_texts(effects, stream, files=True)
    failed = [each for each in shown["step_results"] if each["status"] == "failed"]
    lines += [
        laid_out(
            f"{colour('failed:', 'red', stream)} {plain(each['step_id'])}: {one_line(each['error'] or '')}",
            stream,
            indent="  ",
        )
        for each in failed[:_MAX_LINES]
    ]
    error = shown.get("error")
    if error and (error["code"] != "workflow_failed" or not failed):
        lines.append(f"{colour('error:', 'red', stream)} {plain_lines(error['message'])}")
    if error and error["hint"]:
        lines.append(f"  hint: {plain_lines(error['hint'])}")
    lines += how_to_go_on(shown, in_doubt, served=served, who_may=who_may)
    files = f"fabric files {meta['run_id']}" if served else plain(meta["workspace"])
    lines += [f"files: {files}", f"log:   fabric logs show {meta['run_id']}"]
    return "\n".join(lines) + "\n"


def _not_of_steps(effects: Effects) -> Effects:
    """Return the effects without failures of the workflow's own steps: each of these has a line of its own."""
    return replace(effects, failed=tuple(call for call in effects.failed if call.run_id is not None))


def how_to_go_on(
    shown: Mapping[str, Any], in_doubt: Collection[str] = (), *, served: bool = False, who_may: str = ""
) -> list[str]:
    """Return the commands that answer a workflow or continue it; nothing for one that has ended."""
    meta = shown["_meta"]
    run_id = meta["run_id"]
    if meta["status"] not in ("waiting", "interrupted", "running"):
        return []
    lines = [how_to_answer(each, in_doubt=each in in_doubt, who_may=who_may) for each in meta["approvals"]]
    for each in meta["waiting_for"]:
        if each["kind"] == "signal":
            lines.append(f"waits for a signal: fabric workflow signal {run_id} {plain(each['name'])}")
        elif each["kind"] == "time":
            lines.append(f"waits until {moment(each['until'])}: {plain(each['step_id'])}")
        elif each["kind"] == "run" and not each.get("approvals"):
            lines.append(f"waits for run {each['run_id']}")
    return [*lines, going_on(run_id, RunStatus(meta["status"]), served=served)]


def _counts(shown: Mapping[str, Any]) -> str:
    results: Sequence[Mapping[str, Any]] = shown["step_results"]
    number = {status: sum(each["status"] == status for each in results) for status in ("success", "failed", "skipped")}
    done = number["success"]
    parts = [f"{done} {'step' if done == 1 else 'steps'} done"]
    parts += [f"{number[status]} {status}" for status in ("failed", "skipped") if number[status]]
    left = len(results) - sum(number.values())
    parts += [f"{left} to do"] if left else []
    return f"{', '.join(parts)} · {seconds(shown['duration_ms'] / 1000)}"


def _values(shown: Mapping[str, Any], stream: TextIO) -> list[str]:
    """Return the outputs that the workflow declares; of one that declares none, those of its steps.

    Of a workflow that did not come to its end, only those that have a value: the others are no answer.
    """
    values = shown.get("result") or {}
    if values and shown["status"] != "success":
        values = {name: each for name, each in values.items() if each is not None}
    elif not values:
        values = _named_values(shown["outputs"])
    lines = [line for name, value in values.items() for line in _value_lines(name, value, stream)]
    if len(lines) > _MAX_LINES and stream.isatty():
        lines[_MAX_LINES - 1 :] = [f"  … and {len(lines) - _MAX_LINES + 1} more; see all with --json"]
    return ["", *lines, ""] if lines else []


def _value_lines(name: str, value: Any, stream: TextIO) -> list[str]:
    """Return a value behind its name; a text of several lines as it is, below it."""
    if isinstance(value, str) and "\n" in value.strip():
        return [f"  {plain(name)}:", *(f"    {line}".rstrip() for line in plain_lines(value.strip("\n")).splitlines())]
    text = fit_width(_as_text(value), _WIDTH, stream)
    return [f"  {plain(name)}: {text}" if text else f"  {plain(name)}: (empty)"]


def _named_values(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return what steps gave, one value a line, as expressions name it: `STEP.NAME`."""
    named: dict[str, Any] = {}
    for step, given in outputs.items():
        each = (
            {f"{step}.{name}": value for name, value in given.items()} if isinstance(given, Mapping) else {step: given}
        )
        named |= {name: value for name, value in each.items() if value not in (None, "", [], {})}
    return named


def shown_value(value: Any, width: int = _WIDTH) -> str:
    """Return a value as one line of text; in a pipe, whole."""
    return fit_width(_as_text(value), width, sys.stdout)


def _as_text(value: Any) -> str:
    match value:
        case str():
            return value
        case Mapping():
            return ", ".join(f"{name}: {_as_text(each)}" for name, each in value.items())
        case list() | tuple():
            return ", ".join(map(_as_text, value))
        case _:
            return json.dumps(value, ensure_ascii=False, default=str)
