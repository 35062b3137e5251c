"""Which ideas, close together in one sentence, make a sign."""

from typing import NamedTuple

from agent_fabric.domain.policy.injection.ideas import Idea


class SignalRule(NamedTuple):
    """Ideas that make a sign when all others are met near the first."""

    sign: str
    anchor: int
    """The rarest of its ideas: where it stands, the others are looked for."""
    ideas: int
    """All of them."""
    within: int
    """How many words the others may be away."""


def _rule(sign: str, ideas: str, within: int) -> SignalRule:
    bits = [int(Idea[name]) for name in ideas.split()]
    return SignalRule(sign, bits[0], sum(bits), within)


RULES = (
    _rule("override", "IGNORE PRIOR INSTR", 7),
    _rule("override", "IGNORE YOUR INSTR", 6),
    _rule("override", "IGNORE TOLD YOU", 7),
    _rule("override", "DEFY PROMPT", 4),
    _rule("override", "OVERRIDING", 0),
    _rule("override", "TASK YOUR NEW", 3),
    _rule("override", "VOID PRIOR INSTR", 8),
    _rule("override", "VOID YOUR INSTR", 6),
    _rule("secrecy", "USER NEG TELL", 5),
    _rule("secrecy", "FROMUSER HIDE", 8),
    _rule("secrecy", "THISTEXT NEG MENTION", 6),
    _rule("prompt_leak", "PROMPT SHOW YOUR", 7),
    _rule("prompt_leak", "PROMPT SHOW VERBATIM", 7),
    _rule("prompt_leak", "ABOVE REPEAT EVERYTHING", 5),
    _rule("persona", "BECOME WITHOUT LIMITS", 12),
    _rule("persona", "LIMITS YOU WITHOUT AI", 9),
    _rule("persona", "LIMITS WITHOUT AI", 6),
    _rule("persona", "UNBOUND AI", 4),
    _rule("persona", "UNBOUND BOT", 4),
    _rule("persona", "JAILBREAK", 0),
    _rule("exfiltration", "DEST SEND SENSITIVE", 11),
    _rule("exfiltration", "DEST FETCH SENSITIVE", 8),
    _rule("exfiltration", "KEYFILE INCLUDE ITSCONTENT", 12),
    _rule("authority", "ADDRESSED MUST", 14),
    _rule("authority", "ADDRESSED GRANT", 14),
    _rule("authority", "ADDRESSED SEND", 10),
    _rule("authority", "ADDRESSED IGNORE", 10),
    _rule("authority", "PREAPPROVED AI", 8),
    _rule("authority", "AI MUST GRANT", 9),
    _rule("authority", "MAKER LIFTED", 12),
    _rule("authority", "MAKER AI MUST", 12),
    _rule("encoded", "ENCODING DECODE OBEY", 12),
    _rule("shell", "SHELLY AI RUN", 14),
    _rule("shell", "SHELLY BOT RUN MUST", 14),
    _rule("shell", "SHELLY RUN NOASK", 14),
    _rule("shell", "ADDRESSED SHELLY", 14),
    _rule("tool_call", "RISKY CALL TOOL", 12),
)

FARTHEST = max(rule.within for rule in RULES)

SPACED_OUT = ("ignore", "override", "previousinstr", "systemprompt", "disregard", "donottellthe")
"""What is looked for in letters that stand alone, l i k e t h i s."""
