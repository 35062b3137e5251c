"""How often and after how long a failed model call is tried again."""

from collections.abc import Mapping
from zlib import crc32

LONGEST_RETRY_AFTER_S = 60.0
"""A server that asks for more patience than this is treated as out of service."""
_SHORTEST_SHARE = 0.5
"""Of a delay of ours, what is waited at least; never more than all of it, so that the longest wait stays known."""
_LONGER_SHARE = 0.2
"""Of a delay that a server asked for, what is waited at most in addition; never less than it asked for."""

_DELAYS_S: Mapping[str, tuple[float, ...]] = {
    # Together with the time to connect, an unreachable server is reported within 15 seconds.
    "model_unreachable": (0.5, 1.0, 2.0),
    "model_busy": (1.0, 2.0, 4.0, 8.0),
    "model_timed_out": (0.0,),
    "model_answer_unusable": (0.2, 0.5),
    # Tried again once the conversation has been made shorter.
    "context_exceeded": (),
}


def delay_before_retry(code: str, failures: int, retry_after_s: float | None, *, spread: str) -> float | None:
    """Return how long to wait after `failures` failed attempts, or None to give up.

    `spread` names the call. Calls that failed together come back at different moments, yet the same call always gets
    the same delay, so that a run which is decided again is decided alike.
    """
    delays = _DELAYS_S.get(code, ())
    if failures > len(delays):
        return None
    share = _between_0_and_1(f"{spread}/{failures}")
    if retry_after_s is None:
        return round(delays[failures - 1] * (1 - (1 - _SHORTEST_SHARE) * share), 3)
    if retry_after_s > LONGEST_RETRY_AFTER_S:
        return None
    return max(retry_after_s, round(retry_after_s * (1 + _LONGER_SHARE * share), 3), 0.0)


def _between_0_and_1(text: str) -> float:
    return crc32(text.encode("utf-8", "replace")) / 0xFFFF_FFFF
