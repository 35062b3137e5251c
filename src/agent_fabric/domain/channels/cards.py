"""Approvals as messages with buttons.

A button carries the id of the approval and a nonce of its message, and no authority: who pressed it, where, and what
they may do is looked up when it is pressed. A call that the card cannot show whole has no button to agree with.
"""

import json
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from agent_fabric.domain.approvals.answers import Decision, Question, short_hash
from agent_fabric.domain.approvals.call_text import call_text, size_words
from agent_fabric.domain.audit.acts import moment_words
from agent_fabric.domain.channels.addresses import Place
from agent_fabric.domain.channels.deliveries import CARDS, Button, Part
from agent_fabric.domain.channels.graphemes import utf16_units
from agent_fabric.domain.dataclass import dataclass

NONCE_BYTES: Final = 9
"""72 bits, 12 characters of base64."""
CARD_LIMITS: Final[Mapping[str, int]] = {"telegram": 4_096, "discord": 2_000, "slack": 3_000, "whatsapp": 1_024}
DEFAULT_CARD_LIMIT: Final = 1_000
MAX_CHANGED_CHARS: Final = 300
"""Of a call that ran instead of the one on the card; of a longer one, its length is told."""
_PRESSED: Final = {"a": Decision.APPROVE, "d": Decision.DENY, "n": Decision.DONE}
_LETTERS: Final = {decision: letter for letter, decision in _PRESSED.items()}


def card_source(approval_id: str) -> str:
    """Return the source of the cards of an approval, and of what becomes of them."""
    return f"{CARDS}{approval_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallShown:
    """What a card shows of an approval."""

    approval_id: str
    args_hash: str
    tool: str
    args: Mapping[str, Any]
    target: str
    agent: str
    sandbox: str
    reason: str
    question: Question
    expires_at: float
    rule: str = ""
    """The rule of the policy, or of the machine's own floor, that wants a person to agree."""
    machines: Sequence[str] = ()
    """The machines of the fleet that it is for; none: it stays here."""
    untrusted: Sequence[str] = ()
    private: Sequence[str] = ()
    destination: str = ""
    outside: str = ""
    """What would run outside of the box; empty: nothing."""
    binding: str = ""
    """Hash of the exact call."""


@dataclass(frozen=True, slots=True)
class Card:
    """A card as it is sent."""

    text: str
    """Without markup: what stands in a call must not look like part of the card."""
    buttons: tuple[Button, ...]
    is_whole: bool
    """Whether the call stands there from beginning to end."""


Measure = Callable[[str], int]
"""Returns the size of a text, as it is sent so that nothing in it becomes markup."""


def make_card(
    shown: CallShown,
    nonce: str,
    *,
    limit: int,
    size: Measure = utf16_units,
    only_notifies: bool = False,
    look: str = "",
) -> Card:
    """Return the card of an approval.

    Args:
        shown: What a person agrees to.
        nonce: Ties its buttons to this message.
        limit: How much the platform takes.
        size: How it counts that.
        only_notifies: It can be answered only elsewhere, as where a signature is needed.
        look: Where the whole call can be read, such as the page's address.
    """
    where = look or f"fabric approvals show {shown.approval_id}"
    head = _head(shown)
    call = _call_text(shown)
    tail = f"Expires {moment_words(shown.expires_at)}. Silence means no."
    tail += f" Hash {short_hash(shown.binding)}." if shown.binding else ""
    whole = "\n\n".join((head, call, tail))
    can_be_shown = size(whole) <= limit and not _hides(whole)
    if can_be_shown and shown.question is not Question.ANSWER and not only_notifies:
        return Card(whole, _buttons(shown, nonce), is_whole=True)
    if can_be_shown:
        why = "It is answered with a signature, at" if only_notifies else "It asks for an answer. Give it at"
        note = f"{why}: {where}"
        if size(f"{whole}\n\n{note}") <= limit:
            return Card(f"{whole}\n\n{note}", (), is_whole=True)
    note = f"The call ({size_words(call)}) does not fit here whole, so it cannot be approved here. Look at: {where}"
    text = _fit(head, f"{note}\n\n{tail}", limit, size)
    deny = () if only_notifies else (Button("Deny", _data(Decision.DENY, shown.approval_id, nonce)),)
    return Card(text, deny, is_whole=False)


def decided_text(
    text: str,
    *,
    decision: str,
    by: str,
    at: float,
    limit: int,
    size: Measure = utf16_units,
    changed: Mapping[str, Any] | None = None,
) -> str:
    """Return a card after it was decided: who, when, and with which arguments if not those that it shows.

    Its buttons are gone.
    """
    note = f"{decision} by {by}, {moment_words(at)}" if by else f"{decision}, {moment_words(at)}"
    if changed is not None:
        call = call_text(changed)
        fits = len(call) <= MAX_CHANGED_CHARS and not _hides(call)
        note += f", not as asked but with:\n{_indent(call)}" if fits else f", other arguments: {size_words(call)}"
    return _fit(text, note, limit, size)


@dataclass(frozen=True, slots=True)
class PressedButton:
    """What the data of a pressed button claims."""

    decision: Decision
    approval_id: str
    nonce: str


def read_press(data: str) -> PressedButton | None:
    """Return what a button claims; None: it is none of ours."""
    parts = data.split(".")
    if len(parts) != 4 or parts[0] != "v1" or parts[1] not in _PRESSED or not parts[2] or not parts[3]:
        return None
    return PressedButton(_PRESSED[parts[1]], parts[2], parts[3])


