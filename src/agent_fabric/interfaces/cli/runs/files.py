"""`fabric files`: list and fetch the files that a run made."""

import codecs
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Annotated

import typer

from agent_fabric.client.saving import save
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.plural import count_of
from agent_fabric.domain.runs.files import RunFileList
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED
from agent_fabric.interfaces.cli.options import Last, RunIdArgument
from agent_fabric.interfaces.cli.output import plain, print_json, print_warning
from agent_fabric.interfaces.cli.place import Place, RunAccess, choose_run_and, refuse_if, with_run
from agent_fabric.wire.runs import RUN_FILES

app = new_app("List and download the files of a run.")


@app.command()
def files(
    run_id: RunIdArgument = None,
    name: Annotated[
        str | None, typer.Argument(metavar="[PATH]", help="The file to fetch; without one, all are listed.")
    ] = None,
    last: Last = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Save it to this file instead of printing it.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    *,
    at: Place,
) -> int:
    """List the files in a run's workspace, or fetch one of them.

    A file is printed as it is, but harmlessly into a terminal. Of a run in a project folder see `fabric diff`.

    Exit codes: 0 done, 1 the files cannot be fetched, 2 wrong usage, or no such run.
    """
    chosen, names = choose_run_and(run_id, name, last=last)
    refuse_if(len(names) > 1, "With --last there is no RUN_ID", hint="Leave out one of the two.")
    path = "".join(names)
    refuse_if(bool(path) and at.as_json, "--json lists files", hint="Leave out --json, or PATH.")
    refuse_if(not path and output is not None, "--output needs a PATH", hint="Name the file of the run to save.")
    refuse_if(force and output is None, "--force needs --output", hint="Name the file to overwrite.")
    taken = output is not None and not force and output.exists()
    refuse_if(taken, f"{output} exists already", hint="Choose another name, or overwrite it with --force.")

    async def go(place: RunAccess, found: RunId) -> None:
        if not path:
            _show(await place.files(found), at)
        elif output is None:
            await _print(place, found, path)
        else:
            async with aclosing(place.content(found, path)) as pieces:
                size = await save(pieces, output, overwrite=force)
            sys.stderr.write(f"{plain(str(output))}: {count_of(size, 'byte')}\n")

    with_run(at, chosen, go)
    return COMPLETED


def _show(found: RunFileList, at: Place) -> None:
    if at.as_json:
        print_json(RUN_FILES.dump(found))
        return
    width = max((len(f"{one.size:,}") for one in found.files), default=0)
    sys.stdout.writelines(f"{one.size:>{width},} B  {plain(one.path)}\n" for one in found.files)
    if not found.files:
        sys.stderr.write("No files.\n")
    if found.truncated:
        print_warning("There are more files than can be listed; each can be fetched by its path.")


async def _print(place: RunAccess, run_id: RunId, path: str) -> None:
    """Write byte by byte into a file or a pipe, harmlessly into a terminal."""
    decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
    async with aclosing(place.content(run_id, path)) as pieces:
        async for piece in pieces:
            if sys.stdout.isatty():
                sys.stdout.write("\n".join(plain(line) for line in decode(piece).split("\n")))
            else:
                sys.stdout.buffer.write(piece)
    sys.stdout.write(decode(b"", final=True))
    sys.stdout.flush()
