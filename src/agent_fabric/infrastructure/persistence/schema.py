"""The format of the store: numbered steps in `migrations/steps`, one SQL file each, for every database.

`Dialect.schema` maps column types, views and full-text tables. A step is never changed after a release; a new one
follows the last, and raises `FORMAT`.
"""

import os
from typing import Final

FORMAT: Final = 35
"""The number of the newest step, and of the format that it leads to."""
MIN_WRITER: Final = 19
"""The oldest format whose programs may use the newest tables; others hand over and end. It rises only with a step that
changes or removes something, so that processes of the last release go on beside those of this one."""
FORMAT_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS fabric_format (version BIGINT NOT NULL)",
    "ALTER TABLE fabric_format ADD COLUMN IF NOT EXISTS min_writer BIGINT NOT NULL DEFAULT 0",
)
"""Where a PostgreSQL database keeps its format, and what a program has to know at least to use it."""
STEPS: Final = os.path.join(os.path.dirname(__file__), "migrations", "steps")  # noqa: PTH118, PTH120 - see below


def read_steps(after: int = 0) -> list[str]:
    """Return the statements that lift a store of a format, one text for each step; an up-to-date store needs none."""
    # Shell completion reads the number of the format, and pathlib takes longer to load than that.
    names = sorted(os.listdir(STEPS)) if after < FORMAT else []  # noqa: PTH208 - see above
    return [_read(name) for name in names if name.endswith(".sql") and int(name.partition("_")[0]) > after]


def _read(name: str) -> str:
    with open(os.path.join(STEPS, name), encoding="utf-8") as file:  # noqa: PTH118, PTH123 - see above
        return file.read()
