"""Lines that a person types, read without blocking what else happens."""

import asyncio
import io
import sys
from collections.abc import Awaitable, Callable

from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.interfaces.cli.approvals.ask_approval import typed_line

MAX_LINE_BYTES = 4_095
"""A terminal drops what is typed or pasted behind them before the line ends."""
AT_ONCE_S = 0.02
"""Lines that arrive within this time were pasted, and belong together."""


class TypedLines:
    """Reads what is typed, while something else is looked at now and then."""

    def __init__(self) -> None:
        if isinstance(sys.stdin, io.TextIOWrapper) and sys.stdin.errors != "replace":
            sys.stdin.reconfigure(errors="replace")  # a byte that is no text must not end the conversation

    async def read(self, prompt: str, meanwhile: Callable[[], Awaitable[bool]], every_s: float) -> str | None:
        """Return what was typed, pasted lines together; None at the end of input.

        `meanwhile` is called again and again; if it has printed something, the prompt is shown anew.

        Raises:
            InvalidInputs: the terminal has dropped a part of it.
        """
        self._show(prompt)
        first = asyncio.ensure_future(typed_line())
        try:
            while not first.done():
                await asyncio.wait([first], timeout=every_s)
                if not first.done() and await meanwhile():
                    self._show(prompt)
        finally:
            if not first.done():
                first.cancel()
        line = first.result()
        if line is None:
            return None
        lines = [line]
        while (more := await self._soon()) is not None:
            lines.append(more)
        if any(len(each.rstrip("\n").encode()) >= MAX_LINE_BYTES for each in lines):
            raise InvalidInputs(
                f"A line is longer than the {MAX_LINE_BYTES:,} bytes that a terminal takes; nothing was sent",
                hint="Break it into lines, or send it from a file: fabric chat --last < FILE",
            )
        return "".join(lines).rstrip("\n")

    def _show(self, prompt: str) -> None:
        sys.stderr.write(prompt)
        sys.stderr.flush()

    async def _soon(self) -> str | None:
        try:
            async with asyncio.timeout(AT_ONCE_S):
                return await typed_line()
        except TimeoutError:
            return None
