"""`fabric models`: which models there are, which is used, and what each can do."""

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import urlsplit

import typer

from agent_fabric.application.ports.llm import Notice
from agent_fabric.bootstrap.models import ModelsHere, open_models
from agent_fabric.bootstrap.records import open_secrets
from agent_fabric.config.loader import load_config
from agent_fabric.config.schema.models import ModelConfig
from agent_fabric.domain.errors import ConfigError, Interrupted, WeightsUnavailable
from agent_fabric.infrastructure.models.config_edit import file_to_change, save_model
from agent_fabric.infrastructure.models.named import AUTO, choice_of
from agent_fabric.infrastructure.models.weights.catalogue import find
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED, INTERRUPTED
from agent_fabric.interfaces.cli.models.model_texts import catalogue_text, model_list, probed_text, recommended_text
from agent_fabric.interfaces.cli.notices import Notices
from agent_fabric.interfaces.cli.options import configuration
from agent_fabric.interfaces.cli.output import plain, print_json, print_warning
from agent_fabric.interfaces.cli.place import Folder, Noun, Place, work_within
from agent_fabric.wire.models import MODELS, PROBED_MODEL, PULLED_MODEL, RECOMMENDED
from agent_fabric.wire.results import error_object
from agent_fabric.wire.shape import Json

if TYPE_CHECKING:
    from agent_fabric.client.models import Models as ServerModels

T = TypeVar("T")

_HELP = """\
List and choose models.

\b
Examples:
  fabric models list                        what there is, and what is used
  fabric models recommend                   see which embedded model fits this machine
  fabric models pull quality                download the embedded model
  fabric models use qwen2.5:7b              take a model of Ollama
  fabric models use http://HOST:8000/v1 --model NAME
                                            take a model of another server
  fabric models probe                       see how it calls tools, and how fast
"""

app = new_app(_HELP)

Key = Annotated[str | None, typer.Argument(metavar="KEY", help="A key of `models`; by default the one that works.")]


@app.callback()
def models() -> None:
    """List and choose models."""


class _LocalModels:
    """The models of this machine."""

    def __init__(self, here: ModelsHere) -> None:
        self.here = here

    async def everything(self) -> Json:
        return MODELS.dump(await self.here.list_models())

    async def probe(self, key: str | None, notice: Notice) -> Json:
        wanted = self.here.config.default_model_key if key is None else key
        return {**PROBED_MODEL.dump(await self.here.probe_model(wanted, notice)), "key": wanted}


@asynccontextmanager
async def _open(at: Place) -> AsyncIterator[_LocalModels]:
    root = at.root()
    config = configuration(root).config
    async with open_models(config, open_secrets(config.secrets, root, os.environ).chain.resolve, root) as here:
        yield _LocalModels(here)


_models = Noun(_open, lambda client: client.models)


@app.command("list")
def list_models(
    catalogue: Annotated[bool, typer.Option("--catalogue", help="Show all embedded models that can be had.")] = False,
    *,
    at: Place,
) -> int:
    """Show which model each key means today and why, and what else is available. Starts and downloads nothing."""
    found = _models(at, lambda models: models.everything())
    return at.print(found, catalogue_text(found) if catalogue else model_list(found, sys.stdout))


@app.command()
def recommend(*, at: Folder) -> int:
    """Say which embedded model fits this machine's memory and cores, and why.

    Example: fabric models recommend
    """

    async def go(here: ModelsHere) -> Json:
        return RECOMMENDED.dump(here.recommend())

    found = _with_models(at, go)
    return at.print(found, recommended_text(found))


@app.command()
def pull(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="quality, fast, another of the catalogue, or one of Ollama."),
    ] = None,
    *,
    at: Folder,
) -> int:
    """Download a model; an interrupted download resumes where it stopped.

    \b
    Examples:
      fabric models pull
      fabric models pull fast
      fabric models pull llama3.1:8b
    """  # noqa: D301 - the mark makes lines stay as they are
    wanted = name if name is not None else "quality"

    async def go(here: ModelsHere) -> dict[str, Any]:
        return PULLED_MODEL.dump(await here.pull(wanted, notices))

    with Notices(shown=_progress_is_welcome(at.as_json)) as notices:
        try:
            done = _with_models(at, go)
        except KeyboardInterrupt:
            return _report_interruption(f"fabric models pull {wanted}", at)
    where = done["path"] or f"Ollama at {done['by']}"
    return at.print(done, f"{plain(done['name'])} is there: {where}\nUse it: fabric models use {plain(wanted)}\n")


