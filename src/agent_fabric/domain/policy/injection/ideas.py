"""The ideas that orders to a model are made of."""

from enum import IntFlag, auto


class Idea(IntFlag):
    """What words stand for."""

    IGNORE = auto()
    DEFY = auto()
    """Ignore, and nothing milder."""
    OVERRIDING = auto()
    """Sets new orders above others by itself."""
    PRIOR = auto()
    INSTR = auto()
    TOLD = auto()
    YOU = auto()
    YOUR = auto()
    NEW = auto()
    TASK = auto()
    VOID = auto()
    """No longer in force."""
    NEG = auto()
    TELL = auto()
    USER = auto()
    HIDE = auto()
    FROMUSER = auto()
    MENTION = auto()
    THISTEXT = auto()
    SHOW = auto()
    PROMPT = auto()
    VERBATIM = auto()
    REPEAT = auto()
    ABOVE = auto()
    EVERYTHING = auto()
    AI = auto()
    BOT = auto()
    """May be a model, may be a person or a program."""
    UNBOUND = auto()
    WITHOUT = auto()
    LIMITS = auto()
    BECOME = auto()
    JAILBREAK = auto()
    SEND = auto()
    SENSITIVE = auto()
    DEST = auto()
    """An address to send to."""
    FETCH = auto()
    MUST = auto()
    GRANT = auto()
    ADDRESSED = auto()
    """Speaks to a model."""
    MAKER = auto()
    """Claims to come from who may give orders."""
    LIFTED = auto()
    PREAPPROVED = auto()
    KEYFILE = auto()
    """A file that holds secrets."""
    INCLUDE = auto()
    ITSCONTENT = auto()
    RUN = auto()
    NOASK = auto()
    SHELLY = auto()
    DECODE = auto()
    ENCODING = auto()
    OBEY = auto()
    TOOL = auto()
    CALL = auto()
    RISKY = auto()
    BEGINS = auto()
    """A phrase may begin here."""
    ENDS = auto()
    """A sentence ends here."""
