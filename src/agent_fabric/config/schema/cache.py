"""What is kept so that it need not be made again."""

from agent_fabric.config.schema.values import Settings


class CacheConfig(Settings):
    """Caches that change what happens; others need no setting."""

    responses: bool = False
    """Whether an answer of a model is used again when the same owner asks exactly the same: same model, temperature 0,
    no tools. The log names the run that the answer is from."""
