"""Everyday research and coding finishes, and asks no more than a table says."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.ports.approvals import Answer
from agent_fabric.application.runs.new_task import task_from
from agent_fabric.bootstrap.local import LocalFabric
from agent_fabric.bootstrap.records import owner_here
from agent_fabric.config.loader import read_config
from agent_fabric.domain.approvals.answers import Decision, Reach
from agent_fabric.domain.runs.task import Quoted, RunResult, RunStatus, Task
from agent_fabric.testing.scripted_model import Call, Finish, Script
from integration.policy.place import NOTES, Place, place
from services import need

Calls = Callable[[str], Sequence[Call]]
"""Makes the calls of a task, given the address of the web."""
_LONG = "<p>" + "Otters hold hands while they sleep. " * 900 + "</p>"
DONE = Finish(summary="done")


@dataclass(frozen=True, kw_only=True)
class Everyday:
    """A task, what a sensible model does about it, and how many questions that takes."""

    task: str
    calls: Calls
    pack: str = "research"
    here: bool = True
    earlier: Calls | None = None
    """What another run did in the same place before."""
    servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    handed_over: str = ""
    """What a person has sent on a channel beside their words."""
    before: int = 0
    """Questions that 0.5 asked."""
    now: int = 0
    """Each one beyond `before` has a line in docs/operate/security.md."""


def fetch(url: str, **more: Any) -> Call:
    return Call("fetch_url", {"url": url, **more})


def search(query: str) -> Call:
    return Call("web_search", {"query": query})


def write(path: str, content: str = "text") -> Call:
    return Call("write_file", {"path": path, "content": content})


def read(path: str = NOTES) -> Call:
    return Call("read_file", {"path": path})


def shell(command: str) -> Call:
    return Call("shell", {"command": command})


def ask(server: str, tool: str, **args: Any) -> Call:
    return Call(f"mcp__{server}__{tool}", args)


def fixed(*calls: Call) -> Calls:
    return lambda _: calls


def reported(at: str) -> Sequence[Call]:
    return search("otters"), fetch(f"{at}/a"), write("report.md", f"They hold hands ({at}/a).")


QUOTE = "Otters hold hands while they sleep."
TRACKER: Mapping[str, Mapping[str, Any]] = {"tracker": {"read_only": ["issue"]}}
DOCS: Mapping[str, Mapping[str, Any]] = {"docs": {"read_only": ["look"], "private": False}}

RESEARCH = {
    "search, open a result": lambda at: (search("otters"), fetch(f"{at}/a")),
    "search, open three results": lambda at: (search("otters"), *(fetch(f"{at}/{page}") for page in "abc")),
    "read on with an offset": lambda at: (search("otters"), fetch(f"{at}/long"), fetch(f"{at}/long", offset=12_000)),
    "follow a link of a page": lambda at: (search("otters"), fetch(f"{at}/a"), fetch(f"{at}/linked")),
    "a link with a query": lambda at: (search("otters"), fetch(f"{at}/a"), fetch(f"{at}/list?page=2&sort=new")),
    "several searches": lambda _: tuple(search(f"otters {word}") for word in ("sleep", "food", "sea", "river")),
    "search, read, search again": lambda at: (search("otters"), fetch(f"{at}/a"), search("otters that hold hands")),
    "note evidence and report": lambda at: (
        search("otters"),
        fetch(f"{at}/a"),
        Call("record_evidence", {"url": f"{at}/a", "quote": QUOTE, "claim": "They hold hands."}),
        write("report.md", f"They hold hands ({at}/a)."),
    ),
    "notes first, then the web": lambda at: (read(), search("otters"), fetch(f"{at}/a"), write("report.md")),
    "the web, then compare with notes": lambda at: (search("otters"), fetch(f"{at}/a"), read(), write("compared.md")),
    "the address in the task": lambda at: (fetch(f"{at}/a"),),
    "the address in the task after notes": lambda at: (read(), fetch(f"{at}/a"), fetch(f"{at}/a", offset=5)),
    "a page that is gone": lambda at: (search("otters"), fetch(f"{at}/gone"), fetch(f"{at}/a")),
    "a fragment of a page": lambda at: (search("otters"), fetch(f"{at}/a#sleep")),
    "list files, read, write": lambda _: (Call("list_files", {"path": "."}), read(), write("summary.md")),
    "the same page twice": lambda at: (search("otters"), fetch(f"{at}/a"), fetch(f"{at}/a")),
    "a page and eighteen links of it": lambda at: (
        search("otters"),
        fetch(f"{at}/a"),
        *(fetch(f"{at}/n{n}") for n in range(18)),
    ),
}
CODING = {
    "fix a bug": (read("main.py"), write("main.py", "print(2)\n"), shell("python3 main.py")),
    "edit and test": (
        Call("edit_file", {"path": "main.py", "old_text": "1", "new_text": "3"}),
        shell("python3 -m unittest"),
    ),
    "look around": (Call("list_files", {"path": "."}), Call("search_files", {"pattern": "print"}), shell("ls -l")),
    "run a script twice": (shell("python3 main.py"), shell("python3 main.py")),
    "make a folder": (shell("mkdir -p docs && echo text > docs/a.md"), read("docs/a.md")),
    "count words": (shell("wc -w notes.txt"), shell("grep -n launch notes.txt")),
    "look at the history": (shell("git init -q . && git status --short"), shell("git log --oneline || true")),
    "remove what was made": (shell("touch made.txt"), shell("rm made.txt")),
}

TASKS: dict[str, Everyday] = {
    **{f"here: {name}": Everyday(task="About otters, see WEB/a", calls=calls) for name, calls in RESEARCH.items()},
    **{name: Everyday(task="do it", pack="engineering", calls=fixed(*calls)) for name, calls in CODING.items()},
    "in a workspace of its own: an address that the model knows": Everyday(
        task="What is new?", here=False, calls=lambda at: (search("otters"), fetch(f"{at}/known?year=2026"))
    ),
    "in a workspace of its own: a report": Everyday(
        task="Report.", here=False, calls=lambda at: (search("otters"), write("report.md"), fetch(f"{at}/known"))
    ),
    "in a workspace of its own: a long search": Everyday(
        task="Find it.", here=False, calls=lambda at: (fetch(f"{at}/a"), search("otter " * 60))
    ),
    "here: an address that the model knows, before it reads any": Everyday(
        task="What is new?", calls=lambda at: (fetch(f"{at}/known?year=2026"),)
    ),
    "here: an address that the model knows, after a search": Everyday(
        task="What is new?", calls=lambda at: (search("otters"), fetch(f"{at}/known?year=2026")), now=1
    ),
    "here: two such addresses of one host": Everyday(
        task="What is new?",
        calls=lambda at: (search("otters"), fetch(f"{at}/known?year=2026"), fetch(f"{at}/known?year=2025")),
        now=1,
    ),
    "here: more pages than web.exposed_fetches": Everyday(
        task="Read all.",
        calls=lambda at: (search("otters"), fetch(f"{at}/a"), *(fetch(f"{at}/n{n}") for n in range(22))),
        now=1,
    ),
    "here: the issue named in the task": Everyday(
        task="Look at issue 42.", servers=TRACKER, calls=fixed(ask("tracker", "issue", number=42), write("plan.md"))
    ),
    "here: the issue named in the task, after notes": Everyday(
        task="Look at issue 42.", servers=TRACKER, calls=fixed(read(), ask("tracker", "issue", number=42))
    ),
    "here: another issue than the one in the task": Everyday(
        task="Look at issue 42.",
        servers=TRACKER,
        calls=fixed(ask("tracker", "issue", number=42), ask("tracker", "issue", number=43)),
        now=1,
    ),
    "here: a comment on the issue": Everyday(
        task="Answer issue 42.",
        servers=TRACKER,
        calls=fixed(ask("tracker", "issue", number=42), ask("tracker", "comment", number=42, text="It is mended.")),
        now=1,
    ),
    "in a workspace of its own: many issues of one server": Everyday(
        task="What is open?",
        here=False,
        servers=TRACKER,
        calls=fixed(*(ask("tracker", "issue", number=number) for number in range(40, 46))),
    ),
    "in a workspace of its own: two tool servers, one of them public": Everyday(
        task="What is open?",
        here=False,
        servers={**TRACKER, **DOCS},
        calls=fixed(ask("docs", "look", query="install"), ask("tracker", "issue", number=41)),
    ),
    "in a workspace of its own: a private answer, then the other server": Everyday(
        task="What is open?",
        here=False,
        servers={**TRACKER, **DOCS},
        calls=fixed(ask("tracker", "issue", number=41), ask("docs", "look", query="install")),
        now=1,
    ),
    "here: a follow-up run that works on the report": Everyday(
        task="Shorten report.md.", earlier=reported, calls=fixed(read("report.md"), write("report.md", "They do."))
    ),
    "here: a follow-up run that searches for more": Everyday(
        task="Add to report.md.",
        earlier=reported,
        calls=lambda at: (read("report.md"), search("otters"), fetch(f"{at}/b"), write("report.md", "They do.")),
    ),
    "here: a follow-up run that opens a link of the report": Everyday(
        task="Check report.md.", earlier=reported, calls=lambda at: (read("report.md"), fetch(f"{at}/a")), now=1
    ),
    "in a workspace of its own: what earlier runs found, then the web": Everyday(
        task="What do we know?",
        here=False,
        pack="enterprise_research",
        earlier=reported,
        calls=lambda at: (Call("cross_run_search", {"query": "otters"}), search("otters"), fetch(f"{at}/a")),
    ),
    "on a channel: a file, then the web": Everyday(
        task="Is this true?",
        here=False,
        handed_over="files sent on telegram",
        calls=lambda at: (search("otters"), fetch(f"{at}/a"), search("otters that hold hands")),
    ),
    "on a channel: a file, then an address that the model knows": Everyday(
        task="Is this true?",
        here=False,
        handed_over="files sent on telegram",
        calls=lambda at: (search("otters"), fetch(f"{at}/known?year=2026")),
        now=1,
    ),
    "on a channel: a forwarded message, then the web": Everyday(
        task="Is this true?",
        here=False,
        handed_over="a forwarded message on telegram",
        calls=lambda at: (search("otters"), fetch(f"{at}/a")),
    ),
    "here: documentation looked up in the words of the task": Everyday(
        task="How does one install it?", servers=DOCS, calls=fixed(ask("docs", "look", query="install"), read())
    ),
}


def prepare(at: Place, each: Everyday) -> None:
    at.pack = each.pack
    web = at.outside.url("")
    at.write("main.py", "print(1)\n")
    linked = ("/linked", "/list?page=2&sort=new", *(f"/n{number}" for number in range(22)))
    links = "".join(f"<p>See {web}{path}</p>" for path in linked)
    at.outside.pages.update(
        {
            **dict.fromkeys(("/a", "/b", "/c", "/linked", "/list", "/known"), f"<p>{QUOTE}</p>{links}"),
            **{f"/n{number}": f"<p>{QUOTE}</p>" for number in range(22)},
            "/long": _LONG,
        }
    )
    for page in ("a", "b", "c", "long", "gone"):
        at.outside.hits.append({"url": f"{web}/{page}", "title": f"Otters {page}", "content": "about otters"})
    for name, settings in each.servers.items():
        at.outside.servers[name] = {tool: {"says": "It is about otters."} for tool in ("issue", "comment", "look")}
        at.servers.append(at.outside.server(name, **settings))
    at.model = Script(turns=(*each.calls(web), DONE, DONE))


async def finish(fabric: LocalFabric, task: Task) -> tuple[RunResult, list[str]]:
    """Do a task and agree to all that is asked, each for the whole run if that can be; return the questions."""
    questions: list[str] = []
    result = await fabric.execute_task(task)
    while result.status is RunStatus.WAITING:
        for card in await fabric.records.approvals.list(run_id=result.run_id):
            questions.append(f"{card.tool}: {card.reason}")
            reach = Reach.RUN if card.alike else Reach.ONCE
            answer = Answer(decision=Decision.APPROVE, by="a test", via="a test", reach=reach)
            await fabric.decide_approval(card.approval_id, answer, by=owner_here())
        result = await fabric.resume_run(result.run_id)
    return result, questions


@pytest.mark.proves("WA-1")
@pytest.mark.parametrize("name", TASKS)
async def test_an_everyday_task_finishes_with_no_more_questions_than_the_table_says(tmp_path: Path, name: str) -> None:
    each = TASKS[name]
    async with place(tmp_path) as at:
        prepare(at, each)
        if each.earlier is not None:
            model, at.model = at.model, Script(turns=(*each.earlier(at.outside.url("")), DONE, DONE))
            await at.run("About otters.", here=each.here)
            at.model = model
        async with at.fabric() as (fabric, configured):
            boxed = fabric.execute_task.sandbox_level != "C"
            need(each.pack != "engineering" or boxed, "needs bubblewrap: without a box commands ask")
            config = read_config({}, overrides=configured).config
            prompt = each.task.replace("WEB", at.outside.url(""))
            task = task_from(config, prompt, pack=each.pack, project=at.project if each.here else None)
            if each.handed_over:
                handed = (each.handed_over,)
                task = replace(task, quotes=Quoted(own_words=prompt, untrusted=handed, private=handed))
            result, questions = await finish(fabric, task)
        assert result.status is RunStatus.COMPLETED, result.error
        assert len(questions) == each.now, questions


def test_each_new_question_is_justified() -> None:
    assert len(TASKS) >= 40
    page = Path(__file__).parents[3] / "docs" / "operate" / "security.md"
    justified = page.read_text().partition("### What asks now and did not before")[2].partition("\n## ")[0]
    for name, each in TASKS.items():
        if each.now > each.before:
            assert f"| {name} |" in justified, name
