"""`fabric web`: the page in the browser, logged in."""

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
import webbrowser
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from agent_fabric.bootstrap.records import running_server
from agent_fabric.bootstrap.this_machine import read_local_token
from agent_fabric.domain.errors import ConfigError, FabricError, StoreUnavailable
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED
from agent_fabric.interfaces.cli.options import configuration, require_a_person
from agent_fabric.interfaces.cli.output import print_warning
from agent_fabric.interfaces.cli.place import PlainPlace, with_client

app = new_app("Open the page in the browser.")


@app.command()
def web(
    print_address: Annotated[
        bool, typer.Option("--print", help="Print the address with its login code instead of opening a browser.")
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="Port to listen on, if no server runs yet; 0 takes a free one."),
    ] = None,
    *,
    at: PlainPlace,
) -> int:
    """Open the page, logged in. The address works once, for a minute.

    If no server runs for this folder, one is started: until Ctrl-C, or with --print in the background.
    """
    require_a_person()
    named = at.url()
    if named is not None:
        _show(_address(named), print_address=print_address)
        return COMPLETED
    root = at.root()
    url = running_server(root)
    if url is not None:
        _show(_address(url, root), print_address=print_address)
        return COMPLETED
    chosen = _free_port(root, port)
    if print_address:
        started = start_server(root, port=chosen)
        sys.stderr.write(f"note: a server was started; end it with: kill {started.pid}\n")
        _show(_address(started.url, root), print_address=True)
        return COMPLETED
    _serve_and_open(root, chosen)
    return COMPLETED


def _address(url: str, root: Path | None = None) -> str:
    """Return where the page opens: for the owner of a folder, or for who we are at the server."""
    token = None if root is None else read_local_token(root)
    return f"{url}/#login={with_client(url, lambda client: client.page_code(), token=token)}"


def _show(address: str, *, print_address: bool) -> None:
    if print_address:
        sys.stdout.write(f"{address}\n")
        sys.stdout.flush()
        return
    with contextlib.suppress(webbrowser.Error):
        if webbrowser.open(address):
            sys.stderr.write(f"The page opens in the browser: {address.partition('#')[0]}\n")
            return
    sys.stderr.write("No browser was found here. Open this address within a minute:\n")
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()


def _free_port(root: Path, wanted: int | None) -> int:
    """Return the port to listen on: the configured one, or another if a server of another folder has it."""
    if wanted is not None:
        return wanted
    from agent_fabric.interfaces.http.server import open_listener  # noqa: PLC0415 - `--help` needs no web framework

    settings = configuration(root).config.server
    try:
        open_listener(settings.host, settings.port).close()
    except ConfigError:
        return 0
    return settings.port


def _serve_and_open(root: Path, port: int) -> None:
    from agent_fabric.interfaces.http.server import serve  # noqa: PLC0415 - `--help` needs no web framework

    def open_page(url: str) -> None:
        try:
            _show(_address(url, root), print_address=False)
        except FabricError as problem:
            print_warning(f"{problem.message}. {problem.hint}")

    def tell(url: str) -> None:
        sys.stderr.write(f"fabric web: {url} ({root}); Ctrl-C ends it\n")
        threading.Thread(target=open_page, args=(url,), daemon=True).start()  # the server has to answer meanwhile

    serve(root, configuration(root, {"server": {"port": port}}), on_listening=tell)


START_TIMEOUT_S = 60.0


class BackgroundServer(NamedTuple):
    """A server that was started."""

    url: str
    pid: int


def start_server(root: Path, *, port: int) -> BackgroundServer:
    """Start `fabric serve` for a fabric folder, and wait until it listens. What it logs is in its `server.log`.

    Raises:
        StoreUnavailable: it did not start.
    """
    command = [sys.executable, "-m", "agent_fabric", "serve", "--json", "--port", str(port), "--workspace", str(root)]
    # Beside the folder at first: one that has something in it already would not be taken for our own.
    file, log = tempfile.mkstemp(prefix=".fabric-server-", suffix=".log", dir=root.parent)
    with os.fdopen(file, "ab") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
    assert process.stdout is not None
    with process.stdout as output:
        told = _first_line(output.fileno())
    try:
        answer = json.loads(told)
        started = BackgroundServer(answer["url"], answer["pid"])
    except (ValueError, KeyError):
        process.terminate()
        raise StoreUnavailable("The server could not start", hint=_why(told) or f"See {log}.") from None
    Path(log).replace(root / "server.log")
    return started


def _why(told: bytes) -> str:
    """Return what a server has said about why it does not start."""
    try:
        problem = json.loads(told)["error"]
        return f"{problem['message']}. {problem['hint']}"
    except (ValueError, KeyError, TypeError):
        return ""


def _first_line(file: int) -> bytes:
    text, deadline = b"", time.monotonic() + START_TIMEOUT_S
    while b"\n" not in text and select.select([file], [], [], max(0.0, deadline - time.monotonic()))[0]:
        if not (piece := os.read(file, 4096)):
            break
        text += piece
    return text
