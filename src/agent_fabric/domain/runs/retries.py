"""How often and after how long a failed model call is tried again."""

from collections.abc import Mapping

LONGEST_RETRY_AFTER_S = 60.0
"""A server that asks for more patience than this is treated as out of service."""

_DELAYS_S: Mapping[str, tuple[float, ...]] = {
    # Together with the time to connect, an unreachable server is reported within 15 seconds.
    "model_unreachable": (0.5, 1.0, 2.0),
    "model_busy": (1.0, 2.0, 4.0, 8.0),
    "model_timed_out": (0.0,),
    "model_answer_unusable": (0.0, 0.5),
    # Tried again once the conversation has been made shorter.
    "context_exceeded": (),
}


def delay_before_retry(code: str, failures: int, retry_after_s: float | None) -> float | None:
    """Return how long to wait after `failures` failed attempts, or None to give up."""
    delays = _DELAYS_S.get(code, ())
    if failures > len(delays):
        return None
    if retry_after_s is None:
        return delays[failures - 1]
    return None if retry_after_s > LONGEST_RETRY_AFTER_S else max(retry_after_s, 0.0)
