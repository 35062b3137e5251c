"""Text that is shown while it is written, without the secrets that it will turn out to hold."""

import re
from typing import Final

from agent_fabric.domain.secrets.references import KnownSecrets
from agent_fabric.domain.secrets.shapes import hide_shapes

_GAPS: Final = " \n\t\r"
_ENDED: Final = re.compile("-----END [A-Z0-9 ]+-----")
_OFTEN_LOOKED_AT: Final = 1_024
"""Characters; what is longer is looked at again only when it has grown by a quarter, so that no text takes for ever."""


class LiveText:
    """Holds back what may be the beginning of a secret until the rest of it has come.

    No secret has a gap in it but private keys, which say where they begin and end, and configured ones.
    """

    def __init__(self, known: KnownSecrets | None = None) -> None:
        self._known = known
        self._held: list[str] = []
        self._size = 0
        self._next_look = 0

    def add(self, text: str) -> str:
        """Take in a piece; return what can be shown by now."""
        self._held.append(text)
        self._size += len(text)
        reach = self._known.longest_with_gaps if self._known else 0
        if self._size < self._next_look or not (reach or any(gap in text for gap in _GAPS)):
            return ""
        held = self._without_known()
        end = max(held.rfind(gap, 0, max(len(held) - reach, 0)) for gap in _GAPS) + 1
        begins = held.rfind("-----BEGIN")
        if begins >= 0 and not _ENDED.search(held, begins):
            end = min(end, begins)
        self._hold(held[end:])
        return hide_shapes(held[:end])

    def end(self) -> str:
        """Return the rest."""
        held = self._without_known()
        self._hold("")
        return hide_shapes(held)

    def _without_known(self) -> str:
        held = "".join(self._held)
        return self._known.hide(held) if self._known else held

    def _hold(self, text: str) -> None:
        self._held, self._size = [text], len(text)
        self._next_look = 0 if self._size <= _OFTEN_LOOKED_AT else self._size + self._size // 4
