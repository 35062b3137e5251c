"""The commands of README and docs do what the documents say, typed in order into a shell, with a scripted model."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import pytest

from agent_fabric.testing.scripted_model import Call, Finish, Script, ScriptedModel
from documents import ROOT, Command, commands, documents
from e2e.documents.shell import Shell, unlike
from e2e.documents.stories import MODEL, PARSED_ONLY, STORIES, Story, prepare, why_not_run
from e2e.fabric_process import Fabric, settings

T = TypeVar("T")
_FILE = re.compile(r"`([\w./-]*\w\.\w+)`[^`\n]*?(?:\n[^`\n]+)?:\n\n *```\w+\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
"""A block of code whose file is named in the sentence before it."""


def write_files(document: str, folder: Path) -> None:
    """Write the files of a document into a folder, unless one is there."""
    for name, text in _FILE.findall((ROOT / document).read_text(encoding="utf-8")):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        indent = len(text) - len(text.lstrip(" "))
        path.write_text("".join(line[indent:] if line.strip() else line for line in text.splitlines(keepends=True)))


@pytest.mark.proves("DU-6")
@pytest.mark.parametrize("document", STORIES)
async def test_the_commands_of_a_document_do_what_it_says(document: str, tmp_path: Path) -> None:
    story = STORIES[document]
    async with ScriptedModel(MODEL) as model:
        configured = None if story.configured is None else {**settings(model.base_url), **story.configured}
        with Shell(tmp_path, configured, story.fresh) as shell:
            write_files(document, shell.work)
            await prepare(story, shell)
            for command in commands(document):
                if why_not_run(document, command.text) is None:
                    await type_command(story, shell, command)


async def type_command(story: Story, shell: Shell, command: Command) -> None:
    for text in chosen(story.before, command.text, ()):
        await type_line(shell, here(text, story, shell))
    text = here(command.text, story, shell)
    if text.startswith("fabric serve") or "scripted_model" in text:
        await shell.serve(text, shell.model_port if "scripted_model" in text else None)
        return
    done = await shell.type(text, chosen(story.typed, command.text, ()))
    if any(line.startswith("error:") for line in command.shown):
        assert done.code != 0, f"{command}\n{done.out}"
    else:
        assert done.code == chosen(story.exits, command.text, 0), f"{command}\n{done.out}"
    assert "traceback" not in done.out.lower(), f"{command}\n{done.out}"
    missing = unlike(command.shown, done.out)
    assert missing == [], f"{command} printed\n{done.out}"


async def type_line(shell: Shell, text: str) -> None:
    if text.startswith("fabric serve"):
        await shell.serve(text)
        return
    done = await shell.type(text)
    assert done.code == 0, f"{text}\n{done.out}"


def chosen(table: Mapping[str, T], text: str, otherwise: T) -> T:
    """Return what a table says about a command, by the longest beginning that fits; `$` stands for its end."""
    fitting = [key for key in table if f"{text}$".startswith(key)]
    return table[max(fitting, key=len)] if fitting else otherwise


def here(text: str, story: Story, shell: Shell) -> str:
    """Return a command with the addresses, ids and paths of this machine."""
    for address in ("https://fabric.example.org", "http://127.0.0.1:8787", "localhost:8787"):
        text = text.replace(address, f"http://127.0.0.1:{shell.port}")
    text = text.replace("8123", str(shell.model_port)).replace(".venv/bin/python", sys.executable)
    for shown, ours in story.paths.items():
        text = text.replace(shown, ours)
    for name, what in story.ids.items():
        if re.search(rf"\b{name}\b", text):
            text = re.sub(rf"\b{name}\b", shell.newest(what), text)
    return text


@pytest.mark.proves("DB-11")
@pytest.mark.parametrize(
    ("document", "begin", "name", "prints"),
    [
        ("docs/get-started/first-run.md", "## What you see", "hello.py", "hi"),
        ("README.md", "```console", "primes.py", "[2, 3, 5, 7, 11, 13, 17, 19, 23, 29]"),
    ],
)
async def test_what_a_first_run_shows_is_what_is_printed(
    document: str, begin: str, name: str, prints: str, tmp_path: Path
) -> None:
    text = (ROOT / document).read_text(encoding="utf-8").partition(begin)[2]
    shown = text[text.index("completed ·") : text.index("\n```", text.index("completed ·"))].splitlines()
    summary = next(line for line in shown if line.startswith("Wrote "))
    script = (
        Call("write_file", {"path": name, "content": f"print({prints!r})\n"}),
        Call("shell", {"command": f"python3 {name}"}),
        Finish(summary=summary, artifacts=[name]),
    )
    async with ScriptedModel(Script(turns=script)) as model:
        ended = await Fabric(tmp_path, settings(model.base_url))("run", f"Write {name} and run it.")
    assert unlike(shown, ended.out) == []
    assert unlike([line for line in ended.out.splitlines() if line.strip()], "\n".join(shown)) == []


@pytest.mark.proves("DU-6")
def test_every_command_is_run_or_the_table_says_why_not() -> None:
    found = [command for document in documents() for command in commands(document)]
    reasons = {command: why_not_run(command.document, command.text) for command in found}
    assert [str(each) for each, why in reasons.items() if why is None and each.document not in STORIES] == []
    assert set(PARSED_ONLY) - set(reasons.values()) == set(), "entries about no command"
    assert sum(why is None for why in reasons.values()) > 70


def test_output_that_differs_is_noticed() -> None:
    shown = ["run be71ece1-9f3e-4d37-9dd1-8b59d28cd047 · workflow greet", "…", "✓ say  0.0 s"]
    assert unlike(shown, "run 11111111-9f3e-4d37-9dd1-8b59d28cd047 · workflow greet\nx\n✓ say  1.2 s\n") == []
    assert unlike(shown, "run 11111111-9f3e-4d37-9dd1-8b59d28cd047 · workflow greet\n✓ said  1.2 s\n") == [shown[2]]
