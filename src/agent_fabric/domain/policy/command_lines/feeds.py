"""Whose output a command takes: by a pipe, or by a substitution in its words."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from agent_fabric.domain.policy.command_lines.invocation import Connector, Invocation

MAX_FEEDS = 64
"""Different ones that are kept for a command."""
_SUBSTITUTIONS = ("$(", "`", "<(")


def with_feeds(found: Sequence[Invocation], outer: Sequence[Invocation] = ()) -> Iterator[Invocation]:
    """Yield the commands of one list, each with those whose output it may take; `outer` feeds all of them."""
    if not outer and not any(map(_passes_on, found)):
        yield from found
        return
    feeding = {each.words[:2]: each for each in outer}
    group: list[Invocation] = []
    for at, invocation in enumerate(found):
        own = dict(feeding)
        if _takes_substitution(invocation):
            _add(own, _substitutions(found, at))
        yield replace(invocation, fed_by=tuple(own.values())) if own else invocation
        if invocation.connector is Connector.PIPE:
            # What stands in a group is said by the whole of it, which has no words; neither has the call of a function.
            inside = () if invocation.words else group or found[max(0, at - MAX_FEEDS) : at]
            _add(feeding, [invocation, *own.values(), *inside])
        elif not invocation.nested:
            feeding = {each.words[:2]: each for each in outer}
        group = [*group[-MAX_FEEDS:], invocation] if invocation.nested else []


def _add(feeding: dict[tuple[str, ...], Invocation], others: Iterable[Invocation]) -> None:
    for each in others:
        if each.words and len(feeding) < MAX_FEEDS:
            feeding.setdefault(each.words[:2], each)


def _substitutions(found: Sequence[Invocation], at: int) -> Iterator[Invocation]:
    """Yield what may stand in the substitutions of a command: it follows, and is nested."""
    for inner in found[at + 1 : at + 1 + MAX_FEEDS]:
        if not inner.nested:
            return
        yield inner


def _passes_on(invocation: Invocation) -> bool:
    return invocation.connector is Connector.PIPE or _takes_substitution(invocation)


def _takes_substitution(invocation: Invocation) -> bool:
    texts = (*invocation.words, *(each.target for each in invocation.redirects if each.unknown))
    return any(sign in text for text in texts for sign in _SUBSTITUTIONS)
