"""Every way by which text comes into a run, with its two labels, and every way by which it leaves this process.

Tests hold each row. They fail for a tool, or an adapter that speaks to the network, that belongs to no row. Prints the
two tables as `docs/operate/security.md` has them: `python tests/ways_tables.py`.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final

from agent_fabric.domain.tools.skills import COPY_SKILL_TOOL
from agent_fabric.domain.tools.specs import MEMORY_TOOL, SEARCH_ENGINE, SKILL_TOOL, Effect, ToolSpec, Trust

OTHER_RUNS_TOOL: Final = "cross_run_search"
LIST_OF_MACHINES: Final = "node_list"
MESSAGE_TOOL: Final = "send_message"
PLAN_TOOL: Final = "fleet-plan"


class Marks(StrEnum):
    """Whether text that comes in marks a run with a label."""

    YES = "yes"
    NO = "no"
    AS_THERE = "as there"
    """With the labels of the run that it comes from."""
    SOMETIMES = "sometimes"
    """The note says when."""


@dataclass(frozen=True, slots=True)
class Entrance:
    """What text that comes in this way does to the labels of a run."""

    what: str
    exposed: Marks
    private: Marks
    note: str = ""


class WayIn(Enum):
    """Where text of a run comes from."""

    PROMPT = Entrance(
        "the task, a message in a session or on a channel, the instruction of a schedule", Marks.NO, Marks.NO
    )
    ANSWER = Entrance("a person's answer to a question, a signal to a workflow", Marks.NO, Marks.NO)
    RUN_AS_AUTHOR = Entrance("the task, if another run wrote it", Marks.YES, Marks.YES)
    FORWARDED = Entrance("a forwarded or quoted message on a channel", Marks.YES, Marks.YES)
    EDITOR = Entrance("what an editor puts into a prompt beside the person's words", Marks.YES, Marks.YES)
    CHANNEL_FILE = Entrance("a file that a person sends on a channel", Marks.YES, Marks.YES)
    WEBHOOK = Entrance(
        "a delivery to a webhook", Marks.YES, Marks.YES, "not private with `private: false` of the webhook"
    )
    SENSOR = Entrance("what a sensor has noticed", Marks.YES, Marks.YES)
    SKILL = Entrance(
        "a skill",
        Marks.NO,
        Marks.NO,
        "one that came with a project is offered only as a person has trusted it, by the hash of its content",
    )
    PROJECT = Entrance(
        "files of a project folder (`--here`), its notes for agents among them",
        Marks.SOMETIMES,
        Marks.YES,
        "exposed with `--untrusted`, and by files that an exposed run wrote",
    )
    WORKSPACE = Entrance("files of a workspace of the run's own", Marks.NO, Marks.NO)
    DOCUMENT = Entrance("a document in memory, uploaded or added", Marks.YES, Marks.YES)
    FACT = Entrance("a fact in memory", Marks.SOMETIMES, Marks.YES, "exposed if it rests on untrusted text")
    OTHER_RUN = Entrance("other runs (`cross_run_search`)", Marks.YES, Marks.YES)
    CHILD = Entrance("a child run, a step of a workflow", Marks.AS_THERE, Marks.AS_THERE)
    CONVERSATION = Entrance(
        "earlier turns, the run that is followed up or forked",
        Marks.AS_THERE,
        Marks.AS_THERE,
        "both, if the server does not remember which run gave an answer",
    )
    WEB = Entrance("a page, a search result, an answer over HTTP", Marks.YES, Marks.NO)
    TOOL_SERVER = Entrance(
        "the result of a tool server", Marks.YES, Marks.YES, "not private with `private: false` of the server"
    )
    DESCRIPTION = Entrance(
        "what a tool server says about its tools", Marks.YES, Marks.NO, "not exposed with `trusted: true` of the server"
    )
    MACHINE = Entrance(
        "what a machine of the fleet gives back",
        Marks.YES,
        Marks.YES,
        "private to that machine; not exposed with the label `trusted=text` or `trusted=true`",
    )
    LIST_OF_MACHINES = Entrance(
        "the list of machines",
        Marks.SOMETIMES,
        Marks.YES,
        "exposed by names of tools on machines; machines may know it",
    )
    COMMAND = Entrance(
        "the output of a command in a box",
        Marks.SOMETIMES,
        Marks.NO,
        "exposed once commands have reached allowed hosts",
    )
    UNBOXED_COMMAND = Entrance("the output of a command without a box (level C)", Marks.NO, Marks.YES)
    OUTSIDE_COMMAND = Entrance("what the other side of a push says", Marks.YES, Marks.YES)


class Judged(StrEnum):
    """Who decides whether something leaves."""

    BY_LABELS = "by the two labels"
    BY_PERSON = "a person, each time"
    BY_OWNER = "the owner, by configuring it"


@dataclass(frozen=True, slots=True)
class Exit:
    """What leaves, and who decides about it."""

    what: str
    judged: Judged
    note: str


class WayOut(Enum):
    """Where text of a run goes outside this process."""

    ADDRESS = Exit("an address: `fetch_url`, the browser, `http-request`", Judged.BY_LABELS, "host, path, query, body")
    HOST_NAME = Exit("a name that is looked up (DNS)", Judged.BY_LABELS, "it is the host of an address")
    SEARCH = Exit("the search engine", Judged.BY_LABELS, "short queries, a limited number")
    FORM = Exit("a click or typed text in the browser", Judged.BY_LABELS, "whatever is typed")
    TOOL_SERVER = Exit("a tool server", Judged.BY_LABELS, "arguments; not one in a box without network")
    MACHINE = Exit(
        "a machine of the fleet, a tool server on it", Judged.BY_LABELS, "arguments; what came from there may go back"
    )
    PLAN = Exit("a plan for many machines", Judged.BY_PERSON, "one approval shows all of it")
    MESSAGE = Exit("a message to a person on a channel (`send-message`)", Judged.BY_LABELS, "text and receiver")
    COMMAND = Exit("a command in a box that may reach hosts", Judged.BY_LABELS, "unless it only reads")
    UNBOXED_COMMAND = Exit("a command without a box (level C)", Judged.BY_PERSON, "unless it only reads")
    OUTSIDE_COMMAND = Exit("a push, a publication, a deployment", Judged.BY_PERSON, "the card shows what would leave")
    ACTION = Exit("a tool of your own that leaves the box", Judged.BY_LABELS, "all arguments")
    REPLY = Exit(
        "the answer: terminal, page, HTTP, the chat on a channel",
        Judged.BY_OWNER,
        "it goes where it was asked; a group reads along",
    )
    FILE = Exit(
        "a file in the workspace, also in a shared folder",
        Judged.BY_OWNER,
        "you chose the folder; it exposes later readers",
    )
    MODEL = Exit("a model or an embedder on another machine", Judged.BY_OWNER, "it sees the whole conversation")
    NOTICE = Exit("a webhook of yours, an alert, an event on the bus", Judged.BY_OWNER, "no model chooses the address")
    OBJECT_STORE = Exit("an object store for workspaces", Judged.BY_OWNER, "files of runs")
    STORE = Exit("PostgreSQL, NATS, Redis", Judged.BY_OWNER, "the store and the processes of one installation")
    TRACES = Exit("traces", Judged.BY_OWNER, "names, times and, if configured, texts")
    AUDIT_HEAD = Exit("the head of the audit chain", Judged.BY_OWNER, "a hash, nothing that a run has read")
    OWN_NEEDS = Exit("keys, secrets, model files, nodes' programs", Judged.BY_OWNER, "nothing of a run")


def way_in_of(spec: ToolSpec) -> WayIn:
    """Return how text comes in that a tool gives back."""
    match spec.trust:
        case Trust.WEB:
            return WayIn.WEB
        case Trust.MCP:
            return WayIn.TOOL_SERVER
        case Trust.NODE:
            return WayIn.MACHINE
        case Trust.OWNER | Trust.WORKSPACE:
            known = {
                MEMORY_TOOL: WayIn.DOCUMENT,
                OTHER_RUNS_TOOL: WayIn.OTHER_RUN,
                LIST_OF_MACHINES: WayIn.LIST_OF_MACHINES,
                SKILL_TOOL: WayIn.SKILL,
                COPY_SKILL_TOOL: WayIn.SKILL,
            }
            return known.get(spec.name, WayIn.COMMAND if spec.command_argument else WayIn.WORKSPACE)


def way_out_of(spec: ToolSpec) -> WayOut | None:
    """Return how a call of a tool leaves this process; None: it stays."""
    if spec.trust is Trust.NODE:
        return WayOut.PLAN if spec.name == PLAN_TOOL else WayOut.MACHINE
    if spec.server:
        return WayOut.TOOL_SERVER if spec.sends_to else None
    if spec.sends_to == SEARCH_ENGINE:
        return WayOut.SEARCH
    if spec.sends_to:
        return WayOut.MESSAGE if spec.name == MESSAGE_TOOL else WayOut.ACTION
    if spec.url_argument:
        return WayOut.ADDRESS
    if spec.command_argument:
        return WayOut.COMMAND
    if spec.effect is Effect.LEAVES_SANDBOX:
        return WayOut.FORM if spec.trust is Trust.WEB else WayOut.ACTION
    if spec.effect.changes and spec.path_arguments:
        return WayOut.FILE
    return None


def ways_in() -> list[str]:
    head = ["| what a run reads | exposed | private | |", "|---|---|---|---|"]
    rows = (way.value for way in WayIn)
    return [*head, *(f"| {each.what} | {each.exposed} | {each.private} | {each.note} |" for each in rows)]


def ways_out() -> list[str]:
    head = ["| where text goes | who decides | |", "|---|---|---|"]
    rows = (way.value for way in WayOut)
    return [*head, *(f"| {each.what} | {each.judged} | {each.note} |" for each in rows)]


if __name__ == "__main__":
    print("\n".join((*ways_in(), "", *ways_out())))
