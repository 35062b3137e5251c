"""What operators are told about the program. Not the run log: nothing is ever read back from here."""

from typing import Protocol


class OperationsLog(Protocol):
    """A log for those who run the program. Writing to it never blocks and never fails.

    `event` says in a few stable words what happened; everything that varies is a field. A field `exc_info` that holds
    an exception, or True for the one being handled, adds its traceback.
    """

    def debug(self, event: str, /, **fields: object) -> None:
        """Tell what only helps to find a fault."""
        ...

    def info(self, event: str, /, **fields: object) -> None:
        """Tell what happens in the ordinary course."""
        ...

    def warning(self, event: str, /, **fields: object) -> None:
        """Tell what an operator may want to look at."""
        ...

    def error(self, event: str, /, **fields: object) -> None:
        """Tell what an operator has to look at."""
        ...
