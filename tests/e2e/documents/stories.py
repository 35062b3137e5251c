"""What the documents' commands need to be run: files, answers of the model, and why some are only parsed."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from agent_fabric.testing.scripted_answers import Answer, Call, Entry, Finish, Script
from e2e.documents.shell import Shell

DONE = Finish(summary="Done.", artifacts=[], next_steps=[], notes="")
HELLO = (
    Call("write_file", {"path": "hello.py", "content": "print('hi')\n"}),
    Call("shell", {"command": "python3 hello.py"}),
    Finish(summary="Wrote hello.py and ran it.", artifacts=["hello.py"]),
)
PASSWORD = "correct horse battery"
RUN_HELLO = 'fabric run --pack engineering "Write hello.py and run it." --json > /dev/null'
RUN_ASKING = 'fabric run --pack engineering "Deploy it" --json > /dev/null || test $? = 3'
PASS = (
    r"mkdir ~/bin; printf '#!/bin/sh\necho sk-of-the-store\n' > ~/bin/pass; chmod +x ~/bin/pass; PATH=$HOME/bin:$PATH"
)
"""A password store."""
RELEASE = """\
name: release
steps:
  - {id: build, action: run-command, command: "true"}
"""
LAUNCH = """\
name: launch
steps:
  - id: announce
    action: approve
    inputs: {message: "Announce it?", form: {channel: {type: string, enum: [mail, chat], default: chat}}}
"""


def by_task(**scripts: tuple[Entry, ...]) -> Callable[[dict[str, object], int], Answer]:
    """Return a model that acts by a word of its task; for all other tasks as `otherwise` says."""

    def answer(request: dict[str, object], attempt: int) -> Answer:
        task = next((str(each["content"]) for each in request["messages"] if each["role"] == "user"), "")  # type: ignore[attr-defined]
        chosen = next((script for word, script in scripts.items() if word in task), scripts.get("otherwise", (DONE,)))
        return Script(chosen)(request, attempt)

    return answer


MODEL = by_task(
    leave=(Call("write_file", {"path": "src/total.py", "content": "sum_of = sum\n"}), DONE),
    Rename=(Call("list_files", {}), Finish(summary="A new name.", plan=[{"step": "Rename it"}])),
    Write=HELLO,
    Push=(Call("shell", {"command": "make deploy"}), DONE),
    Deploy=(Call("shell", {"command": "make deploy"}), DONE),
    Add=(Call("add_item", {"text": "buy milk"}), Call("list_items"), Finish(summary="Added one item.", count=1)),
    Repair=(Call("write_file", {"path": "src/dates.py", "content": "LEAP = 400\n"}), DONE),
    dates=(
        Call("write_file", {"path": "src/dates.py", "content": "LEAP = 4\n"}),
        Call("shell", {"command": "python3 src/dates.py"}),
        DONE,
    ),
    Ada=(Finish(greeting="Hello, Ada."),),
)


class Story(NamedTuple):
    """How the commands of a document are run."""

    files: Mapping[str, str] = {}
    """Files that the folder has before."""
    serve: bool = False
    """Whether a server runs all the time; `fabric serve` in the document starts it where it stands."""
    configured: Mapping[str, object] | None = {}
    """More of the user's configuration than the model; None: there is none at all."""
    before: Mapping[str, tuple[str, ...]] = {}
    """What else is typed before a command, named by its beginning: what other people and earlier days have done."""
    exits: Mapping[str, int] = {}
    """Commands that end with another code than 0. Where the document shows an error, any other code will do."""
    typed: Mapping[str, tuple[str, ...]] = {}
    """What is typed at the terminal when a command asks."""
    ids: Mapping[str, str] = {}
    """Ids in the document, and what they stand for here: the newest run, or the newest question."""
    paths: Mapping[str, str] = {}
    """Files and folders in the document, and where they are here."""
    fresh: bool = False
    """Whether each `fabric` is a fresh interpreter; see `forked_command`."""


