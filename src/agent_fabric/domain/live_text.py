"""Text that is shown while it is written, without the secrets that it will turn out to hold."""

import re
from typing import Final

from agent_fabric.domain.secret_shapes import hide_shapes
from agent_fabric.domain.secrets import KnownSecrets

_GAPS: Final = " \n\t\r"
_ENDED: Final = re.compile("-----END [A-Z0-9 ]+-----")


class LiveText:
    """Holds back what may be the beginning of a secret until the rest of it has come.

    No secret has a gap in it but private keys, which say where they begin and end, and configured ones.
    """

    def __init__(self, known: KnownSecrets | None = None) -> None:
        self._known = known
        self._held = ""

    def add(self, text: str) -> str:
        """Take in a piece; return what can be shown by now."""
        self._held += text
        reach = 0
        if self._known:
            self._held = self._known.hide(self._held)
            reach = self._known.longest_with_gaps
        if not reach and not any(gap in text for gap in _GAPS):
            return ""
        end = max(self._held.rfind(gap, 0, len(self._held) - reach) for gap in _GAPS) + 1
        begins = self._held.rfind("-----BEGIN")
        if begins >= 0 and not _ENDED.search(self._held, begins):
            end = min(end, begins)
        return self._show(end)

    def end(self) -> str:
        """Return the rest."""
        return self._show(len(self._held))

    def _show(self, end: int) -> str:
        shown, self._held = self._held[:end], self._held[end:]
        return hide_shapes(shown)
