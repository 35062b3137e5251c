"""Bodies of requests about sessions."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from agent_fabric.domain.chat.sessions import MAX_MESSAGE_CHARS
from agent_fabric.interfaces.http.bodies import RequestBody

_Name = Annotated[str, StringConstraints(max_length=1_000)]
_Title = Annotated[str, StringConstraints(max_length=1_000)]
_Content = Annotated[str, StringConstraints(min_length=1, max_length=MAX_MESSAGE_CHARS)]
_MessageId = Annotated[str, StringConstraints(max_length=200)]


class SessionRequest(RequestBody, json_schema_extra={"examples": [{}]}):
    """A new session. Nothing has to be said about it."""

    title: _Title = ""
    """Empty: the beginning of what is said first."""
    model_key: _Name = ""
    """The configured model that answers; empty: the default one."""
    pack: _Name = ""
    """The specialist; empty: one is chosen."""
    node: _Name = ""
    """The machine that it is about, by name or id; needs the scope `nodes`. Its turns have the pack `sysadmin` unless
    another one is named, and their calls to machines go there unless they name another one."""
    visibility: Literal["private", "team"] = "private"
    """Who sees it beside its owner."""


class SessionChange(RequestBody, json_schema_extra={"examples": [{"title": "Disk on web-3"}]}):
    """What to change of a session; what is left out stays."""

    title: Annotated[str, StringConstraints(min_length=1, max_length=1_000)] | None = None
    model_key: _Name | None = None
    pack: _Name | None = None
    node: _Name | None = None
    """The machine; empty: any."""
    visibility: Literal["private", "team"] | None = None
    archived: bool | None = None
    """Whether it is put away: not listed, but still there."""


class MessageRequest(RequestBody, json_schema_extra={"examples": [{"content": "Why is the disk full?"}]}):
    """Something to say."""

    content: _Content
    after: _MessageId | None = None
    """The newest message that the client has seen, empty if none; left out: whatever was said before."""


class MessageChange(RequestBody, json_schema_extra={"examples": [{"content": "Why is /var full?"}]}):
    """A message that waits for its turn, in other words."""

    content: _Content


class StopRequest(RequestBody, json_schema_extra={"examples": [{}]}):
    """How to stop."""

    withdraw: bool = False
    """Whether messages that wait are withdrawn, too."""


class ForkRequest(RequestBody, json_schema_extra={"examples": [{}]}):
    """Where to fork a session."""

    message_id: _MessageId = Field(default="")
    """The last message to share. One of the person's own is not shared but given back, to be said anew. Empty: all."""


class ReadRequest(RequestBody, json_schema_extra={"examples": [{}]}):
    """Nothing: all of it was seen."""


class TakeBackRequest(RequestBody, json_schema_extra={"examples": [{"dry_run": True}]}):
    """How to take files back."""

    dry_run: bool = False
    """Only show what would happen."""
    force: bool = False
    """Overwrite what was edited since; it is kept."""
