"""Options with which a program only reads. Any other option means that it may do more."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from agent_fabric.domain.policy.command_lines.invocation import Invocation
from agent_fabric.domain.policy.command_lines.names import names


class Word(NamedTuple):
    """One operand of a command."""

    at: int
    text: str


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """The options of a program that neither write a file nor start another program."""

    letters: str = ""
    """As getopt takes them: `:` behind a letter means that a value follows."""
    long: frozenset[str] = frozenset()
    """Long options, without their dashes and values. An abbreviation is none of them."""
    words: frozenset[str] = field(default_factory=frozenset[str], kw_only=True)
    """Whole words that begin with a dash, for programs with options such as `-name`; `:` as with letters."""
    max_operands: int | None = field(default=None, kw_only=True)
    """With more operands the program writes one of them."""
    bad_operands: str = field(default="", kw_only=True)
    """Characters by which an operand means more than a file or a name."""

    def __call__(self, invocation: Invocation) -> bool:
        """Tell whether a command has only these options."""
        operands = self.operands(invocation)
        return operands is not None and not any(set(self.bad_operands) & set(word.text) for word in operands)

    def operands(self, invocation: Invocation, *, start: int = 1) -> list[Word] | None:
        """Return the operands from a word on; None if there is another option, or a word is only known at run time."""
        found: list[Word] = []
        words, ended, value = invocation.words, False, False
        for at in range(start, len(words)):
            word = words[at]
            if at in invocation.unknown and not ended:
                return None  # it may turn out to be an option
            if word == "--" and not ended:
                ended = True
            elif ended or not word.startswith("-") or word == "-":
                if not value:
                    found.append(Word(at, word))
                value = False
            elif not self.allows(word):
                return None
            else:
                value = self._wants_value(word)
        too_many = self.max_operands is not None and len(found) > self.max_operands
        return None if too_many else found

    def allows(self, option: str) -> bool:
        """Tell whether a word with a dash is one of these options."""
        if option in self.words or f"{option}:" in self.words:
            return True
        if option.startswith("--"):
            return option[2:].partition("=")[0] in self.long
        return all(letter in self.letters and letter != ":" for letter, _ in self._bundle_letters(option))

    def _wants_value(self, option: str) -> bool:
        if option.startswith("--") or option in self.words or f"{option}:" in self.words:
            return f"{option}:" in self.words
        return any(wants for _, wants in self._bundle_letters(option))

    def _bundle_letters(self, option: str) -> Iterator[tuple[str, bool]]:
        """Yield the letters of a bundle, and whether the next word is the value of the last one."""
        for at, letter in enumerate(option[1:], start=1):
            valued = f"{letter}:" in self.letters and letter != ":"
            yield letter, valued and at == len(option) - 1
            if valued:
                return


def reading(letters: str = "", long: str = "", *, words: str = "", max_operands: int | None = None) -> ReadingOptions:
    """Return options written as texts."""
    return ReadingOptions(letters, names(long), words=names(words), max_operands=max_operands)
