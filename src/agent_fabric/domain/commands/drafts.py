"""Invocations while they are read."""

from dataclasses import dataclass, field

from agent_fabric.domain.commands.invocation import Connector, Invocation, Redirect


@dataclass(slots=True)
class Draft:
    """An invocation that may still change: a heredoc's body comes long after its redirect."""

    nested: bool
    words: list[str] = field(default_factory=list)
    unknown: set[int] = field(default_factory=set)
    assignments: list[tuple[str, str]] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)
    connector: Connector = Connector.END

    @property
    def empty(self) -> bool:
        return not (self.words or self.assignments or self.redirects)

    @property
    def only_a_name(self) -> bool:
        """It is one plain word: parentheses behind it make it the name of a function."""
        return len(self.words) == 1 and not (self.assignments or self.redirects or self.unknown)

    def finished(self) -> Invocation:
        return Invocation(
            words=tuple(self.words),
            unknown=frozenset(self.unknown),
            assignments=tuple(self.assignments),
            redirects=tuple(self.redirects),
            connector=self.connector,
            nested=self.nested,
        )


@dataclass(frozen=True, slots=True)
class Drafts:
    """All that was read of one text, with what stands in its substitutions and heredocs, in source order."""

    found: list[Draft] = field(default_factory=list)
    functions: dict[str, int] = field(default_factory=dict)
    """Every function that is surely defined, and how many drafts were there before it."""

    def finished(self) -> tuple[Invocation, ...]:
        if self.functions:
            self._drop_calls_of_functions()
        return tuple(draft.finished() for draft in self.found)

    def _drop_calls_of_functions(self) -> None:
        forgotten = {word for draft in self.found if "unset" in draft.words for word in draft.words}
        # A function counts from its definition on: before it, the same name is still a program.
        known_from = {name: place for name, place in self.functions.items() if name not in forgotten}
        for place, draft in enumerate(self.found):
            if draft.words and 0 not in draft.unknown and known_from.get(draft.words[0], place + 1) <= place:
                draft.words.clear()
                draft.unknown.clear()
