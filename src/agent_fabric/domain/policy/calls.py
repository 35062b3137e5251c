"""What a policy knows about a call before it decides."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final, Protocol

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.policy.globs import host_of, plain_path
from agent_fabric.domain.policy.labels import NOTHING_READ, Flow
from agent_fabric.domain.policy.verdicts import Ruling
from agent_fabric.domain.tools.allowlists import Allowlists
from agent_fabric.domain.tools.specs import Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedCall:
    """A tool call before it is judged."""

    tool: str
    args: Mapping[str, Any]
    effect: Effect
    command: str = ""
    """The shell command line in it, if it is one."""
    paths: tuple[str, ...] = ()
    """Files and folders that it names, as it names them."""
    urls: tuple[str, ...] = ()
    """Addresses that it names."""
    sends: str = ""
    """The method by which it sends something to these addresses, such as `POST`; empty: it reads at most."""
    agent: str = ""
    """The specialist or agent that makes the call."""
    node: str = ""
    """The machine it is for; empty: this one."""
    sandbox: str = "C"
    """Level of the box that it would run in."""
    by_itself: bool = False
    """A model makes it in a run that a schedule or a trigger has started: no person watches."""
    scopes: frozenset[str] = frozenset()
    """Scopes of the user behind the run; empty: not limited."""
    flow: Flow = NOTHING_READ
    """What the run has read so far, and sent unasked."""
    server: str = ""
    """The tool server or the machine that carries it out, as `Flow` names it as a source."""
    sends_to: str = ""
    """Where its arguments go outside this machine: a tool server, a machine of the fleet, the search engine. Empty:
    nowhere, or to `urls`."""
    receiver: str = ""
    """Who gets them there, if calls of the tool go to several."""
    from_task: bool = False
    """Every value of its arguments stands verbatim in the task."""
    sent_before: bool = False
    """The same was sent to another machine before the run had read anything private."""
    only_address: bool = True
    """Nothing but its address leaves the machine, apart from values that stand in the task."""
    reads_once: bool = False
    """An address is fetched once in a run; later calls read what was kept."""
    commands_reach: str = ""
    """The hosts that a command in its box may reach; empty: none."""
    workspace: str = ""
    """The folder that relative paths begin at."""
    folder: str = ""
    """On a machine of the fleet: the folder that a command begins in; empty: its user's home folder."""
    altered: frozenset[str] = frozenset()
    """Programs that files of the workspace can make do something else than their name says."""
    plans: bool = False
    """The run only makes a plan: nothing may be changed."""
    limits: tuple[Allowlists, ...] = ()
    """The agent's own allowlists, beside those of the policy."""

    @property
    def destination(self) -> str:
        """Where the call would go outside this machine, for people."""
        if self.receiver:
            return f"{self.receiver}, {self.sends_to}"
        return self.sends_to or ", ".join(dict.fromkeys(filter(None, map(host_of, self.urls)))) or self.commands_reach

    def from_workspace(self, path: str) -> str:
        """Return a path without what leads to the workspace, if it lies in it."""
        root = self.workspace.rstrip("/")
        if root and path.startswith("/"):
            plain = plain_path(path)
            if plain == root or plain.startswith(f"{root}/"):
                return plain[len(root) + 1 :] or "."
        return path


class Policy(Protocol):
    """Decides about calls. Pure: the same call always gets the same ruling."""

    @property
    def version(self) -> str:
        """Changes with the rules; recorded with every decision."""
        ...

    def judge(self, call: ProposedCall) -> Ruling:
        """Decide about one call; never raises."""
        ...


_CANONICAL: Final = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
"""Made once: making one takes longer than using it."""


def argument_hash(args: Mapping[str, Any]) -> str:
    """Return what identifies exactly these arguments, however their keys are ordered."""
    return hashlib.sha256(_CANONICAL.encode(args).encode(errors="surrogatepass")).hexdigest()
