"""Names of built-in rules that a run's log counts."""

from typing import Final

ADDRESS_READ: Final = "address_read"
"""A call went to an address that stood in what the run had read, while it was exposed and private."""
SEARCHED: Final = "search_while_private"
"""A search went unasked while it was."""
