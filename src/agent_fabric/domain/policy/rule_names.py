"""Names of built-in rules that are used elsewhere: a run's log counts most of them."""

from typing import Final

ADDRESS_READ: Final = "address_read"
"""A call went to an address that stood in what the run had read, while it was exposed and private."""
ADDRESS_IN_TASK: Final = "address_in_task"
"""A call went to an address that stands in the task, while it was."""
ARGUMENTS_IN_TASK: Final = "arguments_in_task"
"""A call with arguments that stand in the task went to a tool server, while it was."""
ARGUMENTS_SENT_BEFORE: Final = "arguments_sent_before"
"""A call went to a machine with arguments that were sent before the run had read anything private."""
SEARCHED: Final = "search_while_private"
"""A search went unasked while it was."""
OUTSIDE_ROOTS: Final = "outside_roots"
"""A command names what lies outside of the folders that a node's own file names."""
