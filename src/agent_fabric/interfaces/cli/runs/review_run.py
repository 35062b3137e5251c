"""How `fabric review` gets at a change, has it reviewed, and shows what was found."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from agent_fabric.application.runs.new_task import task_from
from agent_fabric.bootstrap.runs import diff_of_git
from agent_fabric.client.tasks import TaskRequest
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.packs.review import FINDINGS, MAX_DIFF_CHARS, REVIEWER, Finding, findings_in, review_task
from agent_fabric.domain.plural import count_of
from agent_fabric.domain.runs.task import RunResult
from agent_fabric.interfaces.cli.main import COMPLETED, SERIOUS
from agent_fabric.interfaces.cli.options import configuration
from agent_fabric.interfaces.cli.output import colour, plain, plain_lines
from agent_fabric.interfaces.cli.place import Place, refuse_if
from agent_fabric.interfaces.cli.runs.driving import drive_in_foreground
from agent_fabric.interfaces.cli.runs.foreground import LocalForeground, foreground_elsewhere, foreground_here
from agent_fabric.interfaces.cli.runs.run_task import project_here
from agent_fabric.wire.results import result_object

_STYLES = {"critical": "red", "high": "red", "medium": "yellow", "low": "dim"}


def read_change(source: str | None, base: str | None) -> str:
    """Return the diff to review.

    Raises:
        ConfigError: there is none, or it is too long.
    """
    refuse_if(
        source is not None and base is not None, "--base asks git, and a diff was given", hint="Give one of them."
    )
    diff = diff_of_git(Path.cwd(), base or "") if source is None else _read(source)
    if len(diff) > MAX_DIFF_CHARS:
        raise ConfigError(
            f"The change has {len(diff):,} characters, and at most {MAX_DIFF_CHARS:,} are reviewed at once",
            hint="Review it in parts: git diff BASE -- FOLDER | fabric review -",
        )
    return diff


def _read(source: str) -> str:
    most = 4 * MAX_DIFF_CHARS + 1  # of what is longer, or has no end, no more is needed to say so
    try:
        if source == "-":
            data = sys.stdin.buffer.read(most)
        else:
            with Path(source).open("rb") as file:
                data = file.read(most)
    except OSError as problem:
        raise ConfigError(f"{source} cannot be read: {problem.strerror}", hint="Name a file with a diff.") from None
    return data.decode("utf-8", "replace")


def review_change(diff: str, model_key: str | None, at: Place, *, verbose: bool) -> int:
    """Review a diff, show the findings, and return the exit code."""

    def tell(result: RunResult, run_dir: str) -> int:
        found = findings_in(result.payload, diff)
        serious = sum(each.severity.is_serious for each in found)
        shown = {FINDINGS: [each._asdict() for each in found], "serious": serious}
        at.print({**result_object(result, run_dir), **shown}, "".join(_lines(result, found)))
        return SERIOUS if serious else COMPLETED

    url = at.url()
    wish = TaskRequest(
        prompt=review_task(diff), pack=REVIEWER, model_key=model_key, network_allowed=False, outside_allowed=False
    )
    if url is not None:
        elsewhere = foreground_elsewhere(url)
        return drive_in_foreground(
            elsewhere, lambda there: there.start(there.client.runs.start(wish)), at, verbose=verbose, tell=tell
        )
    root = at.root()
    loaded = configuration(root)
    task = task_from(
        loaded.config,
        wish.prompt,
        pack=REVIEWER,
        model_key=model_key,
        network_allowed=False,
        project=_project(root, loaded.config),
    )

    async def start(foreground: LocalForeground) -> RunResult:
        return await foreground.start(replace(task, outside_allowed=False))

    return drive_in_foreground(foreground_here(root, loaded), start, at, verbose=verbose, tell=tell)


def _project(root: Path, config: FabricConfig) -> Path | None:
    """Return the folder whose files may be read beside the diff; None: no run may work here."""
    try:
        return project_here(root, config)
    except ConfigError as problem:
        sys.stderr.write(f"Only the diff is read: {plain(problem.message)}\n")
        return None


def _lines(result: RunResult, found: list[Finding]) -> Iterator[str]:
    yield "\n"
    for each in found:
        severity = colour(each.severity.value, _STYLES[each.severity], sys.stdout)
        place = f"{plain(each.file)}:{each.line}" if each.line else plain(each.file)
        elsewhere = "" if each.in_diff else " (not in the diff)"
        yield f"{place}: {severity}{elsewhere}: {plain_lines(each.problem)}\n"
        yield from (f"    {plain(line)}\n" for line in each.patch.splitlines())
    if summary := str(result.payload.get("summary", "")).strip():
        yield f"\n{plain_lines(summary)}\n"
    serious = sum(each.severity.is_serious for each in found)
    yield f"{count_of(len(found), 'finding')}, {serious} serious · run {result.run_id}\n"
