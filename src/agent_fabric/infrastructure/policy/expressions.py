"""Regular expressions that cannot be made to hang: RE2, whose time grows only with the text.

The package costs a few milliseconds to import, and few policies need it: it is imported with the first expression.
"""

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.domain.policy.rules import CommandPattern

MAX_EXPRESSION_CHARS = 2_000
_MAX_MEMORY_BYTES = 1 << 20


def expression(text: str) -> CommandPattern:
    """Make a pattern of a regular expression.

    Raises:
        ConfigProblem: it is too long, or RE2 does not know it.
    """
    import re2  # type: ignore[import-untyped]  # it has no types  # noqa: PLC0415 - see above

    if len(text) > MAX_EXPRESSION_CHARS:
        raise ConfigProblem(f"is an expression of more than {MAX_EXPRESSION_CHARS} characters")
    options = re2.Options()
    options.max_mem = _MAX_MEMORY_BYTES
    options.log_errors = False
    options.dot_nl = True
    try:
        compiled = re2.compile(text, options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = (
            error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else str(error)
        )
        raise ConfigProblem(
            f"is no regular expression that can be used: {reason}",
            hint="Look-around and back references are left out of RE2, so that no expression can hang.",
        ) from None
    return CommandPattern(
        text=text,
        expression=lambda command: compiled.search(_plain(command)) is not None,
        whole=lambda command: compiled.fullmatch(_plain(command)) is not None,
    )


def _plain(command: str) -> str:
    # Halves of characters cannot be encoded, and a judge never raises.
    return command.encode("utf-8", "replace").decode()
