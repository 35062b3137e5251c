"""Where the files of runs are kept for other machines."""

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.values import SecretReference, Settings

_BACKEND: Final = re.compile(r"folder:/.+|s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?:/[A-Za-z0-9!_.*'()/-]*)?")
_ENDPOINT: Final = re.compile(r"https?://[^/?#@\\s]+")


def _backend(place: str) -> str:
    if place and not _BACKEND.fullmatch(place):
        raise ConfigProblem("must be 'folder:/ABSOLUTE/PATH', 's3://BUCKET' or 's3://BUCKET/PREFIX'")
    return place


def _endpoint(address: str) -> str:
    if address and not _ENDPOINT.fullmatch(address):
        raise ConfigProblem("must be an address without a path, such as 'https://s3.example.org'")
    return address


class WorkspacesConfig(Settings):
    """Files of runs, for machines that share a PostgreSQL database (`store.url`) and no disk."""

    backend: Annotated[str, AfterValidator(_backend)] = ""
    """Where files of runs are saved: `s3://BUCKET/PREFIX` at any S3-compatible service, or `folder:/PATH` on a disk
    that all machines share; empty: they stay on the machine that made them."""
    save: Literal["calls", "never"] = "calls"
    """When: `calls` with the result of each call that changed a file; `never` for runs that begin from now on. Files
    that were saved are found in either case."""
    endpoint: Annotated[str, AfterValidator(_endpoint)] = ""
    """Address of the S3 service; empty: that of Amazon in `region`."""
    region: str = "us-east-1"
    """Region of the bucket."""
    access_key: SecretReference = "env:AWS_ACCESS_KEY_ID"
    """Name of the key for S3."""
    secret_key: SecretReference = "env:AWS_SECRET_ACCESS_KEY"  # noqa: S105 - a reference
    """The key itself."""
