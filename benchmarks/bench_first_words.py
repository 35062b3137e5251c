"""How long a fresh process of the embedded model takes to its first call, beside a plain loop on the same weights.

    python benchmarks/bench_first_words.py                 # three rounds with the 1.5B
    python benchmarks/bench_first_words.py --model fast --rounds 5

Each round starts a new server three times: for `fabric run` with nothing kept, for `fabric run` again, which begins
with what the first one kept of its instructions, and for the plain loop of `tool_tasks`. Loading the weights is not
counted in any of them: they are read from the page cache here, and from a disk elsewhere.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from agent_fabric.infrastructure.models.servers.llama_servers import LlamaServers, ServerSpec
from agent_fabric.infrastructure.models.weights.catalogue import find
from agent_fabric.infrastructure.models.weights.folder import ModelFolder, models_folder
from tool_tasks.plain_loop import SYSTEM, ask

TASK = "Make a folder called photos"
KINDS = ("nothing kept", "kept", "plain loop")


def fabric(folder: Path, model: str, *arguments: str) -> str:
    """Run a command of the program and return what it printed."""
    keys = {key: {"backend": "embedded", "model": model} for key in ("quality", "fast")}
    (folder / "config.json").write_text(json.dumps({"models": keys}))
    environment = os.environ | {
        "FABRIC_CONFIG_PATH": str(folder / "config.json"),
        "XDG_STATE_HOME": str(folder / "state"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "XDG_RUNTIME_DIR": str(folder / "runtime"),
        "FABRIC_MODELS_DIR": str(models_folder(os.environ)),
    }
    command = [sys.executable, "-m", "agent_fabric", *arguments, "--workspace", str(folder / "work")]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment, stdin=subprocess.DEVNULL
    ).stdout


def first_call_of_fabric(folder: Path, model: str) -> float:
    """Return the seconds from the loaded model to its first call, which the log holds."""
    result: dict[str, Any] = json.loads(fabric(folder, model, "run", TASK, "--pack", "engineering", "--json"))
    events = (Path(result["_meta"]["run_dir"]) / "runlog.jsonl").read_text().splitlines()
    answers = [json.loads(line)["payload"] for line in events if json.loads(line)["kind"] == "llm_response"]
    fabric(folder, model, "models", "stop", "--all")
    # The first call looks around, and asks no model.
    return float(next(answer["duration_s"] for answer in answers if answer["usage"]["completion_tokens"]))


async def first_call_of_plain_loop(folder: Path, weights: Path) -> float:
    """Return the same of a loop that knows nothing of agent-fabric."""
    servers = LlamaServers(folder / "plain")
    try:
        server = await servers.ensure(ServerSpec(model=weights))
        begun = time.perf_counter()
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}]
        ask(server.base_url, messages, None, server.api_key)
        return time.perf_counter() - begun
    finally:
        await servers.stop_all()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="quality", help="a name of the catalogue")
    parser.add_argument("--rounds", type=int, default=3)
    wanted = parser.parse_args()
    model = find(wanted.model)
    weights = ModelFolder(models_folder(os.environ)).file_of(model)
    if not weights.is_file():
        sys.exit(f"{model.name} is not there. Download it with: fabric models pull {wanted.model}")
    took: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for number in range(wanted.rounds):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            took["nothing kept"].append(first_call_of_fabric(folder, model.name))
            took["kept"].append(first_call_of_fabric(folder, model.name))
            took["plain loop"].append(asyncio.run(first_call_of_plain_loop(folder, weights)))
        print(f"round {number + 1}: " + ", ".join(f"{kind} {took[kind][-1]:.1f} s" for kind in KINDS), flush=True)
    medians = {kind: statistics.median(each) for kind, each in took.items()}
    print(f"\n{model.name}, {os.cpu_count()} cores, medians of {wanted.rounds}")
    for kind in KINDS:
        ratio = medians[kind] / medians["nothing kept"]
        print(f"  {kind:<14}{medians[kind]:7.1f} s   {ratio:5.2f} of a process with nothing kept")


if __name__ == "__main__":
    main()
