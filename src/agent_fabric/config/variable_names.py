"""Names of environment variables that are ours. Those that hold secrets are hidden from programs we start."""

import re
from collections.abc import Mapping
from typing import Final

OURS: Final = frozenset(
    (
        *("AUDIT_KEY", "ENCRYPTION_KEY", "JWT_SECRET", "API_KEY_PEPPER", "VAULT_TOKEN"),
        *("FABRIC_STORE", "FABRIC_STORE__URL", "FABRIC_NATS", "FABRIC_NATS__URL", "FABRIC_REDIS", "FABRIC_REDIS__URL"),
    )
)
"""What opens agent-fabric itself, or other secrets."""
CREDENTIALS: Final = frozenset(("FABRIC_TOKEN", "FABRIC_API_KEY"))
"""What the command line shows to a server."""


def without_own_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for a program of the user's own choice, which has no business with ours."""
    return {name: value for name, value in environ.items() if name not in OURS | CREDENTIALS}


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


def own_values(environ: Mapping[str, str]) -> frozenset[str]:
    """Return the values in the environment that open agent-fabric itself, to be kept out of logs."""
    return frozenset(value for name in OURS for value in re.split(r"[\s,]+", environ.get(name, "")) if value)
