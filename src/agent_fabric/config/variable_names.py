"""Names of environment variables that are ours."""

from typing import Final

from agent_fabric.config.own_secrets import CREDENTIALS

PREFIX: Final = "FABRIC_"
CONFIG_PATH: Final = "FABRIC_CONFIG_PATH"
RESERVED: Final = frozenset(
    {
        CONFIG_PATH,
        "FABRIC_RUN_ID",
        "FABRIC_COMMAND_ID",
        "FABRIC_MODELS_DIR",
        "FABRIC_URL",
        "FABRIC_DOMAIN",
        "FABRIC_SKIP_REAL_LLM",
        *CREDENTIALS,
    }
)
"""Variables with our prefix that mean something else than a setting."""
