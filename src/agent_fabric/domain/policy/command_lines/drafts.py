"""Invocations while they are read."""

from dataclasses import dataclass, field

from agent_fabric.domain.policy.command_lines.invocation import Connector, Invocation, Redirect


@dataclass(slots=True)
class Draft:
    """An invocation that may still change: a heredoc's body comes long after its redirect."""

    nested: bool
    words: list[str] = field(default_factory=list)
    unknown: set[int] = field(default_factory=set)
    splits: set[int] = field(default_factory=set)
    assignments: list[tuple[str, str]] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)
    connector: Connector = Connector.END
    defines: str = ""

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
            splits=frozenset(self.splits),
            assignments=tuple(self.assignments),
            redirects=tuple(self.redirects),
            connector=self.connector,
            defines=self.defines,
            nested=self.nested,
        )


_FORGETFUL = frozenset({"unset", "eval", "source", ".", "trap", "alias", "enable", "exec"})
"""Builtins that can take a function away, or run text that does."""


_NAMED = frozenset({"let", "mapfile", "read", "readarray", "unset"})
_DECLARED = frozenset({"declare", "local", "typeset", "export", "readonly"})


def _works_out(draft: Draft) -> bool:
    words = draft.words
    if words[0] in {"test", "[", "printf", "wait"}:
        return bool({"-v", "-p"} & set(words))
    if words[0] in _DECLARED:
        return bool(draft.unknown) or any(word.startswith("-") and {"i", "n"} & set(word) for word in words)
    return words[0] in _NAMED


@dataclass(frozen=True, slots=True)
class Drafts:
    """All that was read of one text, with what stands in its substitutions and heredocs, in source order."""

    found: list[Draft] = field(default_factory=list)
    functions: dict[str, int] = field(default_factory=dict)
    """Every function that is surely defined, and how many drafts were there before it."""

    def work_out_names(self) -> bool:
        """Tell whether a builtin is given a name or a number to work out that is only known at run time."""
        return any(draft.words and _works_out(draft) for draft in self.found)

    def read_input(self) -> bool:
        """Tell whether a builtin puts what it reads into variables."""
        return any(draft.words[0] in {"read", "mapfile", "readarray"} for draft in self.found if draft.words)

    def finished(self) -> tuple[Invocation, ...]:
        if self.functions:
            self._drop_calls_of_functions()
        return tuple(draft.finished() for draft in self.found)

    def _drop_calls_of_functions(self) -> None:
        if any(0 in draft.unknown or not _FORGETFUL.isdisjoint(draft.words) for draft in self.found):
            # A function may be gone by the time it is called.
            return
        # A function counts from its definition on: before it, the same name is still a program.
        known_from = self.functions
        for place, draft in enumerate(self.found):
            if draft.words and 0 not in draft.unknown and known_from.get(draft.words[0], place + 1) <= place:
                draft.words.clear()
                draft.unknown.clear()
                draft.splits.clear()
