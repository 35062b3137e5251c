"""The program that runs llama.cpp: `python -m agent_fabric.infrastructure.llm.servers.embedded_child`.

It reads its settings, one JSON object, from stdin, where no other user can see them. It ends by itself: when nobody has
used it for a while, when its state file is gone or speaks of another process, on SIGTERM. It imports little, since
whoever started it waits.
"""

import importlib
import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_fabric.infrastructure.llm.servers.cores import usable_cores
from agent_fabric.infrastructure.llm.servers.locks import FileLock, is_free
from agent_fabric.infrastructure.llm.servers.loopback import slots_of
from agent_fabric.infrastructure.llm.servers.server_files import Listening, ServerFiles
from agent_fabric.infrastructure.llm.servers.signals import signal_socket

EXIT_EXTRA_MISSING = 71
EXIT_NOT_LOADED = 72
_LONGEST_LOOK_S = 2.0
_MAX_PROMPT_CACHE_MIB = 1024
"""llama.cpp itself would keep up to 8 GB of conversations that it may or may not see again."""


def main() -> int:
    """Load the model, say where it can be asked, and wait for the end."""
    settings: dict[str, Any] = json.load(sys.stdin)
    files = ServerFiles(Path(settings["folder"]), settings["key"])
    try:
        xllamacpp: Any = importlib.import_module("xllamacpp")  # here, since whoever imports this module may lack it
    except ImportError as problem:
        print(f"xllamacpp cannot be imported: {problem}", file=sys.stderr)  # noqa: T201 - to the log
        return EXIT_EXTRA_MISSING
    try:
        server = xllamacpp.Server(_params(xllamacpp, settings))
    except (RuntimeError, ValueError, MemoryError) as problem:
        print(f"The model cannot be loaded: {problem}", file=sys.stderr)  # noqa: T201 - to the log
        return EXIT_NOT_LOADED
    port = int(server.listening_address.rsplit(":", 1)[1])
    serve_until_idle(files, port, settings)
    return 0


def _params(xllamacpp: Any, settings: dict[str, Any]) -> Any:
    threads = settings["threads"] or usable_cores()
    params = xllamacpp.CommonParams()
    params.model.path = settings["model"]
    params.model_alias = {settings["name"]}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [settings["api_key"]]
    params.n_parallel = settings["slots"]
    params.n_ctx = settings["context_window"] * settings["slots"]
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.cache_ram_mib = _prompt_cache_mib()
    params.endpoint_slots = True
    params.use_jinja = True
    params.ui = False
    params.offline = True
    return params


def _prompt_cache_mib() -> int:
    with suppress(OSError, ValueError, AttributeError):
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
        return max(64, min(_MAX_PROMPT_CACHE_MIB, free // 8))
    return _MAX_PROMPT_CACHE_MIB


def serve_until_idle(files: ServerFiles, port: int, settings: dict[str, Any]) -> None:
    """Announce the server and stay until nobody needs it; the state file is gone when this returns."""
    ended = signal_socket(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    api_key, idle_s = str(settings["api_key"]), float(settings["idle_s"])
    slots = None
    with suppress(OSError):  # it listens, but the machine may be very busy: then as it was told
        slots = slots_of(port, api_key=api_key, timeout_s=10)
    files.announce(
        Listening(
            os.getpid(),
            port,
            api_key,
            slots.total if slots else int(settings["slots"]),
            slots.context_window if slots else int(settings["context_window"]),
            idle_s,
        )
    )
    last_used = time.monotonic()
    while not select.select([ended], [], [], min(_LONGEST_LOOK_S, idle_s / 4))[0]:
        files.shorten_log()
        said = files.listening()
        if said is None or said.pid != os.getpid():
            return  # somebody wants us gone, or the folder was cleaned up: nobody could find us any more
        if not is_free(files.lease) or _at_work(port, api_key):
            last_used = time.monotonic()
            with suppress(OSError):
                os.utime(files.lease)
        elif time.monotonic() - last_used >= idle_s and FileLock.take(files.lease) is not None:
            break  # the lease is ours until we are gone: who comes now waits for that, and then starts another
    files.withdraw()


def _at_work(port: int, api_key: str) -> bool:
    try:
        slots = slots_of(port, api_key=api_key, timeout_s=1.0)
    except OSError:
        return True  # too busy to answer
    return slots is not None and slots.busy > 0


if __name__ == "__main__":
    code = main()
    if code == 0:
        os._exit(0)  # llama.cpp has threads that do not end by themselves, and nothing to lose
    sys.exit(code)  # in good order: llama.cpp writes its log late, and that says why