@app.command()
def use(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="quality, fast, a GGUF file, a model of Ollama, an address, or auto.")
    ],
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="The key to change; by default the one that works.")
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="With an address: the model there.")] = None,
    *,
    at: Folder,
) -> None:
    """Use a model from now on. This is written to your own configuration file; its comments stay.

    \b
    Examples:
      fabric models use fast
      fabric models use ~/models/some.gguf
      fabric models use llama3.1:8b --key fast
      fabric models use http://localhost:8000/v1 --model some-model
      fabric models use auto
    """  # noqa: D301 - the mark makes lines stay as they are
    root = at.root()
    config = configuration(root).config
    key = config.default_model_key if key is None else key
    found = _with_models(at, lambda here: here.list_models())
    choice = choice_of(name, model, found.shelf, found.ollama)
    change = {"backend": choice.backend, "base_url": choice.base_url, "model": choice.model}
    _require_no_foreign_secrets(config.models.get(key), choice.base_url)
    configuration(root, {"models": {key: dict(change)}})  # a choice that is not valid is not written
    saved = save_model(file_to_change(os.environ), key, change)
    load_config.cache_clear()
    now = configuration(root)
    overruled = {
        name: now.origins[f"models.{key}.{name}"]
        for name, value in change.items()
        if getattr(now.config.models[key], name) != value
    }
    kept = [name for name in now.config.models[key].model_fields_set if name not in change]
    undo = f"fabric models use {AUTO} --key {key}" if saved.backup is None else f"mv {saved.backup} {saved.path}"
    if at.as_json:
        backup = None if saved.backup is None else str(saved.backup)
        print_json({"key": key, **change, "file": str(saved.path), "backup": backup, "overruled_by": overruled})
        return
    out = [f"{key} is now {plain(choice.what)}.", f"Written to {saved.path}:", *_indent(saved.lines)]
    if kept:
        out.append(f"Other settings of this model stay: {', '.join(sorted(kept))}")
    out += [f"Try it: fabric models probe {key}", f"Undo:   {undo}"]
    sys.stdout.write("\n".join(out) + "\n")
    for setting, origin in overruled.items():
        print_warning(f"`models.{key}.{setting}` is set by {origin} as well, which wins")


def _require_no_foreign_secrets(now: ModelConfig | None, base_url: str | None) -> None:
    """Make sure that a key for one server is not sent to another one from now on.

    Raises:
        ConfigError: it would be.
    """
    if now is None or base_url is None or not (now.api_key or now.headers):
        return
    if urlsplit(now.base_url or "").netloc != urlsplit(base_url).netloc:
        raise ConfigError(
            f"The key or the headers of this model are for {now.base_url or 'another server'}, not for {base_url}",
            hint="Take `api_key` and `headers` out of the configuration first, or choose another key with --key.",
        )


@app.command()
def probe(key: Key = None, *, at: Place) -> int:
    """Ask a model a few small questions: how it calls tools, its window, its speed. Later runs use what was found.

    \b
    Examples:
      fabric models probe
      fabric models probe fast --json
    """  # noqa: D301 - the mark makes lines stay as they are

    async def ask(models: "_LocalModels | ServerModels") -> Json:
        if isinstance(models, _LocalModels):
            return await models.probe(key, notices)
        notices("the server asks its model; that may take a minute")
        return await models.probe(key)

    with Notices(shown=_progress_is_welcome(at.as_json)) as notices:
        try:
            probed = _models(at, ask)
        except KeyboardInterrupt:
            return _report_interruption(f"fabric models probe {key or ''}".rstrip(), at)
    at.print(probed, probed_text(probed, key or probed["key"], sys.stdout))
    return FAILED if probed["dialect"] is None else COMPLETED


@app.command()
def rm(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An embedded model, or a file in its folder.")],
    *,
    at: Folder,
) -> None:
    """Delete a downloaded model, or what an unfinished download left.

    Example: fabric models rm fast
    """

    async def go(here: ModelsHere) -> int:
        path = _file_named(name, here)
        for server in here.servers.running():
            if server.path != str(path.resolve()):
                continue
            if server.in_use:
                raise WeightsUnavailable(
                    f"{path.name} is in use by process {server.pid}",
                    hint="Wait until the run has ended, or end the server: fabric models stop --all",
                )
            await here.servers.stop_idle()
        return here.weights.folder.remove(name)

    freed = _with_models(at, go)
    at.print({"name": name, "freed_bytes": freed}, f"Deleted {plain(name)}: {freed / 1e6:,.0f} MB are free again.\n")


@app.command()
def stop(
    everything: Annotated[bool, typer.Option("--all", help="Also stop servers in use.")] = False, *, at: Folder
) -> None:
    """Stop idle embedded model servers; they also stop by themselves after a while.

    Example: fabric models stop
    """

    async def go(here: ModelsHere) -> tuple[int, int]:
        ended = await (here.servers.stop_all() if everything else here.servers.stop_idle())
        return ended, sum(server.in_use for server in here.servers.running())

    ended, left = _with_models(at, go)
    if at.as_json:
        print_json({"ended": ended, "in_use": left})
        return
    text = f"Ended {ended} embedded model server{'' if ended == 1 else 's'}." if ended else "No idle server runs."
    more = f" {left} in use; end {'it' if left == 1 else 'them'} with --all." if left else ""
    sys.stdout.write(text + more + "\n")


def _file_named(name: str, here: ModelsHere) -> Path:
    folder = here.weights.folder
    there = {each.name: each.path for each in folder.list_installed()}
    stem = name.strip().removesuffix(".gguf")
    if stem in there:
        return there[stem]
    try:
        return folder.file_of(find(name))
    except ConfigError as problem:
        hint = f"A model of Ollama is removed with: ollama rm {name}" if ":" in name else problem.hint
        raise ConfigError(problem.message, hint=hint) from None


def _with_models(at: Place, work: Callable[[ModelsHere], Awaitable[T]]) -> T:
    return work_within(_open(at), lambda models: work(models.here))


def _progress_is_welcome(as_json: bool) -> bool:
    return not as_json or sys.stderr.isatty()


def _report_interruption(again: str, at: Place) -> int:
    message, hint = "Stopped", f"`{again}` continues where it was."
    if at.as_json:
        print_json(error_object(Interrupted(message, hint=hint)))
    else:
        sys.stderr.write(f"{message}; {hint}\n")
    return INTERRUPTED


def _indent(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]
