"""Spares reading commands the import of pydantic, which takes as long as all the rest of them.

Typer lets pydantic convert every value of the command line, also text and defaults, in which there is nothing to
convert. Those are passed on here. Everything else still goes typer's way, and its errors are typer's.
"""

from typing import Any

import typer

_UNCHANGED = (str, int, float, bool)


class _Unconverted:
    """Takes the place of typer's converter until there is something to convert."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if not (param.multiple or param.nargs == -1) and (value is None or _needs_nothing(value, param)):
            return value
        param._runtime_param = None  # noqa: SLF001 - where typer keeps it; so it makes its own
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def spare_conversions(command: Any) -> None:
    """Let a command and its subcommands convert only what needs it."""
    for param in (*command.params, command.get_help_option(typer.Context(command))):
        if getattr(param, "_runtime_param", param) is None:
            param._runtime_param = _Unconverted()  # noqa: SLF001 - typer has no other place for it
    for each in getattr(command, "commands", {}).values():
        spare_conversions(each)


def _needs_nothing(value: Any, param: Any) -> bool:
    wanted = param.type_descriptor
    if wanted.annotation not in _UNCHANGED or type(value) is not wanted.annotation:
        return False
    if wanted.is_path or wanted.parameter_info.parser is not None:
        return False
    # Pydantic refuses text that is no valid Unicode. A number is one only as a default; typed, it is still text.
    return value.isascii() if isinstance(value, str) else True
