"""`fabric chat`: talk with an agent."""

from typing import Annotated

import typer

from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.options import Here
from agent_fabric.interfaces.cli.place import Place, refuse_if

app = new_app("Talk with an agent.")


@app.command()
def chat(  # noqa: PLR0913 - what a conversation begins with
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[WORDS]…", help="What to say first; in a script, all that is said.")
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="The session, or the beginning of its id.")
    ] = None,
    last: Annotated[bool, typer.Option("--last", help="Your newest session.")] = False,
    new: Annotated[bool, typer.Option("--new", help="A new session; so it is by default.")] = False,
    model_key: Annotated[str | None, typer.Option(metavar="KEY", help="The configured model that answers.")] = None,
    pack: Annotated[str | None, typer.Option(metavar="NAME", help="The specialist; chosen by default.")] = None,
    node: Annotated[
        str | None, typer.Option(metavar="NAME", help="The machine that it is about; `sysadmin` looks after it.")
    ] = None,
    here: Here = False,
    *,
    at: Place,
) -> int:
    """Talk with an agent. The conversation is kept: go on with it here, or in the browser at the same time.

    In a pipe, what is read is one message, unless WORDS are: echo "…" | fabric chat --json

    Exit codes: 0 left or answered, 1 failed or stopped, 2 wrong usage, 3 waiting for input, 4 what was asked for was
    denied or failed, 130 interrupted.
    """
    refuse_if((session is not None) + last + new > 1, "Name one session", hint="--session ID, --last or --new.")
    chosen = session is not None or last
    refuse_if(here and chosen, "--here begins a new session", hint="A session stays in the folder where it began.")
    from agent_fabric.interfaces.cli.chat.chat_places import Start  # noqa: PLC0415 - `--help` needs no engine
    from agent_fabric.interfaces.cli.chat.talk import talk_with  # noqa: PLC0415 - as above

    return talk_with(Start(session or "", last, model_key, pack, node), " ".join(words or ()), here, at)
