"""Limits that hold everywhere and are not settings."""

from typing import Final

MAX_PROMPT_CHARS: Final = 1_000_000
"""How long a task may be, typed or sent."""

MAX_TOOL_OUTPUT_CHARS: Final = 16_000
"""How much of a tool's output the model gets to read; the rest is cut."""

MAX_LLM_CONTENT_IN_RUNLOG_CHARS: Final = 2_000
"""How much of a model's answer the run log shows."""

LLM_DISCOVERY_TIMEOUT_S: Final = 5.0
"""How long a model server may take to list its models."""

SHELL_DEFAULT_TIMEOUT_S: Final = 120.0
"""How long a shell command may run unless configured otherwise."""
DEFAULT_LEASE_TTL_S: Final = 10.0
"""How long a process may be away before others take over its runs."""
DEFAULT_CLUSTER: Final = "fabric"
CLUSTER_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$"
"""What a cluster may be called: one word of a subject of NATS."""
DEFAULT_POOL: Final = "default"
"""The pool of runs that name none, and of workers that are given none."""
POOL_PATTERN: Final = r"^[a-z0-9][a-z0-9_-]{0,62}$"
"""What a pool may be called."""
