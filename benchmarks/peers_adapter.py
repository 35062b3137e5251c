"""Our row in a harness that measures agent frameworks side by side.

The harness is not part of this repository: it names this file in BENCH_OWN_ADAPTER, puts the folder of its `_common`
module on the path, and starts this file with our interpreter. See benchmarks/RESULTS.md for the command.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from turn_workers import fabric_with

from _common import SYSTEM, add, main  # type: ignore[import-not-found]  # isort: skip  # the harness's own module


async def setup(base_url: str) -> dict[str, Any]:
    """Build once what a user would build once."""
    run = await fabric_with(base_url, Path(tempfile.mkdtemp()), system=SYSTEM, add=add)
    return {"run": run}


if __name__ == "__main__":
    main(setup)
