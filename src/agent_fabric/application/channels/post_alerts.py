"""Takes alerts to users where they want them, and to all other addresses as before."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_fabric.application.channels.notify_user import NotifyUser
from agent_fabric.application.ports.alerts import AlertPost
from agent_fabric.domain.channels.notices import Notice, NoticeKind
from agent_fabric.domain.errors import AccountNotFound, FabricError
from agent_fabric.domain.observability.alerts import USER, Severity


@dataclass(slots=True)
class AlertUsers:
    """AlertPost that knows users, before another one that knows addresses."""

    inner: AlertPost
    notify: NotifyUser | None = None
    """None until the store is open; nothing is posted before."""

    async def post(self, address: str, message: Mapping[str, Any]) -> None:
        if not address.startswith(USER):
            await self.inner.post(address, message)
            return
        assert self.notify is not None, "nothing is sent before the server runs"
        try:
            await self.notify(address.removeprefix(USER), _notice(message))
        except AccountNotFound as problem:
            raise ValueError(problem.message) from None
        except FabricError as problem:
            raise ConnectionError(problem.message) from None


def _notice(message: Mapping[str, Any]) -> Notice:
    name, status = message["alert"], message["status"]
    value = message.get("value")
    told = f"{message['when']}" + (f", it is {value:g}" if isinstance(value, int | float) else "")
    about = f"\n\n{message['about']}" if "about" in message else ""
    run = f"\n\nRun {message['run_id']}" if "run_id" in message else ""
    return Notice(
        source=f"alert:{name}:{status}:{message['at']:.3f}",
        kind=NoticeKind.ALERT,
        text=f"**{name}** is {status} ({message['severity']}): {told}{about}{run}",
        is_urgent=message["severity"] == Severity.CRITICAL,
        facts=dict(message),
    )
