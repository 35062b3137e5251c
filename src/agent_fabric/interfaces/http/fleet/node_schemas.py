"""What the routes about nodes take."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from agent_fabric.domain.fleet.node_tools import MAX_TRANSFER_BYTES
from agent_fabric.domain.fleet.protocol import CHUNK_BYTES, MAX_LIFETIME_S, MAX_TYPED_BYTES
from agent_fabric.interfaces.http.bodies import WHOLE, LenientBody

Name = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?)?$")]
LabelName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$")]
LabelValue = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,126}$")]
_NAMES = {"propertyNames": {"pattern": r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$"}}
Labels = Annotated[dict[LabelName, LabelValue], Field(max_length=64, json_schema_extra=_NAMES)]
LabelChanges = Annotated[dict[LabelName, LabelValue | None], Field(max_length=64, json_schema_extra=_NAMES)]
SELECTOR = (
    r"^[A-Za-z0-9._-]+(,[A-Za-z0-9._-]+)*$"
    r"|^[A-Za-z0-9._/-]+!?=[A-Za-z0-9._-]+(,[A-Za-z0-9._/-]+!?=[A-Za-z0-9._-]+)*$"
)
"""A name, several, or conditions on labels."""


class InviteRequest(LenientBody, example={"name": "web-1", "labels": {"role": "web"}, "uses": 1}):
    """Machines that may join."""

    name: Name = ""
    """The node's name; by default what the machine calls itself."""
    labels: Labels = Field(default={})
    uses: Annotated[int, Field(strict=True, ge=1, le=10_000), WHOLE] = 1
    """How many machines may use it."""
    expires_in_s: Annotated[float, Field(strict=True, gt=0, le=2_592_000, allow_inf_nan=False)] = 3600.0
    confirm: bool = False
    """A person confirms each machine."""


class JoinRequest(LenientBody, example={"token": "fnj_…", "public_key": "0" * 64, "name": "web-1", "os_info": {}}):
    """A machine that joins."""

    token: Annotated[str, StringConstraints(max_length=200)]
    public_key: Annotated[str, StringConstraints(pattern=r"^[0-9a-fA-F]{64}$")]
    """Ed25519, in hexadecimal."""
    name: Annotated[str, StringConstraints(max_length=255)] = ""
    os_info: dict[str, Any] = Field(default={})


class ExecuteRequest(LenientBody, example={"tool_name": "run_command", "arguments": {"command": "uptime"}}):
    """A command for a machine."""

    tool_name: Annotated[str, StringConstraints(max_length=100)]
    arguments: dict[str, Any] = Field(default={})
    queue: bool = False
    """Wait for a machine that is offline."""
    expires_in_s: Annotated[float, Field(strict=True, gt=0, le=MAX_LIFETIME_S, allow_inf_nan=False)] = 3600.0
    dry_run: bool = False
    """Only say what the policy says."""


class CallToCheck(
    LenientBody, example={"tool_name": "run_command", "arguments": {"command": "systemctl restart nginx"}}
):
    """A call to be checked."""

    tool_name: Annotated[str, StringConstraints(max_length=100)]
    arguments: dict[str, Any] = Field(default={})


class FanOutRequest(
    ExecuteRequest, example={"selector": "role=web", "tool_name": "run_command", "arguments": {"command": "uptime"}}
):
    """A command for many machines."""

    selector: Annotated[str, StringConstraints(max_length=500, pattern=SELECTOR)]
    """A name, several, `role=web,env!=dev`, or `all`."""


class NodeUpdate(LenientBody, example={"labels": {"role": "web"}}):
    """What becomes different; what is left out stays as it is."""

    name: Name | None = None
    labels: LabelChanges | None = None
    """Labels to set; null removes one."""


class PolicyDocument(LenientBody, example={"profile": "node", "blocked_commands": ["reboot"]}):
    """The hub's policy for a machine."""

    profile: Literal["node", "open"] = "node"
    hitl_enabled: bool | None = None
    """Every call asks, one that only reads too; false or absent: the profile decides."""
    blocked_commands: list[str] | None = None
    requires_approval_for: list[str] | None = None
    rules: list[dict[str, Any]] | None = None


class ResolveRequest(LenientBody, example={"keep": True}):
    """How a conflict is settled, or a pending machine confirmed."""

    keep: bool
    """False: the node is revoked, and each machine joins again."""


class ChunkRequest(LenientBody, example={"offset": 0, "data": "aGVsbG8="}):
    """A part of a file that a call of `file_put` has opened."""

    offset: Annotated[int, Field(strict=True, ge=0, le=MAX_TRANSFER_BYTES), WHOLE]
    data: Annotated[str, StringConstraints(max_length=4 * CHUNK_BYTES // 3 + 8)]
    """In base64, at most 256 KiB of content."""


class TypedRequest(LenientBody, example={"data": "bHMK"}):
    """What a person does at the terminal of a shell."""

    data: Annotated[str, StringConstraints(max_length=4 * MAX_TYPED_BYTES // 3 + 8)] = ""
    """What is typed, in base64."""
    columns: Annotated[int, Field(strict=True, ge=1, le=1_000), WHOLE] | None = None
    rows: Annotated[int, Field(strict=True, ge=1, le=1_000), WHOLE] | None = None
    """Both change the size of the terminal."""
    end: bool = False
    """End the shell and everything that it has started."""


class PrepareRequest(LenientBody, example={"approval_id": "4f1c2d3e"}):
    """A command that a run asks about."""

    approval_id: Annotated[str, StringConstraints(min_length=1, max_length=64)]


class SignatureRequest(LenientBody, example={"approver": "ada", "signature": "0" * 128}):
    """An approver's signature for a command."""

    approver: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    signature: Annotated[str, StringConstraints(min_length=1, max_length=4000)]
    """Of the approval message, in hexadecimal, or as `ssh-keygen -Y sign` writes it."""
