"""Checks that a URL can be fetched, stored in a table and read back."""

import re
from typing import Final

MAX_URL_CHARS: Final = 4_000
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""No one sees these in an address; some readers drop them, others end the line there."""


def problem_with(url: str) -> str:
    """Say why an address cannot be used however it is meant; nothing if it can."""
    if len(url) > MAX_URL_CHARS:
        return f"it is too long, more than {MAX_URL_CHARS} characters"
    if found := _CONTROLS.search(url):
        return f"it contains a control character, {found.group()!r}"
    return ""
