"""Finds commands that would lose their own input: the shell empties `> FILE` before anything has read it."""

import posixpath
from collections.abc import Iterator, Sequence

from agent_fabric.domain.policy.command_lines.invocation import Connector, Invocation
from agent_fabric.domain.policy.command_lines.names import names

_READ_NO_FILE = names(
    "[ basename date dirname echo expr false find git ls mkdir printf pwd readlink realpath seq stat test touch true "
    "which"
)
"""Programs to which the name of a file is only a name."""


def overwritten_input(invocations: Sequence[Invocation]) -> str:
    """Return the file that a command reads although its own redirect has emptied it; empty: there is none."""
    for pipeline in _pipelines(invocations):
        emptied = {
            posixpath.normpath(redirect.target): redirect.target
            for each in pipeline
            for redirect in each.redirects
            if redirect.operator in {">", ">|", "&>"} and redirect.names_file and not redirect.unknown
        }
        for each in pipeline:
            for path in _read_by(each):
                if posixpath.normpath(path) in emptied:
                    return emptied[posixpath.normpath(path)]
    return ""


def _pipelines(invocations: Sequence[Invocation]) -> Iterator[list[Invocation]]:
    pipeline: list[Invocation] = []
    for each in invocations:
        pipeline.append(each)
        if each.connector is not Connector.PIPE:
            yield pipeline
            pipeline = []
    if pipeline:
        yield pipeline


def _read_by(invocation: Invocation) -> Iterator[str]:
    for redirect in invocation.redirects:
        if redirect.operator == "<" and not redirect.unknown:
            yield redirect.target
    if invocation.name not in _READ_NO_FILE:
        for at, word in enumerate(invocation.words):
            if at and word and at not in invocation.unknown and not word.startswith("-"):
                yield word
