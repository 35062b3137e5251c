"""The worker that `fabric cluster drill` starts and kills, as a process: this module, and a fabric folder."""

import asyncio
import json
import os
import sys
from pathlib import Path

from agent_fabric.bootstrap.worker import SLOTS, serve_drill
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.domain.errors import FabricError
from agent_fabric.domain.ids import RunId
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED
from agent_fabric.interfaces.cli.options import configuration


def main(root: Path) -> int:
    """Drive the run of a drill; one line says which worker and which run it is."""

    def tell(worker_id: str, run_id: RunId) -> None:
        sys.stdout.write(json.dumps({"worker_id": worker_id, "run_id": run_id, "pid": os.getpid()}) + "\n")
        sys.stdout.flush()

    try:
        asyncio.run(serve_drill(root, configuration(root, SLOTS), tell))
    except (FabricError, ConfigProblem) as problem:
        sys.stderr.write(f"{problem.message}\n")
        return FAILED
    return COMPLETED


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
