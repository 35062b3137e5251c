"""`fabric eval add`: make a case of a real run."""

from pathlib import Path
from typing import Annotated

import typer

from agent_fabric.application.evals.make_case import MadeCase, id_from, require_known, require_task
from agent_fabric.bootstrap.runs import make_case
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.evals.definition import CASE_ID, EvalCase, plain_case
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.plural import counted
from agent_fabric.infrastructure.evals.add_case import add_case
from agent_fabric.interfaces.cli.options import Last, RunIdArgument
from agent_fabric.interfaces.cli.output import plain, print_warning
from agent_fabric.interfaces.cli.place import Place, RunAccess, choose_run, refuse_if, with_run
from agent_fabric.interfaces.cli.place_local import LocalRuns

_MAX_NAMED = 5


def add(
    run_id: RunIdArgument = None,
    check: Annotated[str, typer.Option(metavar="CMD", help="A command line; exit code 0 means right.")] = "",
    last: Last = False,
    to: Annotated[str, typer.Option(metavar="FILE", help="The eval file; made if there is none.")] = "evals.yaml",
    case_id: Annotated[str, typer.Option("--id", metavar="ID", help="What to call it; by default by its words.")] = "",
    only: Annotated[
        list[str] | None, typer.Option(metavar="PATH", help="Only this file or folder of the project; can be repeated.")
    ] = None,
    *,
    at: Place,
) -> None:
    """Make a case of a real run: what was asked, and the files as they were before it.

    Of a run in a project (--here), the files as they stood when it began; other runs begin with an empty workspace.
    Files whose names say that they hold secrets are left out.
    """
    refuse_if(not check.strip(), "A case needs a check", hint="For example: --check 'python3 -m pytest -q'")
    refuse_if(
        bool(case_id) and CASE_ID.fullmatch(case_id) is None,
        f"{case_id!r} cannot be an id",
        hint="Letters, digits, . _ and -, at most 64.",
    )
    chosen = choose_run(run_id, last=last)
    paths = [path.removeprefix("./").rstrip("/") for path in only or ()]

    async def go(place: RunAccess, found: RunId) -> MadeCase:
        if isinstance(place, LocalRuns):
            return await make_case(place.records)(found, check=check, case_id=case_id, only=paths)
        created = require_task(found, await place.events(found))
        if created.continues is not None:
            raise ConfigError(
                f"Run {found} began with the files of another run", hint="Make a case of the first one instead."
            )
        require_known(paths, ())
        return MadeCase(EvalCase(case_id=case_id or id_from(created.prompt), prompt=created.prompt, check=check), ())

    case, left_out = with_run(at, chosen, go)
    case = add_case(Path(to), case, renames=not case_id)
    if left_out:
        names = ", ".join(map(plain, left_out[:_MAX_NAMED]))
        more = f" and {len(left_out) - _MAX_NAMED} more" if len(left_out) > _MAX_NAMED else ""
        print_warning(f"left out, since they are links, may hold secrets or are no longer stored: {names}{more}")
    at.print(
        {"file": to, "case": plain_case(case), "left_out": list(left_out)},
        f"added {case.case_id} with {counted(len(case.files), 'file')} to {plain(to)}\n"
        f"try it: fabric eval run {plain(to)} --case {case.case_id}\n",
    )
