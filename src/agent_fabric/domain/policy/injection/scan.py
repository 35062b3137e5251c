"""Signs that a text tries to give instructions to a model. They are recorded and shown; they are no protection.

An attacker finds other words. What protects is where a text came from (`Trust`), the policy, and the box.
"""

from agent_fabric.domain.policy.injection.characters import hides_characters
from agent_fabric.domain.policy.injection.encoded import hides_orders
from agent_fabric.domain.policy.injection.folding import cap, fold
from agent_fabric.domain.policy.injection.markup import signs_in_markup
from agent_fabric.domain.policy.injection.phrases import findings_in

SIGNS = (
    "authority",
    "encoded",
    "exfiltration",
    "hidden_text",
    "override",
    "persona",
    "prompt_leak",
    "secrecy",
    "shell",
    "tool_call",
    "turn_marker",
)
"""All signs that a scan may name."""


def signals_in(text: str) -> tuple[str, ...]:
    """Name the signs in a text, sorted; empty if there are none.

    The work grows with the length of the text only, and ends at `folding.LIMIT` characters: of a longer text the head
    and the tail are read.
    """
    text = cap(text)
    plain = fold(text)
    words = findings_in(plain)
    signs = set(words.signs) | signs_in_markup(plain, words.ideas)
    if hides_characters(text):
        signs.add("hidden_text")
    if hides_orders(text, plain, words.ideas):
        signs.add("encoded")
    return tuple(sorted(signs))
