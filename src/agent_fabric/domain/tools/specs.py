"""What a tool is, seen from the engine: a name, a schema, and what its execution does to the world."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any, Final, NoReturn

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.tools.allowlists import Allowlists
from agent_fabric.domain.tools.findings import ProofKind, Source, TestCount
from agent_fabric.domain.tools.json_schema import MAX_DEPTH, too_deep

FINISH_TASK = "finish_task"
"""The tool that ends a task. The engine answers it; no pack executes it."""
SEARCH_ENGINE = "the search engine"
"""Where searches go; the owner has chosen it."""
MEMORY_TOOL: Final = "memory_search"
"""The tool that looks up documents and facts. What a run is told beforehand looks like a call of it."""
LOOKS_UP: Final = frozenset({"fetch_url", "web_search", MEMORY_TOOL, "cross_run_search"})
"""Tools that keep what they have read, and change nothing else."""
SKILL_TOOL: Final = "skill"
"""The tool by which a model reads a skill."""
PASSAGES: Final = "passages"
"""Where the passages stand in its results."""
TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


class Effect(StrEnum):
    """What happens when a tool runs; decides what may be done with a call that a crash left in doubt."""

    READS = "reads"
    """Looks, changes nothing: may always run again."""
    IDEMPOTENT = "idempotent"
    """Changes something, but twice is the same as once: may run again."""
    CHANGES_WORKSPACE = "changes_workspace"
    """Changes files or runs programs in the box: the model must check before it repeats."""
    LEAVES_SANDBOX = "leaves_sandbox"
    """Reaches the world outside the box: the model must check before it repeats."""

    @property
    def changes(self) -> bool:
        """Whether a call counts as a change of the workspace."""
        return self in (Effect.CHANGES_WORKSPACE, Effect.IDEMPOTENT)


class Trust(StrEnum):
    """Who wrote the text that a tool gives back; what a person did not write is never taken as an instruction."""

    OWNER = "owner"
    """The person behind the run."""
    WORKSPACE = "workspace"
    """Files of the workspace and programs that ran in it."""
    WEB = "web"
    MCP = "mcp"
    """A server that offers tools."""
    NODE = "node"
    """Another machine."""

    @property
    def vouched_for(self) -> bool:
        """Whether it is the owner's own, or comes from what the owner handed over."""
        return self in (Trust.OWNER, Trust.WORKSPACE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as the model and the log see it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of the arguments: an object."""
    effect: Effect
    timeout_s: float = 120.0
    """How long one call may take before it is ended."""
    command_argument: str = ""
    """The argument that is a shell command line, for the policy to judge; empty if there is none."""
    path_arguments: tuple[str, ...] = ()
    """The arguments that are paths, for the policy to judge."""
    url_argument: str = ""
    """The argument that is an address, for the policy to judge; empty if there is none."""
    method_argument: str = ""
    """The argument that is the method of an HTTP request, which tells the policy reading from sending; empty if there
    is none."""
    trust: Trust = Trust.WORKSPACE
    """Who wrote what it gives back, unless a result says otherwise."""
    local_arguments: tuple[str, ...] = ()
    """Arguments that never leave this machine, though others do."""
    sends_to: str = ""
    """Where its arguments go outside this machine; empty: nowhere, or to its address."""
    receiver_argument: str = ""
    """The argument that names who gets them there; empty: always the same."""
    server: str = ""
    """The tool server that carries it out: its name and address, as the configuration has them."""
    described_elsewhere: bool = False
    """Its description was written neither by the owner nor by us."""
    private: bool = False
    """Whether what its server answers must not reach the world."""
    reads_once: bool = False
    """It fetches an address once in a run; later calls read what was kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a tool gives back."""

    output: Mapping[str, Any] = field(default_factory=dict)
    success: bool = True
    """False: the call failed, and the model is told `error`, as if the tool had raised it."""
    error: str = ""
    changed: bool = False
    """The call changed files in the workspace, so that earlier proof no longer counts."""
    proved: str = ""
    """The test, build or run command that succeeded after the last change; empty if there was none."""
    proof_kind: ProofKind = ProofKind.NONE
    """What its success proves."""
    tests: TestCount | None = None
    """The tests that were executed, if a runner has said so."""
    sources: tuple[Source, ...] = ()
    """Pages that the call fetched."""
    wrote: tuple[str, ...] = ()
    """Files that the call wrote."""
    cites: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Addresses that a file in the workspace mentions from now on, by the file's path."""
    origin: str = ""
    """Where its text came from, for people: an address, a server. Empty: the tool's name says it."""
    unread: str = ""
    """Text that its output was taken from, such as the source of a page. It is scanned, and not kept."""
    exposes: str = ""
    """Where strangers' text in it came from, though the tool's own text is vouched for; empty: there is none."""
    private: str = ""
    """Where it read what the world must not have, apart from the workspace; empty: nowhere."""
    vouched_for: bool = False
    """An admin has said that its authors give no orders, though its tool brings the text of others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a tool may know about the call it serves."""

    run_id: RunId
    call_id: CallId
    timeout_s: float
    network_allowed: bool
    agent: str = ""
    """The specialist or agent that called it."""
    user_scopes: frozenset[str] = frozenset()
    """Scopes of the user behind the run; empty: not limited."""
    command_allowlist: tuple[str, ...] = ()
    """Programs that the policy allows without asking, or the only ones if an allowlist limits them. The policy has
    judged the call by it already; it is for what the tool decides itself."""
    path_allowlist: tuple[str, ...] = ()
    """The same for paths."""
    domain_allowlist: tuple[str, ...] = ()
    """The same for hosts."""
    limits: tuple[Allowlists, ...] = ()
    """Allowlists that hold for the call, all of them: check redirects and resolved paths against these."""
    working_dir: str = ""
    """The workspace."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables that a command needs beside its usual ones: secrets, which must not stand in its text."""


def object_schema(properties: Mapping[str, Any], required: Sequence[str] = ()) -> dict[str, Any]:
    """Return the JSON schema of an object with no other properties than these."""
    needed = {"required": list(required)} if required else {}
    return {"type": "object", "properties": dict(properties), **needed, "additionalProperties": False}


class BadArguments(ValueError):
    """The arguments of a tool call are not a JSON object; the message tells the model why."""


def arguments_from(text: str) -> dict[str, Any]:
    """Read a tool call's arguments, as strictly as JSON is defined.

    Raises:
        BadArguments: not JSON, a key twice, a number that JSON does not have, or not an object.
    """
    if not text.strip():
        return {}
    try:
        value = _STRICT.decode(text)
    except (ValueError, RecursionError) as problem:
        reason = "nested too deeply" if isinstance(problem, RecursionError) else str(problem)
        raise BadArguments(f"the arguments are not valid JSON: {reason}") from None
    if not isinstance(value, dict):
        raise BadArguments("the arguments must be a JSON object")
    if len(text) > MAX_DEPTH and too_deep(value, text):
        raise BadArguments("the arguments are nested too deeply")
    return value


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key appears twice")
    return value


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_such_number(text)


def _no_such_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number that can be used")


_STRICT: Final = json.JSONDecoder(
    object_pairs_hook=_object_without_duplicates, parse_constant=_no_such_number, parse_float=_finite
)
"""Made once: making one takes longer than using it."""
