"""How a question looks in a terminal: a person sees what would run, also where it was written to be overlooked."""

import json
import re
import shlex
from typing import TextIO

from agent_fabric.application.ports.approvals import ApprovalCard, ApprovalStatus
from agent_fabric.domain.approvals.answers import Question, short_hash
from agent_fabric.domain.approvals.call_text import MAX_LINE_CHARS, MAX_LINES, call_text, is_long, size_words
from agent_fabric.domain.errors import ApprovalRefused
from agent_fabric.domain.identity.ownership import LOCAL_OWNER
from agent_fabric.domain.policy.labels import paths_to_vouch_for
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.interfaces.cli.durations import minute
from agent_fabric.interfaces.cli.output import colour, fit_width, fold_lines, plain, terminal_columns
from agent_fabric.interfaces.views.approvals import FormField, fields_of

_FOLD = "  ┆ "
"""Begins what a line is continued with, so that it cannot pass for a line of ours."""
_BLANKS = re.compile(" {40,}")
_LOOKS_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Characters that count as printable and show nothing."""
HIDDEN = "has hidden characters"
_HEADS = {
    Question.MAY_IT_RUN: "approval needed",
    Question.DID_IT_HAPPEN: "it may have happened",
    Question.ANSWER: "a workflow asks",
}
_AFTER_A_CRASH = "approve: run it again; done: it has happened; deny: skip it"


def shown_card(card: ApprovalCard, stream: TextIO, *, whole: bool = False) -> str:
    """Return the card: what would run, why it asks, where, and what the run has read before.

    What is long is folded: the middle is left out, because surprises are at the end. With `whole`, nothing is left out.
    """
    arguments = _visible_lines(_text(card))
    shown = arguments if whole else _cut(arguments)
    step = step_asking(card.agent, card.call_id)
    about = f"{plain(card.tool)} · step {plain(step)}" if step else plain(card.tool)
    is_open = card.status is ApprovalStatus.PENDING
    head = colour(_HEADS[card.question], "yellow", stream) if is_open else f"approval {card.status.value}"
    lines = [
        f"{head} · {card.approval_id} · {about}",
        *(f"  │ {line}" for line in shown),  # so that no line of them passes for one of ours
        *([f"  {colour(HIDDEN, 'red', stream)}, shown above as escapes"] if _hides(_text(card)) else []),
        *([] if shown == arguments else [f"  {colour('not all of it:', 'red', stream)} {_see_all(card)}"]),
        *([f"  hash:  {_size_and_hash(card)}"] if card.binding else []),
        *(f"  fill in: {field_text(field, stream)}" for field in fields_of(card)),
        *([] if card.question is Question.ANSWER else [f"  why:   {plain(card.reason)} (rule {plain(card.rule)})"]),
        *_where(card, stream),
        f"  run:   {card.run_id}, of {plain(card.owner or LOCAL_OWNER)}",
    ]
    if card.destination:
        lines.append(f"  to:    {_visible(card.destination)}")
    if card.untrusted:
        lines.append(f"  {colour('has read:', 'red', stream)} {', '.join(map(plain, card.untrusted))}")
        lines += _how_to_vouch(card)
    if card.untrusted and card.private:
        lines.append(f"  {colour('private:', 'red', stream)} {', '.join(map(plain, card.private))}")
    if card.damage:
        lines.append(f"  {colour('damaged:', 'red', stream)} {plain(card.damage)}; it cannot be answered")
    elif is_open:
        lines += [f"  answers: {_AFTER_A_CRASH}"] if card.question is Question.DID_IT_HAPPEN else []
        lines += [f"  for this run: would cover {plain(card.alike)}"] if card.alike else []
        lines.append(f"  until: {minute(card.expires_at)}")
    else:
        who = f" by {plain(card.decided_by)}" if card.decided_by else ""
        because = f": {plain(card.decided_because)}" if card.decided_because else ""
        lines.append(f"  {card.status.value}{who}{because}")
        if card.changed is not None:
            lines.append("  instead of that, this was approved:" if _is_call(card) else "  filled in:")
            lines += [f"  │ {line}" for line in _visible_lines(call_text(card.changed))]
    if stream.isatty():
        width = terminal_columns()
        lines = [part for line in lines for part in fold_lines(line, width, _FOLD, within_words=True)]
    return "\n".join(lines) + "\n"


def is_folded(card: ApprovalCard) -> bool:
    """Tell whether a card leaves something of its call out unless all of it is wanted."""
    return is_long(_text(card))


def require_read(card: ApprovalCard, shown_hash: str) -> None:
    """Check that a call was read before it is approved: of a long one, the hash is known.

    Raises:
        ApprovalRefused: it is long and no hash is given, or the hash is that of another call.
    """
    if card.status is not ApprovalStatus.PENDING or not card.binding:
        return
    if not shown_hash and is_folded(card):
        raise ApprovalRefused(
            f"This call is long: {size_words(_text(card))}. Look at all of it before you approve it",
            hint=f"See it with `fabric approvals show {card.approval_id}`, then repeat this with the --hash it prints.",
        )
    if not card.binding.startswith(shown_hash):
        raise ApprovalRefused(
            f"This is not the call that was shown: its hash is {short_hash(card.binding)}, not {plain(shown_hash)}",
            hint=f"Look at it again: fabric approvals show {card.approval_id}",
        )


def _size_and_hash(card: ApprovalCard) -> str:
    text = _text(card)
    return f"{short_hash(card.binding)}, {size_words(text)}" if is_long(text) else short_hash(card.binding)


def _is_call(card: ApprovalCard) -> bool:
    return card.question is not Question.ANSWER


def _how_to_vouch(card: ApprovalCard) -> list[str]:
    """Return the command after which later runs may read the files; of a name with hidden characters none."""
    paths = [path for path in paths_to_vouch_for(card.untrusted) if not _hides(path) and "\n" not in path]
    if not paths:
        return []
    command = shlex.join(("fabric", "policy", "vouch", *(["--"] if paths[0].startswith("-") else []), *paths))
    return [f"         to trust it in later runs, once you have read it: {command}"]


def _where(card: ApprovalCard, stream: TextIO) -> list[str]:
    wanted_by = f"wanted by {plain(card.agent)}"
    if card.outside is None:
        return [f"  where: sandbox {plain(card.sandbox)}, {plain(card.target)}, {wanted_by}"]
    outside = card.outside
    return [
        f"  where: {colour('OUTSIDE the box', 'red', stream)}, as {plain(outside.account)}, with your network access "
        f"and credentials; {wanted_by}",
        "         no hook, setting or script of the workspace is obeyed; only this call, only once",
        f"  runs:  {_visible(shlex.join(outside.words))}",
        *(f"  with:  {_visible(line)}" for line in outside.carries),
    ]


def card_line(card: ApprovalCard, stream: TextIO) -> str:
    """Return a question as one line of a list; what would run is cut only on a terminal."""
    said = f"{card.tool} {_main(card)}"
    what = fit_width(_visible(said), 70, stream) + f" [{HIDDEN}]" * (_hides(said))
    what += f" [{size_words(_text(card))}, hash {short_hash(card.binding)}]" if is_folded(card) else ""
    what += " [outside the box]" * (card.outside is not None)
    owner = plain(card.owner or LOCAL_OWNER)
    head = f"{plain(card.approval_id)}  {card.run_id[:8]}  {owner}"
    if card.damage:
        return f"{head}  {'damaged':<9}  {what}  ({plain(card.damage)})"
    return f"{head}  {card.status.value:<9}  {what}  ({card.rule}, until {minute(card.expires_at)})"


def how_to_answer(approval_id: str, *, in_doubt: bool = False, who_may: str = "") -> str:
    """Return the commands that answer a question; `in_doubt` is one about a call that may have happened.

    `who_may` says who may answer, to a caller who may not.
    """
    if who_may:
        return f"needs a person: fabric approvals show {approval_id}\n  ({who_may})"
    line = f"needs a person: fabric approvals show {approval_id}, then fabric approvals "
    if not in_doubt:
        return f"{line}approve|deny {approval_id}"
    return f"{line}approve|done|deny {approval_id}\n  ({_AFTER_A_CRASH})"


def going_on(run_id: str, status: RunStatus, *, served: bool) -> str:
    """Say who continues a run that has not ended; `served` is one that a server drives."""
    if served and status is not RunStatus.INTERRUPTED:
        return f"The server continues the run by itself. Watch it: fabric logs show {run_id} --follow"
    return f"Resume with: fabric resume {run_id}"


def step_asking(agent: str, call_id: str) -> str:
    """Return the step of a workflow that a question is about; empty: no step asks."""
    return call_id.rpartition("#")[0] if agent.startswith("workflow:") else ""


def field_text(field: FormField, stream: TextIO) -> str:
    """Return what a field of a form is for, and what it takes."""
    kind = " | ".join(_short(each, stream) for each in field.choices) or field.type
    mark = f"default {_short(field.default, stream)}" if field.has_default else "required" if field.required else ""
    about = f": {plain(field.description)}" if field.description else ""
    return f"{plain(field.name)} ({', '.join(filter(None, (kind, mark)))}){about}"


def _short(value: object, stream: TextIO) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return fit_width(text, 60, stream)


def _main(card: ApprovalCard) -> str:
    main = next((str(card.args[key]) for key in ("command", "path", "url", "message") if key in card.args), None)
    return json.dumps(card.args) if main is None else main


def _see_all(card: ApprovalCard) -> str:
    return f"{size_words(_text(card))}; see them before you agree, with `fabric approvals show {card.approval_id}`"


def _visible_lines(text: str) -> list[str]:
    return [_visible(line) for line in text.split("\n")]


def _text(card: ApprovalCard) -> str:
    if card.question is Question.ANSWER:
        return str(card.args.get("message", ""))
    return call_text(card.args)


def _hides(text: str) -> bool:
    """Tell whether a text has characters that are not shown as they are, apart from the ends of its lines."""
    return any(_visible(line) != line for line in text.split("\n"))


def _visible(line: str) -> str:
    """Return a line in which nothing hides: not behind control characters, not behind blanks."""
    shown = "".join(char if char.isprintable() and char not in _LOOKS_BLANK else ascii(char)[1:-1] for char in line)
    return _BLANKS.sub(lambda found: f" [{len(found.group())} blanks] ", shown)


def _cut(lines: list[str]) -> list[str]:
    """Leave out the middle of what is too long for a screen."""
    if len(lines) > MAX_LINES:
        half = MAX_LINES // 2
        lines = [*lines[:half], f"[{len(lines) - 2 * half} lines left out]", *lines[-half:]]
    return [_cut_line(line) for line in lines]


def _cut_line(line: str) -> str:
    half = MAX_LINE_CHARS // 2
    if len(line) <= MAX_LINE_CHARS:
        return line
    return f"{line[:half]} [{len(line) - 2 * half} characters left out] {line[-half:]}"
