"""Commands of a person's own: a text with places for arguments, said as `/NAME ARGUMENTS`."""

import re
from typing import Final

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import InvalidInputs

COMMAND_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_PLACE: Final = re.compile(r"\$(ARGUMENTS|[1-9]|[a-z][a-z0-9_]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlashCommand:
    """A command as its file has it."""

    name: str
    text: str
    file: str
    digest: str = ""
    """What identifies the content of the file as it was read."""
    description: str = ""
    arguments: tuple[str, ...] = ()
    """Names of its arguments, in order; each is needed, and the last takes all words that are left."""
    model: str = ""
    pack: str = ""

    @property
    def usage(self) -> str:
        """How it is called."""
        return " ".join((f"/{self.name}", *(each.upper() for each in self.arguments)))

    def fill(self, said: str) -> str:
        """Return what it says with these arguments; `$ARGUMENTS` is all of them, `$1` the first, `$name` a named one.

        What has no place in the text stands behind it.

        Raises:
            InvalidInputs: an argument is missing.
        """
        words = said.split()
        if len(words) < len(self.arguments):
            missing = self.arguments[len(words)]
            raise InvalidInputs(f"/{self.name} needs {missing.upper()}", hint=f"Say: {self.usage}")
        values = {"ARGUMENTS": said.strip(), **{str(nth): word for nth, word in enumerate(words[:9], 1)}}
        if self.arguments:
            *first, last = self.arguments
            values |= dict(zip(first, words, strict=False))
            values[last] = said.split(maxsplit=len(first))[-1] if said.split() else ""
        has_places = False

        def value(found: re.Match[str]) -> str:
            nonlocal has_places
            is_place = found[1] in values or found[1].isdecimal()
            has_places = has_places or is_place
            return values.get(found[1], "") if is_place else found[0]

        filled = _PLACE.sub(value, self.text)
        return filled if has_places or not said.strip() else f"{filled}\n\n{said.strip()}"