STORIES: dict[str, Story] = {
    "docs/get-started/first-run.md": Story(ids={"08db": "run"}, fresh=True),
    "docs/guides/a2a.md": Story(),
    "docs/guides/ag-ui.md": Story(ids={"08db": "run"}),
    "docs/guides/agents.md": Story(before={"curl": ("fabric serve &",)}),
    "docs/guides/approvals.md": Story(
        ids={"3f9a": "approval"},
        exits={"fabric run": 3, "fabric approvals approve 3f9a --hash": 1},  # it is not the hash of this call
        before={
            "fabric approvals approve 3f9a --hash": (RUN_ASKING,),
            "fabric approvals approve 3f9a --for-run": (RUN_ASKING,),
            "fabric approvals approve 3f9a --args": (RUN_ASKING,),
            "fabric approvals deny": (RUN_ASKING,),
            "curl": (RUN_ASKING, "fabric serve &"),
        },
    ),
    "docs/guides/automation.md": Story(
        exits={"fabric dead show": 2, "fabric dead replay": 2, "fabric dead drop": 2},
    ),
    "docs/guides/chat.md": Story(
        ids={"6b1f0c2d": "session"},
        typed={"fabric chat": ("/quit",), "fabric sessions delete": ("y",)},
        before={"fabric chat --server": ("fabric serve &",)},
    ),
    "docs/guides/command-line-and-server.md": Story(
        serve=True,
        ids={"d36e": "run"},
        before={"fabric login": (f"echo '{PASSWORD}' | fabric users add ada --role admin --password-stdin",)},
        typed={"fabric login": ("ada", PASSWORD)},
    ),
    "docs/guides/compare-runs.md": Story(
        ids={"8490": "run", "0477": "run"}, before={"fabric compare 8490 0477": (RUN_HELLO,)}
    ),
    "docs/guides/evaluate.md": Story(),
    "docs/guides/mcp.md": Story(),
    "docs/guides/models.md": Story(configured=None),
    "docs/guides/openai-clients.md": Story(),
    "docs/guides/people-and-keys.md": Story(
        exits={"fabric policy check": 1},
        serve=True,
        typed={
            "fabric users add": (PASSWORD, PASSWORD),
            "fabric users password": (PASSWORD + "!", PASSWORD + "!"),
            "fabric login": (PASSWORD,),
        },
        before={
            "curl -sf": ("unset FABRIC_URL; FABRIC_API_KEY=$(fabric keys create other --scope runs)",),
            'curl -H "X-API-Key: $KEY"': ("KEY=$(fabric keys create admin --scope admin --scope runs:read)",),
        },
    ),
    "docs/guides/policy.md": Story(
        configured={
            "policy": {"rules": [{"id": "no-keys", "verdict": "block", "tools": ["read_file"], "paths": ["secrets/"]}]}
        },
        exits={
            'fabric policy check "make test': 3,
            'fabric policy check "git push': 3,
            'fabric policy check "make && cat': 1,
        },
        before={"fabric policy simulate": (RUN_HELLO, RUN_HELLO)},
    ),
    "docs/guides/resume-and-cancel.md": Story(
        ids={"d36e": "run"}, before={"fabric logs list": (RUN_HELLO,), "fabric cancel": (RUN_ASKING,)}
    ),
    "docs/guides/memory.md": Story(files={"handbook.md": "# Handbook\n\nExpenses are refunded within a month.\n"}),
    "docs/guides/search-runs.md": Story(before={"fabric logs search": (RUN_HELLO,)}),
    "docs/guides/secrets.md": Story(
        typed={"fabric secrets set OPENAI_API_KEY": ("sk-something-long", "sk-something-long")},
        before={"pass show": (PASS,), "fabric secrets rotate": ("unset ENCRYPTION_KEY",)},
    ),
    "docs/guides/serve.md": Story(ids={"d36e": "run"}),
    "docs/guides/channels.md": Story(
        configured={"channels": {"telegram": {"token": "file:TELEGRAM_TOKEN", "api_base": "http://127.0.0.1:9"}}},
    ),
    "docs/guides/webhooks.md": Story(
        configured={
            "webhooks": {
                "code": {"scheme": "github", "secret": "file:GITHUB_HOOK", "workflow": "on-push", "events": ["push"]}
            }
        },
        before={"BODY=": ("fabric serve &",)},
    ),
    "docs/guides/workflows.md": Story(
        files={"../launch.yaml": LAUNCH},
        ids={"3f9a": "approval", "be71": "run", "RUN": "run"},
        before={
            "fabric approvals list": ("fabric workflow run ../launch.yaml --json > /dev/null || test $? = 3",),
            "fabric workflow lineage": ("fabric workflow run greet -i who=Ada",),
            "WHO=": ("fabric serve &",),
        },
    ),
    "docs/guides/write-a-pack.md": Story(),
    "docs/guides/your-project.md": Story(
        ids={"d36e": "run"},
        before={
            "cd my-project": ("mkdir -p my-project/src; echo LEAP=3 > my-project/src/dates.py",),
            'fabric run --here "…"': ("mv .fabric ../mine; mkdir .fabric; echo '{}' > .fabric/config.json",),
            "fabric run --here --untrusted": ("mv .fabric ../theirs; mv ../mine .fabric",),
            "fabric diff --last": ("fabric run --here 'Repair dates' --json > /dev/null",),
            "fabric undo d36e src/dates.py": ("fabric undo --last --redo",),
            "fabric undo d36e$": ("echo LEAP=5 > src/dates.py",),
        },
        exits={"fabric undo d36e$": 1},
    ),
    "docs/operate/backup.md": Story(
        before={
            "fabric db backup /backups/": (RUN_HELLO,),
            "fabric db restore fabric-": ("mv .fabric .fabric-before",),
        },
        paths={
            "/backups/": "../backups/",
            "fabric-20261115-183000-123.tar.gz": "before-upgrade.tar.gz",
            "FILE": "before-upgrade.tar.gz",
            "/tmp/try": "../try",
        },
    ),
    "docs/operate/encryption.md": Story(
        files={"workflow-definitions/release.yaml": RELEASE},
        ids={"RUN_ID": "run"},
        before={"fabric secrets rotate": ("unset ENCRYPTION_KEY",)},
    ),
    "docs/operate/limits.md": Story(serve=True),
    "docs/operate/llama-server.md": Story(serve=True),
}

