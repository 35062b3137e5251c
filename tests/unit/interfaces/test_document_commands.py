"""Every command that a document names exists, with the options, routes, extras, variables and files it is given."""

import importlib
import re
import tomllib
from functools import cache
from typing import Any

import pytest
import typer
from typer.exceptions import TyperException

from agent_fabric.config.loader import read_config
from agent_fabric.interfaces.cli.invocation import with_subcommand
from agent_fabric.interfaces.cli.main import COMMANDS, module_of
from documents import ROOT, commands, documents, fabric_calls, inline_commands
from reference_pages import served_routes

ALONE = {"--help", "--version", "--install-completion", "--show-completion"}


@cache
def command(name: str) -> Any:
    """Return a command of the real command line."""
    return typer.main.get_command(importlib.import_module(module_of(name)).app)


def parse(arguments: list[str]) -> None:
    """Parse a command line as `fabric` does; run nothing.

    Raises:
        TyperException: it is wrong.
    """
    if arguments[:1] == ["--server"]:
        arguments = arguments[2:]
    name, *rest = arguments or ["--help"]
    if name in ALONE or name == "COMMAND":
        return
    assert name in COMMANDS, f"there is no command {name}"
    if "--help" in rest:
        return
    chosen, words = command(name), f"fabric {name}"
    if parts := getattr(chosen, "commands", None):
        part, *rest = with_subcommand(parts, rest)
        assert part in parts, f"there is no command {name} {part}"
        chosen, words = parts[part], f"{words} {part}"
    chosen.make_context(words, list(rest))


def problem_with(arguments: list[str]) -> str:
    try:
        parse(arguments)
    except (TyperException, AssertionError) as problem:
        return str(getattr(problem, "message", "") or problem)
    return ""


@pytest.mark.proves("DU-6")
@pytest.mark.parametrize("document", documents())
def test_every_command_in_a_block_is_one_of_ours(document: str) -> None:
    called = [(each, call) for each in commands(document) for call in fabric_calls(each.text)]
    assert [f"{each}: {problem}" for each, call in called if (problem := problem_with(call))] == []


@pytest.mark.proves("DU-6")
@pytest.mark.parametrize("document", documents())
def test_every_command_in_a_sentence_is_one_of_ours(document: str) -> None:
    wrong = []
    for each in inline_commands(document):
        for call in fabric_calls(each):
            problem = problem_with(call)
            if problem and not problem.startswith("Missing "):  # a sentence need not say everything
                wrong.append(f"{each}: {problem}")
    assert wrong == []


@pytest.mark.proves("DU-6")
@pytest.mark.parametrize(
    "line",
    [
        "fabric lgos list",
        "fabric logs shwo 3f9a",
        "fabric logs show 3f9a --kind x",
        "fabric serve --prot 1 &",
        "KEY=$(fabric keys create --scop runs ci)",
        "A=1 fabric run --max-steps many x",
        "pass show x | fabric secrets set X --stdinn",
        "fabric logs show a b",
    ],
)
def test_a_wrong_command_line_is_noticed(line: str) -> None:
    assert [problem for call in fabric_calls(line) if (problem := problem_with(call))] != []


def test_there_are_many_commands_in_the_documents() -> None:
    blocks = [call for document in documents() for each in commands(document) for call in fabric_calls(each.text)]
    sentences = [each for document in documents() for each in inline_commands(document)]
    assert len(blocks) > 120
    assert len(sentences) > 200


@pytest.mark.proves("DU-6")
def test_every_address_that_a_document_asks_is_served() -> None:
    served = {(method, each.path) for each in served_routes() for method in each.methods.split(", ")}
    patterns = [(method, re.compile(re.sub(r"[A-Z_]{2,}", "[^/]+", path))) for method, path in served]
    wrong = []
    asked = 0
    for each in (each for document in documents() for each in commands(document)):
        for found in re.finditer(r"curl (.*?)(?=$|&&|\||;)", each.text, re.DOTALL):
            address = re.search(r"(?:localhost|127\.0\.0\.1):8787(/[^\s'\"?)]*)|example\.org(/[^\s'\"?)]*)", found[1])
            assert address, each
            path = address[1] or address[2]
            method = re.search(r"-X (\w+)", found[1])
            verb = method[1] if method else "POST" if " -d " in found[1] else "GET"
            asked += 1
            if not any(verb == allowed and pattern.fullmatch(path) for allowed, pattern in patterns):
                wrong.append(f"{each}: {verb} {path}")
    assert wrong == []
    assert asked > 15


@pytest.mark.proves("DU-6")
def test_every_extra_variable_module_target_and_file_of_a_command_exists() -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    wrong: list[str] = []
    for each in (each for document in documents() for each in commands(document)):
        for extras in re.findall(r"(?:agent-fabric|\.)\[([\w,]+)\]", each.text):
            wrong += [f"{each}: {extra}" for extra in extras.split(",") if extra not in known]
        for module in re.findall(r"-m (agent_fabric[\w.]*)", each.text):
            importlib.import_module(module)
        wrong += [f"{each}: {name}" for name in re.findall(r"^make ([a-z-]+)", each.text) if name not in targets]
        for path in re.findall(r"(?<![\w/.-])((?:deploy|examples|scripts|docs|benchmarks)/[\w./-]+)", each.text):
            if not (ROOT / path).exists():
                wrong.append(f"{each}: {path}")
        for name, value in re.findall(r"(FABRIC_[A-Z_]+)=('[^']*'|\"[^\"]*\"|\S+)", each.text):
            if name not in {"FABRIC_URL", "FABRIC_API_KEY", "FABRIC_CONFIG_PATH", "FABRIC_DOMAIN"}:
                read_config({name: value.strip("'\"")})
    assert wrong == []
