"""Writes the table out of which shells complete subcommands and options, from the commands themselves.

python scripts/completion_table.py
"""

from pathlib import Path

from agent_fabric.interfaces.cli.completion import table_of_commands
from agent_fabric.interfaces.cli.completion_table import PATH

if __name__ == "__main__":
    Path(PATH).write_text(table_of_commands(), encoding="utf-8")
