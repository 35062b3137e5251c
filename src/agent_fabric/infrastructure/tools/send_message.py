"""The tool behind `send-message` steps: tells a user something on the channels that they are paired on."""

from collections.abc import Mapping
from typing import Any, Final

from agent_fabric.application.channels.notify_user import NotifyUser
from agent_fabric.domain.channels.notices import Notice, NoticeKind
from agent_fabric.domain.errors import FabricError
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult, ToolSpec, Trust, object_schema

MAX_TEXT: Final = 100_000
SEND_MESSAGE: Final = ToolSpec(
    name="send_message",
    description="Send a message to a user, on the channels that they are paired on.",
    parameters=object_schema(
        {
            "to": {"type": "string", "minLength": 1, "description": "The user."},
            "text": {"type": "string", "minLength": 1, "maxLength": MAX_TEXT, "description": "Markdown."},
            "channel": {"type": "string", "description": "Only there, such as telegram."},
            "urgent": {"type": "boolean", "description": "Whether it is sent in their quiet hours, too."},
        },
        ("to", "text"),
    ),
    effect=Effect.IDEMPOTENT,  # the outbox knows the call that it comes from
    sends_to="a person on a channel",
    receiver_argument="to",
    trust=Trust.OWNER,
)


class SendMessage:
    """Puts the message into the outbox. A server delivers it; the text says which run it comes from."""

    def __init__(self, notify: NotifyUser) -> None:
        self._notify = notify

    async def __call__(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Send it; once, however often the call is made."""
        name = context.agent.removeprefix("workflow:")
        notice = Notice(
            source=f"step:{context.run_id}:{context.call_id}",
            kind=NoticeKind.MESSAGE,
            text=f"{args['text']}\n\n— workflow {name}, run {context.run_id[:8]}",
            is_urgent=bool(args.get("urgent", False)),
            channel=str(args.get("channel", "")),
        )
        try:
            parts = await self._notify(str(args["to"]), notice)
        except FabricError as problem:
            return ToolResult(success=False, error=f"{problem.message}. {problem.hint}".strip())
        channels = sorted({part.place.channel for part in parts})
        return ToolResult(output={"to": args["to"], "channels": channels, "messages": len(parts)})