class PressVerdict(StrEnum):
    """What a press is worth."""

    GOOD = "good"
    NOT_YOURS = "not_yours"
    """The sender is no one, or lacks the right. The card stays."""
    FORGED = "forged"
    """It does not belong to this card. The card stays."""
    STALE = "stale"
    """The call is another one by now, or the question is settled."""


def judge_press(
    press: PressedButton, card: Part | None, *, place: Place, may_answer: bool, args_hash: str, is_pending: bool
) -> PressVerdict:
    """Decide about a press: sender, right, chat and message, nonce, hash, in this order.

    Args:
        press: What the button claims.
        card: The message that it stands below, as it was sent to this chat; None: no card of ours.
        place: Where it was pressed.
        may_answer: Whether the sender is a user with the right to answer.
        args_hash: Of the call as it is asked for now.
        is_pending: Whether no one has answered yet.
    """
    if not may_answer:
        return PressVerdict.NOT_YOURS
    if card is None or (card.place.channel, card.place.account, card.place.chat) != (
        place.channel,
        place.account,
        place.chat,
    ):
        return PressVerdict.FORGED
    facts = card.facts
    if facts.get("approval_id") != press.approval_id or facts.get("nonce") != press.nonce:
        return PressVerdict.FORGED
    if not any(button.data == button_data(press) for button in card.buttons):
        return PressVerdict.FORGED
    return PressVerdict.GOOD if is_pending and facts.get("args_hash") == args_hash else PressVerdict.STALE


def button_data(press: PressedButton) -> str:
    """Return the data of the button that makes this claim; 40 bytes of the 64 that Telegram allows."""
    return _data(press.decision, press.approval_id, press.nonce)


def _data(decision: Decision, approval_id: str, nonce: str) -> str:
    return f"v1.{_LETTERS[decision]}.{approval_id}.{nonce}"


def _buttons(shown: CallShown, nonce: str) -> tuple[Button, ...]:
    wanted = [("Approve", Decision.APPROVE), ("Deny", Decision.DENY)]
    if shown.question is Question.DID_IT_HAPPEN:
        wanted = [("Run it again", Decision.APPROVE), ("It has happened", Decision.DONE), ("Skip it", Decision.DENY)]
    return tuple(Button(label, _data(decision, shown.approval_id, nonce)) for label, decision in wanted)


def _head(shown: CallShown) -> str:
    asks = "May this run?" if shown.question is not Question.DID_IT_HAPPEN else "This may have happened. Run it again?"
    where = ", ".join(shown.machines) or shown.target
    lines = [f"{asks}  {shown.tool} on {where}"]
    lines += [f"Why it asks: {shown.reason}"] if shown.reason else []
    lines += [f"Rule: {shown.rule}"] if shown.rule else []
    box = "to run outside of the box" if shown.outside else f"sandbox {shown.sandbox or 'none'}"
    lines += [f"Asked by {shown.agent}, {box}"]
    lines += [f"Goes to: {shown.destination}"] if shown.destination else []
    lines += [f"Has read untrusted text from: {', '.join(shown.untrusted)}"] if shown.untrusted else []
    lines += [f"Has read private things: {', '.join(shown.private)}"] if shown.private else []
    # Whatever was read may stand in these; it must not make lines of its own, or it could look like ours.
    lines = [" ".join(line.split()) for line in lines]
    lines += [f"Runs outside of the box:\n{_indent(shown.outside)}"] if shown.outside else []
    return "\n".join(lines)


def _call_text(shown: CallShown) -> str:
    """Return every argument, each in lines of its own; a text as it is, all else as JSON."""
    lines = []
    for name, value in shown.args.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
        lines.append(f"{name}:\n{_indent(text)}")
    return "\n".join(lines) or "(no arguments)"


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))


_SEEN: Final = frozenset("\n\t\ufe0f")
"""Of the characters without a shape of their own, those that deceive no one."""
_UNSEEN_KINDS: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
"""Controls, marks of direction, joiners, tags, and what no font has."""
_BLANK: Final = frozenset("\u00ad\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and symbols that are shown as nothing."""
_SELECTORS: Final = (range(0xFE00, 0xFE0F), range(0xE0100, 0xE01F0))
"""They choose the shape of a character, and a row of them can carry a text."""


_PADDING: Final = re.compile(r"\s{40}|(?:[^\S\n]*\n){12}")
"""So much of nothing pushes what follows out of sight."""


def _hides(text: str) -> bool:
    """Tell whether characters stand in a text that no one sees, or that make it look like another one, or shorter."""
    return any(map(_is_unseen, set(text))) or _PADDING.search(text) is not None


def _is_unseen(character: str) -> bool:
    if " " <= character < "\x7f" or character in _SEEN:
        return False
    return (
        unicodedata.category(character) in _UNSEEN_KINDS
        or character in _BLANK
        or any(ord(character) in each for each in _SELECTORS)
    )


def _fit(text: str, note: str, limit: int, size: Measure) -> str:
    """Return a text with a note below it; the text is cut so that both fit."""
    if size(whole := f"{text}\n\n{note}") <= limit:
        return whole
    fit = bisect_right(range(1, len(text) + 1), limit, key=lambda end: size(f"{text[:end]}…\n\n{note}"))
    return f"{text[:fit]}…\n\n{note}"