NEEDS_MODEL = "needs a model that is not scripted"
ELSEWHERE = "is done on another machine, by an administrator"
NETWORK = "installs something from the network"

PARSED_ONLY: dict[tuple[str, str], str] = {
    ("docs/guides/chat.md", "fabric chat"): "is a conversation; tests/e2e/cli/test_chat.py leads one",
    ("docs/guides/chat.md", "echo"): "the same, from a pipe",
    ("docs/guides/chat.md", "fabric sessions"): "needs sessions; tests/e2e/cli/test_chat.py has them",
    ("docs/guides/chat.md", "curl"): "needs a server; tests/integration/http/test_sessions.py has one",
    ("docs/guides/evaluate.md", "fabric eval run tasks.yaml --models"): "needs two models; tests/e2e/cli has them",
    ("README.md", 'fabric run "Write primes.py'): "a kill in the middle; tests/e2e/kills does it many times",
    ("README.md", "kill -9"): "as above",
    ("README.md", "fabric resume --last"): "as above",
    ("README.md", "make"): NETWORK,
    ("README.md", ""): "the story of docs/guides/people-and-keys.md and docs/guides/models.md",
    ("CONTRIBUTING.md", "make"): "runs these very tests",
    ("CONTRIBUTING.md", "export FABRIC_STORE__URL"): "tests/integration/persistence/test_postgres_schema.py does it",
    ("CONTRIBUTING.md", "docker compose -f deploy/compose.dev.yaml"): "needs Docker, and builds an image",
    ("CONTRIBUTING.md", ".venv/bin/fabric nodes invite"): "docs/guides/fleet.md does it",
    ("CONTRIBUTING.md", ".venv/bin/python -m agent_fabric.interfaces.node.main"): "docs/guides/fleet.md does it",
    ("CONTRIBUTING.md", "alembic"): "tests/integration/persistence/test_postgres_schema.py does it",
    ("docs/get-started/first-run.md", "git clone"): NETWORK,
    ("docs/get-started/first-run.md", "cd agent-fabric"): NETWORK,
    ("docs/get-started/first-run.md", "make run"): NETWORK,
    ("docs/get-started/first-run.md", "ollama pull"): NETWORK,
    ("docs/guides/browser-and-network.md", ""): NETWORK,
    ("docs/guides/fleet.md", ""): "needs machines; tests/integration/fleet has real ones",
    ("docs/guides/mcp.md", "pip install"): NETWORK,
    ("docs/guides/mcp.md", "fabric mcp inspect"): "needs a tool server that is not installed",
    ("docs/guides/mcp.md", "fabric mcp trust"): "needs a tool server that is not installed",
    ("docs/guides/models.md", "fabric models list"): "shows the models of a machine without a scripted one",
    ("docs/guides/models.md", "fabric run"): NEEDS_MODEL,
    ("docs/guides/models.md", "fabric models pull"): NETWORK,
    ("docs/guides/models.md", "fabric models use llama3.1"): NEEDS_MODEL,
    ("docs/guides/models.md", "pip install"): NETWORK,
    ("docs/guides/models.md", "fabric models use ~/models"): NEEDS_MODEL,
    ("docs/guides/models.md", "fabric models use http"): NEEDS_MODEL,
    ("docs/guides/models.md", "fabric models probe"): NEEDS_MODEL,
    ("docs/guides/models.md", "vllm"): "another program's command",
    ("docs/guides/models.md", "llama-server"): "another program's command",
    ("docs/guides/models.md", "FABRIC_OFFLINE"): "needs a model in the cloud",
    ("docs/guides/models.md", "fabric doctor"): "shows another machine",
    ("docs/guides/your-project.md", "fabric review"): "needs a repository; tests/e2e/cli/test_headless.py has one",
    ("docs/operate/kubernetes.md", ""): "needs a cluster; tests/architecture/test_kubernetes.py checks the manifests",
    ("docs/guides/people-and-keys.md", 'fabric run "Draft'): "the story of docs/guides/command-line-and-server.md",
    ("docs/guides/research.md", ""): "needs the web; tests/e2e/agents has the same with scripted pages",
    ("docs/guides/web-page.md", "fabric web"): "opens a browser; tests/e2e/page has one",
    ("docs/guides/search-runs.md", "fabric logs search --semantic"): "needs a model for embeddings",
    ("docs/guides/search-runs.md", "pip install"): NETWORK,
    ("docs/guides/secrets.md", "fabric secrets rotate --drop-old"): "refuses within ten seconds of the rotation",
    ("docs/guides/skills.md", "fabric skills"): "needs skills; tests/unit/interfaces/cli/tools/test_skills.py has them",
    ("docs/guides/workflows.md", "fabric workflow resume"): "needs a failed run; tests/e2e/workflows has them",
    ("docs/guides/workflows.md", "fabric approvals show 4002"): "needs a run that was killed; tests/e2e/kills has them",
    ("docs/guides/workflows.md", "fabric approvals approve 4002"): "as above",
    ("docs/guides/workflows.md", "fabric approvals done 4002"): "as above",
    ("docs/guides/workflows.md", "fabric approvals deny 4002"): "as above",
    ("docs/guides/write-a-pack.md", "pip install"): NETWORK,
    ("docs/guides/write-a-pack.md", "python -m pytest"): "tests/e2e/agents/test_guides.py does it",
    ("docs/guides/write-a-tool.md", ""): "tests/e2e/agents/test_guides.py does it",
    ("docs/operate/backup.md", "sudo"): ELSEWHERE,
    ("docs/operate/deploy.md", ""): ELSEWHERE,
    ("docs/operate/encryption.md", "curl …"): "is shortened",
    ("docs/operate/scale-out.md", ""): "needs a database of one's own; tests/e2e/cluster types the same",
    ("docs/operate/tracing.md", ""): "needs a collector",
    ("docs/operate/upgrade.md", ""): ELSEWHERE,
    ("docs/operate/llama-server.md", "curl"): "needs llama-server",
    ("docs/reference/configuration.md", ""): "lines of a .env file",
}
"""Commands that are parsed and not run, by document and beginning, with the reason. An empty beginning: all others."""


def why_not_run(document: str, text: str) -> tuple[str, str] | None:
    """Return the entry of the table above that is about a command, if any."""
    fitting = [key for key in PARSED_ONLY if key[0] == document and text.startswith(key[1])]
    return max(fitting, key=lambda key: len(key[1]), default=None)


async def prepare(story: Story, shell: Shell) -> None:
    """Write the files of a story, and start its server."""
    for name, text in story.files.items():
        path = shell.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if story.serve:
        await shell.serve("fabric serve")
