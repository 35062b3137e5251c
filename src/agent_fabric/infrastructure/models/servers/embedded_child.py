"""The program that runs llama.cpp: `python -m agent_fabric.infrastructure.models.servers.embedded_child`.

It reads its settings, one JSON object, from stdin, where no other user can see them. It ends by itself when it is idle,
when its announcement is gone, and on SIGTERM. It imports little: its start is waited for.
"""

import importlib
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_fabric.infrastructure.models.servers.cores import usable_cores
from agent_fabric.infrastructure.models.servers.server_files import ServerFiles
from agent_fabric.infrastructure.models.servers.serving import serve_until_idle

EXIT_EXTRA_MISSING = 71
EXIT_NOT_LOADED = 72
_MAX_PROMPT_CACHE_MIB = 1024
"""llama.cpp itself would keep up to 8 GB of conversations that it may or may not see again."""


def main() -> int:
    """Load the model, say where it can be asked, and wait for the end."""
    settings: dict[str, Any] = json.load(sys.stdin)
    files = ServerFiles(Path(settings["folder"]), settings["key"])
    try:
        xllamacpp: Any = importlib.import_module("xllamacpp")  # here, since the importing process may lack it
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


if __name__ == "__main__":
    code = main()
    if code == 0:
        os._exit(0)  # llama.cpp has threads that do not end by themselves, and nothing to lose
    sys.exit(code)  # in good order: llama.cpp writes its log late, and that says why
