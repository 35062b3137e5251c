"""Joins what saves the files of runs for other machines."""

from pathlib import Path
from urllib.parse import urlsplit

from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.application.ports.workspace_archive import ObjectStore
from agent_fabric.config.schema.runs import WorkspacesConfig
from agent_fabric.infrastructure.runs.log.layout import Layout
from agent_fabric.infrastructure.runs.workspaces.folder_objects import FolderObjects
from agent_fabric.infrastructure.runs.workspaces.saved_folders import SavedFolders


def open_archive(config: WorkspacesConfig, layout: Layout, resolve: Resolve) -> SavedFolders | None:
    """Return what saves and restores files of runs; None if nothing is configured. Nothing is connected yet."""
    return SavedFolders(layout, open_objects(config, resolve)) if config.backend else None


def open_objects(config: WorkspacesConfig, resolve: Resolve) -> ObjectStore:
    """Return the store that is configured."""
    place = urlsplit(config.backend)
    if place.scheme == "folder":
        return FolderObjects(Path(place.path))
    from agent_fabric.infrastructure.runs.workspaces.s3_objects import (  # noqa: PLC0415 - few have one
        S3Bucket,
        S3Credentials,
        S3Objects,
    )

    async def credentials() -> S3Credentials:
        return S3Credentials(await resolve(config.access_key), await resolve(config.secret_key))

    endpoint = config.endpoint or f"https://s3.{config.region}.amazonaws.com"
    bucket = S3Bucket(endpoint=endpoint, bucket=place.netloc, prefix=place.path.strip("/"), region=config.region)
    return S3Objects(bucket, credentials)
