"""Commands that others start, cut out of them."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from agent_fabric.domain.policy.command_lines.invocation import Invocation


def part(invocation: Invocation, start: int, end: int, *, nested: bool) -> Invocation:
    """Return some of the words as a command of its own."""
    unknown = frozenset(n - start for n in invocation.unknown if start <= n < end)
    splits = frozenset(n - start for n in invocation.splits if start <= n < end)
    return Invocation(words=invocation.words[start:end], unknown=unknown, splits=splits, nested=nested)


def only_at_run_time(what: str) -> tuple[Invocation, ...]:
    """Return a command of which nothing is known but that there is one."""
    return (Invocation(words=(what,), unknown=frozenset({0}), nested=True),)


def mark_unknown(commands: Iterable[Invocation], marks: set[str]) -> Iterator[Invocation]:
    """Yield the commands with every word unknown that something found at run time is put into."""
    for inner in commands:
        marked = {n for n, word in enumerate(inner.words) if any(mark in word for mark in marks)}
        yield replace(inner, unknown=inner.unknown | marked)
