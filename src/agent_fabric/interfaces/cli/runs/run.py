"""`fabric run`: run a task."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer

from agent_fabric.bootstrap.this_machine import open_commands
from agent_fabric.client.tasks import TaskRequest
from agent_fabric.config.constants import MAX_PROMPT_CHARS
from agent_fabric.domain.chat.slash_commands import COMMAND_NAME, SlashCommand
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.runs.task import Priority
from agent_fabric.domain.runs.task import TaskForceMode as Mode
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.options import (
    Encrypt,
    Here,
    Last,
    MaxCost,
    NetworkAllowed,
    NoOutside,
    Pool,
    RequireProof,
    SeenBy,
    Untrusted,
    Verbose,
    is_confirmed,
    pool_name,
    require_a_person,
)
from agent_fabric.interfaces.cli.output import plain_lines
from agent_fabric.interfaces.cli.place import Place, RunChoice, refuse_if
from agent_fabric.interfaces.cli.runs.output_format import Output, print_errors, with_output

app = new_app("Run a task.")


@app.command()
def run(  # noqa: PLR0913, PLR0917 - the options are a contract with the users
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="PROMPT",
            help="What to do; `-` is standard input; `/NAME ARGUMENTS` is a command of yours. "
            "With --continue: [RUN_ID] PROMPT.",
        ),
    ],
    continues: Annotated[
        bool,
        typer.Option("--continue", help="Follow up a run that has ended, in its workspace; by default your newest."),
    ] = False,
    last: Last = False,
    pack: Annotated[
        str | None,
        typer.Option(metavar="NAME[,NAME…]", help="The specialist, or several; chosen automatically by default."),
    ] = None,
    model_key: Annotated[str | None, typer.Option(metavar="KEY", help="The configured model to use.")] = None,
    network_allowed: NetworkAllowed = True,
    no_outside: NoOutside = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only make a plan: it may read, and the policy lets it change nothing.")
    ] = False,
    verbose: Verbose = False,
    max_steps: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Maximum number of model answers of a specialist.")
    ] = None,
    max_cost: MaxCost = None,
    require_proof: RequireProof = False,
    task_force_mode: Annotated[
        Mode | None, typer.Option(help="Whether several specialists work one after another or all at once.")
    ] = None,
    priority: Annotated[Priority, typer.Option(help="Priority in the queue of a model server.")] = Priority.INTERACTIVE,
    explain_routing: Annotated[
        bool, typer.Option("--explain-routing", help="Explain why these specialists were chosen.")
    ] = False,
    here: Here = False,
    untrusted: Untrusted = False,
    encrypt: Encrypt = False,
    visibility: SeenBy = None,
    pool: Pool = None,
    no_ensure: Annotated[
        bool, typer.Option("--no-ensure", help="Start no model server, and download nothing.")
    ] = False,
    output: Output = None,
    *,
    at: Place,
) -> int:
    """Run a task with a specialist, in a workspace of its own. The run is durable: it can be resumed after any crash.

    Exit codes: 0 completed, 1 failed, 2 wrong usage or configuration, 3 waiting for input, 4 what the task is about was
    denied or failed, 5 nothing bears the result out though --require-proof or the configuration wants it, 130
    interrupted.
    """
    at = with_output(at, output)
    if not continues and (filled := own_command(words, at)) is not None:
        words, pack, model_key = [filled.text], pack or filled.pack or None, model_key or filled.model or None
    chosen, prompt = _follow_up(words, continues=continues, last=last)
    refuse_if(chosen is not None and here, "--continue works where the earlier run did", hint="Leave out --here.")
    wish = TaskRequest(
        prompt=_prompt(prompt),
        pack=pack,
        model_key=model_key,
        network_allowed=network_allowed,
        outside_allowed=not no_outside,
        plan=plan,
        max_steps=max_steps,
        max_cost=max_cost,
        require_proof=require_proof,
        task_force_mode=task_force_mode,
        priority=priority,
        encrypt=encrypt,
        visibility=visibility,
        pool=pool_name(pool) or None,
    )
    from agent_fabric.interfaces.cli.runs.run_task import Manner, run_task  # noqa: PLC0415 - `--help` needs no engine

    manner = Manner(here, untrusted, no_ensure, verbose, explain_routing)
    return print_errors(at, lambda: run_task(wish, chosen, manner, at))


def own_command(words: Sequence[str], at: Place) -> SlashCommand | None:
    """Return the command of the person's own that `/NAME ARGUMENTS` stands for, filled in; None: it is a plain task.

    Raises:
        ConfigError: there is none of this name, or it came with the project and the person does not want it.
    """
    name, _, rest = words[0].partition(" ")
    if not name.startswith("/") or COMMAND_NAME.fullmatch(name[1:]) is None:
        return None
    commands = open_commands(at.root())
    command = commands.find(name[1:])
    if command is None and (rest or len(words) == 1):
        return None  # a task may begin with a path
    refuse_if(command is None, f"There is no command {name}", hint=f"Its file would be .fabric/commands{name}.md.")
    assert command is not None
    if not commands.is_trusted(command):
        require_a_person()
        sys.stderr.write(f"{command.file} came with the project:\n\n{plain_lines(command.text)}\n\n")
        agreed = is_confirmed("Use this command as it is now?", yes=False, hint="Look at it in a terminal.")
        refuse_if(not agreed, f"{name} is not used", hint="Write one of your own under another name.")
        commands.agree(command)
    return replace(command, text=command.fill(" ".join([*filter(None, [rest]), *words[1:]])))


def _follow_up(words: Sequence[str], *, continues: bool, last: bool) -> tuple[RunChoice | None, str]:
    """Return the run to follow up, if any, and the prompt."""
    *named, prompt = words
    refuse_if(last and not continues, "--last names the run to follow up", hint="Use it together with --continue.")
    refuse_if(
        len(named) > (continues and not last), f"Got unexpected extra argument ({prompt})", hint="Quote the prompt."
    )
    return (RunChoice(named[0] if named else None) if continues else None), prompt


def _standard_input() -> str:
    if sys.stdin is None:  # closed before we started
        return ""
    return sys.stdin.buffer.read(4 * MAX_PROMPT_CHARS + 1).decode("utf-8", "replace")


def _prompt(argument: str) -> str:
    text = _standard_input() if argument == "-" else argument
    # Bytes that are no UTF-8 reach us as surrogates, which no model and no log could take.
    text = text.encode("utf-8", "replace").decode("utf-8", "replace").strip()
    if not text:
        raise ConfigError("There is no task", hint='Say what to do: fabric run "…"')
    if len(text) > MAX_PROMPT_CHARS:
        raise ConfigError(
            f"The task is longer than {MAX_PROMPT_CHARS:,} characters", hint="Put long material into a file."
        )
    return text
