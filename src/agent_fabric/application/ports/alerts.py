"""Those who are told about alerts."""

from collections.abc import Mapping
from typing import Any, Protocol

SUBJECT = "agent33.alert"
"""Begins the subject of every alert on the bus; the alert's name follows."""


class AlertPost(Protocol):
    """Takes alerts to addresses outside."""

    async def post(self, address: str, message: Mapping[str, Any]) -> None:
        """Deliver a message once.

        Raises:
            ConnectionError: it did not arrive; trying again may help.
            PermissionError, ValueError: it never will.
        """
        ...
