"""The same commands on this machine and at a server, and what they print without what must differ."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from agent_fabric.testing.scripted_model import Script, ScriptedModel
from e2e.fabric_process import Ended, Fabric, settings
from e2e.server_process import serving

RUN_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIMES = frozenset(
    {"ts", "at", "created_at", "updated_at", "expires_at", "decided_at", "duration_s", "duration_ms", "fetched_at"}
    | {"completed_at", "until"}
    | {"prompt_tokens", "tokens"}  # they depend on the place, which the model is told
)
_HASHES = frozenset({"last_hash", "args_hash", "binding", "policy_version", "digest", "head"})
_ASKERS = frozenset({"requested_by", "user_scopes"})
"""Who asked: a server knows it, a folder has nobody to ask."""
_WORDS: Sequence[tuple[str, str]] = (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?", "<when>"),
    (r"\b\d\d:\d\d:\d\d\b", "<time>"),
    (r"\b\d+(\.\d+)? (ms|s)\b", "<seconds>"),
    (r"\b[\d,]+ tokens\b", "<tokens>"),
    (r"\b[0-9a-f]{64}\b", "<hash>"),
    (r"\b(process) \d+ on \S+", r"\1 <number>"),
    (r"(127\.0\.0\.1|localhost):\d+", r"\1:<port>"),
    (r"files: <folder>/\.fabric/runs/<run \d+>/workspace|files: fabric files <run \d+>", "<where the files are>"),
    (r"Resume with: fabric resume <run \d+>", "<how it goes on>"),
    (r"The server continues the run by itself\. Watch it: fabric logs show <run \d+> --follow", "<how it goes on>"),
)


class Step(NamedTuple):
    """One command, as a person types it behind `fabric`."""

    arguments: Callable[["Seen"], Sequence[str]]
    compares_err: bool = False
    """Whether also what is said on standard error must be the same."""


def step(*arguments: str, compares_err: bool = False) -> Step:
    """Return a command; `{run}`, `{approval}` stand for the newest ids that were printed before."""
    return Step(lambda seen: [each.format(run=seen.run, approval=seen.approval) for each in arguments], compares_err)


@dataclass
class Seen:
    """What the commands of a scenario have printed so far."""

    run: str = ""
    approval: str = ""
    names: dict[str, str] = field(default_factory=dict)
    """What ids are called instead, in the order in which they appeared."""

    def look(self, ended: Ended) -> None:
        """Notice ids."""
        for text in (ended.out, ended.err):
            for found in RUN_ID.findall(text):
                self.names.setdefault(found, f"<run {len(self.names)}>")
                self.run = found
            for found in re.findall(r'"id": "([0-9a-f]{12})"|fabric approvals show ([0-9a-f]{12})', text):
                self.approval = found[0] or found[1]
                self.names.setdefault(self.approval, f"<approval {len(self.names)}>")

    def without(self, text: str, folder: str) -> str:
        """Return a text without ids, places and times."""
        text = text.replace(folder, "<folder>")
        for each, name in self.names.items():
            text = text.replace(each, name).replace(each[:8], name)
        for pattern, word in _WORDS:
            text = re.sub(pattern, word, text)
        return text


@dataclass
class Both:
    """A folder on this machine, and a server."""

    here: Fabric
    there: Fabric

    async def compare(self, *steps: Step) -> None:
        """Take the steps in both places, and check that they end alike."""
        here, there = await asyncio.gather(taken(self.here, steps), taken(self.there, steps))
        for number, (one, other) in enumerate(zip(here, there, strict=True)):
            assert one == other, f"step {number} differs: {differences(one, other)}"


def differences(one: Any, other: Any, at: str = "") -> list[str]:
    """Say where two values are not the same."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return [
            each
            for key in one.keys() | other.keys()
            for each in differences(one.get(key), other.get(key), f"{at}.{key}")
        ]
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [each for index, (a, b) in pairs for each in differences(a, b, f"{at}[{index}]")]
    return [] if one == other else [f"{at}: {str(one)[:2000]!r} and {str(other)[:2000]!r}"]


async def taken(fabric: Fabric, steps: Sequence[Step]) -> list[tuple[int, Any, str]]:
    """Take the steps in one place; return of each the exit code and what was said."""
    seen, said = Seen(), []
    for each in steps:
        ended = await fabric(*each.arguments(seen))
        assert "fabric-crash" not in ended.err, ended.err
        seen.look(ended)
        said.append(
            (ended.code, told(ended.out, seen, str(fabric.folder)), seen.without(ended.err, str(fabric.folder)))
        )
    return [(code, out, err if each.compares_err else "") for each, (code, out, err) in zip(steps, said, strict=True)]


def told(out: str, seen: Seen, folder: str) -> Any:
    """Return what was printed: JSON as a value, lines of JSON as a list, anything else as text."""
    text = re.sub(r"(hash:  |hash )[0-9a-f]{12}\b", r"\1<hash>", seen.without(out, folder))
    with contextlib.suppress(ValueError):
        return _alike(json.loads(text))
    lines = text.splitlines()
    if lines and all(line.startswith("{") for line in lines):
        return [_alike(json.loads(line)) for line in lines]
    return text


def _alike(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _alike_field(key, each) for key, each in value.items() if key not in _ASKERS}
    return [_alike(each) for each in value] if isinstance(value, list) else value


def _alike_field(key: str, value: Any) -> Any:
    if key in _TIMES and isinstance(value, int | float):
        return "<time>"
    return "<hash>" if key in _HASHES and isinstance(value, str) else _alike(value)


@contextlib.asynccontextmanager
async def both_ways(folder: Path, script: Script, **more: Any) -> AsyncIterator[Both]:
    """Give the command line in a folder of its own, and the same with a server in another one."""
    async with ScriptedModel(script) as model:
        configured = settings(model.base_url, **more)
        at_server = Fabric(folder / "away", configured)
        async with serving(at_server) as server:
            there = Fabric(folder / "away", configured, server=server.url)
            yield Both(Fabric(folder / "here", configured), there)
