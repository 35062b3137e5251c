"""Asks the person at the terminal about the approvals that a run waits for."""

import asyncio
import json
import sys
import termios
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from agent_fabric.application.ports.approvals import Answer, ApprovalCard, ApprovalStatus
from agent_fabric.bootstrap.records import this_person
from agent_fabric.domain.approvals.answers import Decision, Question, Reach
from agent_fabric.domain.errors import ApprovalRefused, ApprovalSettled, InvalidInputs
from agent_fabric.interfaces.cli.approvals.approval_card import field_text, is_folded, shown_card
from agent_fabric.interfaces.cli.output import plain, plain_lines
from agent_fabric.interfaces.views.approvals import FormField, fields_of

_BEFORE = ("once", "run", "edit", "deny", "later")
_AFTER_A_CRASH = ("run", "done", "skip", "later")
_YES_OR_NO = ("yes", "no", "later")
_FOLDED = ("all", "deny", "later")
MAX_TYPED_BYTES = 4_095
"""A terminal drops what is typed behind so much of a line."""


def is_interactive() -> bool:
    """Return whether a person at the terminal can be asked."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


async def ask_person(
    approvals: Sequence[str],
    find: Callable[[str], Awaitable[ApprovalCard]],
    decide: Callable[[str, Answer], Awaitable[object]],
) -> bool:
    """Ask about everything that a run waits for; return whether all of it has been answered."""
    for approval_id in approvals:
        card = await find(approval_id)
        if card.status is not ApprovalStatus.PENDING:
            continue
        sys.stderr.write("\n" + shown_card(card, sys.stderr))
        folded = is_folded(card)
        while True:
            answer = await _answer_to_folded(card) if folded else await _answer_to(card)
            if answer is None:
                return False
            folded = False
            try:
                await decide(card.approval_id, replace(answer, binding=card.binding))
            except ApprovalRefused as problem:
                sys.stderr.write(f"  {plain_lines(problem.message)}\n  hint: {plain_lines(problem.hint)}\n")
                continue
            except ApprovalSettled as problem:  # another answer came first
                sys.stderr.write(f"  {plain_lines(problem.message)}\n")
            break
    return True


async def _answer_to_folded(card: ApprovalCard) -> Answer | None:
    """Return what the person says to a call of which they have not seen all."""
    match await _choice("Show [a]ll of it, [d]eny it, or decide [l]ater? ", _FOLDED):
        case "all":
            sys.stderr.write("\n" + shown_card(card, sys.stderr, whole=True))
            return await _answer_to(card)
        case "deny":
            return await _denial(this_person())
        case _:
            return None


async def _denial(by: str) -> Answer:
    reason = await _line("Why? The model is told (Enter: no reason): ") or ""
    return Answer(decision=Decision.DENY, by=by, via="terminal", reason=reason.strip())


async def _answer_to(card: ApprovalCard) -> Answer | None:
    """Return what the person says; None: later."""
    by = this_person()
    answer = partial(Answer, decision=Decision.APPROVE, by=by, via="terminal")
    if card.question is Question.ANSWER:
        return await _answer_to_workflow(card, by)
    if card.question is Question.DID_IT_HAPPEN:
        match await _choice("[r]un it again, count it as [d]one, [s]kip it, or decide [l]ater? ", _AFTER_A_CRASH):
            case "run":
                return answer()
            case "done":
                return answer(decision=Decision.DONE)
            case "skip":
                return answer(decision=Decision.DENY)
            case _:
                return None
    alike = ", for this [r]un" if card.alike else ""
    words = [word for word in _BEFORE if card.alike or word != "run"]
    match await _choice(f"Allow it [o]nce{alike}, [e]dit it, [d]eny it, or decide [l]ater? ", words):
        case "once":
            return answer()
        case "run":
            return answer(reach=Reach.RUN)
        case "edit":
            args = await _edit(card)
            if args is None:  # they thought better of it
                return await _answer_to(card)
            return answer(args=args)
        case "deny":
            return await _denial(by)
        case _:
            return None


async def _answer_to_workflow(card: ApprovalCard, by: str) -> Answer | None:
    match await _choice("[y]es, [n]o, or decide [l]ater? ", _YES_OR_NO):
        case "yes":
            fields = fields_of(card)
            if not fields:
                return Answer(decision=Decision.APPROVE, by=by, via="terminal")
            values: dict[str, Any] = {}
            for field in fields:
                if not await _fill_in(field, values):
                    return None
            return Answer(decision=Decision.APPROVE, by=by, via="terminal", args=values)
        case "no":
            reason = await _line("Why? (Enter: no reason): ") or ""
            return Answer(decision=Decision.DENY, by=by, via="terminal", reason=reason.strip())
        case _:
            return None


async def _fill_in(field: FormField, values: dict[str, Any]) -> bool:
    """Let the person fill in a field; return whether they did, or may leave it empty."""
    while (line := await _line(f"  {field_text(field, sys.stderr)}: ")) is not None:
        text = line.strip()
        if not text and field.has_default:
            values[field.name] = field.default
            return True
        if not text and not field.required:
            return True
        try:
            value = field.value_of(text)
        except InvalidInputs as problem:
            sys.stderr.write(f"  {plain_lines(problem.message)}\n")
            continue
        if wrong := field.problem_with(value) or ("" if text else "it must be filled in"):
            sys.stderr.write(f"  {plain(wrong)}\n")
            continue
        values[field.name] = value
        return True
    return False


async def _choice(question: str, words: Sequence[str]) -> str:
    """Return the word that the person chose; at the end of input none."""
    # What was typed before the question was there is no answer to it.
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    while (line := await _line(question)) is not None:
        said = line.strip().lower()
        for word in words:
            if said in (word, word[0]):  # not by the first letter alone: "refuse" is not "for this run"
                return word
    return ""


async def _edit(card: ApprovalCard) -> Mapping[str, Any] | None:
    """Return the arguments that the person wants instead; None: none after all."""
    command = str(card.args["command"]) if set(card.args) == {"command"} else ""
    only_command = command.isprintable() and bool(command)  # one that has several lines cannot be typed on one
    question = "Run this instead: " if only_command else "All arguments, as JSON on one line: "
    text = command if only_command else json.dumps(dict(card.args))
    if len(text.encode(errors="surrogatepass")) >= MAX_TYPED_BYTES:
        sys.stderr.write(
            "  It is too long to be typed at a terminal. Take `args` of `fabric approvals show "
            f"{card.approval_id} --json`,\n  change them in a file, and decide later: "
            f"fabric approvals approve {card.approval_id} --args @FILE\n"
        )
        return None
    # The terminal reads whole lines, so what is there cannot be put into the line that is typed.
    sys.stderr.write(f"Copy it and change it:\n{text}\n")
    while line := (await _line(question) or "").strip():
        if len(line.encode(errors="surrogatepass")) >= MAX_TYPED_BYTES:
            sys.stderr.write(f"  The terminal has cut this line at {MAX_TYPED_BYTES:,} bytes, so it is not run.\n")
            continue
        if only_command:
            return {"command": line}
        try:
            value = json.loads(line)
        except ValueError as problem:
            sys.stderr.write(f"  That is not JSON: {problem}\n")
            continue
        if isinstance(value, dict):
            return value
    return None


async def _line(question: str) -> str | None:
    sys.stderr.write(question)
    sys.stderr.flush()
    return await typed_line()


async def typed_line() -> str | None:
    """Return the line that a person types; None at the end of input. Ctrl-C is noticed meanwhile."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[str] = loop.create_future()
    file = sys.stdin.fileno()

    def read() -> None:
        if not typed.done():
            typed.set_result(sys.stdin.readline())

    loop.add_reader(file, read)
    try:
        return await typed or None
    finally:
        loop.remove_reader(file)
