"""Secrets in variables of the environment."""

from collections.abc import Mapping


class EnvironmentSecrets:
    """SecretSource over the environment: a secret is the variable of its name."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    async def get(self, name: str) -> str | None:
        return self._environ.get(name) or None

    def how_to_set(self, name: str) -> str:
        return f"Set the environment variable {name} where fabric is started, and run the step again."
