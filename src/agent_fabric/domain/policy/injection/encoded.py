"""Orders in disguise: base64, hexadecimal, ROT13, letters backwards."""

import base64
import codecs
import re
from collections.abc import Iterator

from agent_fabric.domain.policy.injection.folding import fold
from agent_fabric.domain.policy.injection.ideas import Idea
from agent_fabric.domain.policy.injection.phrases import findings_in

_RUNS = r"[A-Za-z0-9+/_-]{24,}"
_MAX_RUNS = 64
_ADDRESSED = int(Idea.ADDRESSED)
_LONGEST_RUN = 4_096
_ROT13 = tuple(
    codecs.encode(word, "rot13") for word in ("ignore", "instructions", "password", "previous", "delete the")
)
_BACKWARDS = tuple(word[::-1] for word in ("ignore", "instructions", "password", "previous"))


def hides_orders(text: str, plain: str, ideas: int) -> bool:
    """Whether something in the text, once decoded, gives orders or is meant for a model that the text speaks to.

    `plain` is the text folded, `ideas` what was found in it.
    """
    return any(ideas & _ADDRESSED or findings_in(fold(hidden)).signs for hidden in _decodings(text, plain))


def _decodings(text: str, plain: str) -> Iterator[str]:
    for nth, match in enumerate(re.finditer(_RUNS, text)):
        if nth == _MAX_RUNS:
            break
        run = match[0][:_LONGEST_RUN]
        yield from _readable(run)
    if any(map(plain.__contains__, _ROT13)):
        yield codecs.encode(plain, "rot13")
    if any(map(plain.__contains__, _BACKWARDS)):
        yield plain[::-1]


def _readable(run: str) -> Iterator[str]:
    """What the run stands for, if that is text."""
    for decode in (bytes.fromhex, _from_base64):
        try:
            hidden = decode(run[: len(run) // 4 * 4]).decode()
        except ValueError:
            continue
        if " " in hidden and hidden.replace("\n", " ").isprintable():
            yield hidden


def _from_base64(run: str) -> bytes:
    return base64.b64decode(run.replace("-", "+").replace("_", "/"), validate=True)
